/** Events, added up. */

import { StreamError } from "./errors.js";
import type { ObjectRecord, Outcome, StreamEvent, ToolCallRecord, Usage } from "./events.js";
import type { OnDegraded } from "./options.js";

export class Fold {
  runId = "";
  #usage: Usage | undefined;
  readonly #onDegraded: OnDegraded;
  readonly #text: string[] = [];
  readonly #objects: ObjectRecord[] = [];
  readonly #calls = new Map<string, ToolCallRecord>();
  readonly #errors: StreamError[] = [];
  #result: (StreamEvent & { type: "result.end" }) | undefined;
  #last: StreamEvent | undefined;
  #failure: StreamError | undefined;

  constructor(onDegraded: OnDegraded = "raise") {
    this.#onDegraded = onDegraded;
  }

  /** Add one event; an error event is returned as the error that it tells of. */
  add(event: StreamEvent): StreamError | undefined {
    const before = this.#last;
    this.#last = event;
    switch (event.type) {
      case "text.delta":
        this.#text.push(event.text);
        return undefined;
      case "json.end":
        this.#objects.push(recordObject(event));
        return undefined;
      case "result.end":
        this.#result = event;
        return undefined;
      case "tool.call":
        this.#addCall(event);
        return undefined;
      case "tool.result":
        this.#addResult(event);
        return undefined;
      case "error":
        return this.#addError(event);
      case "done":
        this.#usage = event.usage;
        this.#failure = this.#judge(before);
        return undefined;
      default:
        return undefined;
    }
  }

  /** Why the run failed, once `done` has been added; nothing when it has a result. */
  get failure(): StreamError | undefined {
    return this.#failure;
  }

  outcome(): Outcome {
    const { status, invented } = this.#result ?? {};
    return {
      runId: this.runId,
      result: this.#result?.value,
      ...(status !== undefined && { resultStatus: status }),
      ...(invented !== undefined && { resultInvented: invented }),
      objects: this.#objects.slice(),
      text: this.#text.join(""),
      toolCalls: Array.from(this.#calls.values(), (call) => ({ ...call })),
      errors: this.#errors.filter((error) => error !== this.#failure),
      ...(this.#usage !== undefined && { usage: this.#usage }),
    };
  }

  /** An error about no frame, right before `done`, is the end of the run and not a remark. */
  #judge(before: StreamEvent | undefined): StreamError | undefined {
    if (before?.type === "error" && before.id === undefined) return this.#errors.at(-1);
    if (this.#result === undefined) return new StreamError("no_result", "the stream ended without a result");
    if (this.#result.status !== "degraded" || this.#onDegraded === "accept") return undefined;
    return degraded(this.#result);
  }

  #addCall(event: StreamEvent & { type: "tool.call" }): void {
    const { id, name, args, client } = event;
    this.#calls.set(id, { id, name, args, client, cached: false });
  }

  #addResult(event: StreamEvent & { type: "tool.result" }): void {
    const { id, name, result, cached } = event;
    const call = this.#calls.get(id) ?? { id, name, args: undefined, client: false };
    this.#calls.set(id, { ...call, result, cached });
  }

  #addError(event: StreamEvent & { type: "error" }): StreamError {
    const error = new StreamError(event.code, event.message, { id: event.id });
    this.#errors.push(error);
    return error;
  }
}

function degraded({ id, invented }: StreamEvent & { type: "result.end" }): StreamError {
  const named = invented?.join(", ") || "nothing";
  const message = `the result is degraded; invented: ${named}. To take it as it is, give onDegraded: "accept"`;
  return new StreamError("degraded", message, { id, invented });
}

function recordObject(event: StreamEvent & { type: "json.end" }): ObjectRecord {
  const { id, schema, value, status, invented } = event;
  return {
    id,
    schema,
    value,
    ...(status !== undefined && { status }),
    ...(invented !== undefined && { invented }),
  };
}
