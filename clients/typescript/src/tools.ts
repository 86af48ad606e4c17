/** Tools that run on this side. */

import type { ToolCallEvent } from "./events.js";
import type { FunctionTool, OnToolCall, ToolCall } from "./options.js";
import type { Answer } from "./transport.js";
import { after, until } from "./waiting.js";

export interface ToolRunnerSettings {
  functions: ReadonlyMap<string, FunctionTool>;
  onToolCall: OnToolCall | undefined;
  timeoutMs: number;
}

export class ToolRunner {
  readonly #settings: ToolRunnerSettings;
  readonly #running = new Map<string, AbortController>();

  constructor(settings: ToolRunnerSettings) {
    this.#settings = settings;
  }

  /** Run the tool; nothing comes back when its answer is no longer wanted. */
  async run(event: ToolCallEvent, runId: string): Promise<Answer | undefined> {
    const { id, name, args } = event;
    const stop = new AbortController();
    const { timeoutMs } = this.#settings;
    const callOff = after(timeoutMs, () => stop.abort(new Error(`no answer after ${timeoutMs} ms`)));
    this.#running.set(id, stop);
    const call = { id, name, args, client: true, runId, signal: stop.signal };
    try {
      return encodeAnswer(id, await until(stop.signal, this.#call(call)));
    } catch (error) {
      return this.#running.has(id) ? { id, error: describe(error) } : undefined;
    } finally {
      callOff();
      this.#running.delete(id);
    }
  }

  /** Stop a tool whose answer is no longer wanted, or all of them. */
  stop(id?: string): void {
    for (const running of id === undefined ? [...this.#running.keys()] : [id]) {
      const controller = this.#running.get(running);
      this.#running.delete(running);
      controller?.abort(new Error("the answer is no longer wanted"));
    }
  }

  async #call(call: Required<ToolCall>): Promise<unknown> {
    const { functions, onToolCall } = this.#settings;
    const tool = functions.get(call.name);
    if (tool !== undefined) return tool.run(call.args, call);
    if (onToolCall !== undefined) return onToolCall(call);
    throw new Error(`the client has no tool ${call.name}`);
  }
}

/** A tool that returns nothing answers null; one that returns no JSON has failed. */
function encodeAnswer(id: string, value: unknown): Answer {
  const text = JSON.stringify(value ?? null);
  if (text === undefined) throw new Error(`the tool returned ${typeof value}, which is no JSON`);
  return { id, result: value ?? null };
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
