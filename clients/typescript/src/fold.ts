/** Events, added up. */

import { StreamError } from "./errors.js";
import type { FrameStatus, ObjectRecord, Outcome, StreamEvent, ToolCallRecord } from "./events.js";

export class Fold {
  runId = "";
  usage: unknown;
  readonly #text: string[] = [];
  readonly #objects: ObjectRecord[] = [];
  readonly #calls = new Map<string, ToolCallRecord>();
  readonly #errors: StreamError[] = [];
  #result: { value: unknown; status: FrameStatus | undefined } | undefined;
  #last: StreamEvent | undefined;
  #failure: StreamError | undefined;

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
        this.#result = { value: event.value, status: event.status };
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
    const status = this.#result?.status;
    return {
      runId: this.runId,
      result: this.#result?.value,
      ...(status !== undefined && { resultStatus: status }),
      objects: this.#objects.slice(),
      text: this.#text.join(""),
      toolCalls: Array.from(this.#calls.values(), (call) => ({ ...call })),
      errors: this.#errors.filter((error) => error !== this.#failure),
      ...(this.usage !== undefined && { usage: this.usage }),
    };
  }

  /** An error about no frame, right before `done`, is the end of the run and not a remark. */
  #judge(before: StreamEvent | undefined): StreamError | undefined {
    if (before?.type === "error" && before.id === undefined) return this.#errors.at(-1);
    if (this.#result !== undefined) return undefined;
    return new StreamError("no_result", "the stream ended without a result");
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

function recordObject(event: StreamEvent & { type: "json.end" }): ObjectRecord {
  const { id, schema, value, status } = event;
  return { id, schema, value, ...(status !== undefined && { status }) };
}
