/// <reference lib="esnext.disposable" preserve="true" />
/** Structured streams from a toolbridge server. */

import { StreamError } from "./errors.js";
import type { AnyObjects, Outcome, StreamEvent } from "./events.js";
import type { StreamOptions, WebSocketConstructor } from "./options.js";
import type { DeepPartial } from "./partial.js";
import { encodeHeaders, encodeRequest, functionTools, type RequestBody, streamUrl } from "./request.js";
import { SseTransport } from "./sse_transport.js";
import { Stream } from "./stream.js";
import { ToolRunner } from "./tools.js";
import { BackChannel, type Transport } from "./transport.js";
import { WsTransport } from "./ws_transport.js";

export { type ClientErrorCode, type ErrorCode, type ServerErrorCode, StreamError } from "./errors.js";
export type * from "./events.js";
export type * from "./options.js";
export { type DeepPartial, PartialJson } from "./partial.js";
export { SseDecoder, type SseFrame } from "./sse.js";

const TOOL_TIMEOUT_MS = 8000;
const IDLE_TIMEOUT_MS = 45_000;
const RECONNECT = { attempts: 6, baseMs: 250, maxMs: 5000 };

/** A stream that runs. Loop over it, give callbacks, or await `done`. */
export interface StreamHandle<Objects = AnyObjects, Result = unknown>
  extends AsyncIterable<StreamEvent<Objects, Result>>,
    AsyncDisposable {
  /** The name of the run, known when the server has accepted the request. */
  readonly runId: Promise<string>;
  /** What the stream adds up to. Rejects with a `StreamError` whose `outcome` has what arrived before. */
  readonly done: Promise<Outcome<Objects, Result>>;
  /** The id of the last event that was read. */
  readonly lastEventId: string | undefined;
  readonly paused: boolean;
  /** Stop reading. Buffers fill up to the server, which then stops the model. */
  pause(): void;
  resume(): void;
  /** Stop the run on the server, with its model and tools. `done` rejects with the code `aborted`. */
  abort(): Promise<void>;
  /** Leave. The run goes on without a reader, until the server abandons it. */
  close(): Promise<void>;
  /** The value of an object or result so far; undefined before its first character. */
  partial<Value = Objects[keyof Objects] | Result>(id: string): DeepPartial<Value> | undefined;
}

/**
 * Ask, and stream the answer.
 *
 * `Objects` names the schemas with their types, `Result` is the type of the result.
 */
export function startStream<Objects = AnyObjects, Result = unknown>(
  options: StreamOptions<Objects, Result>,
): StreamHandle<Objects, Result> {
  // The types of a caller's objects are claims about schemas, which only the server can check.
  const plain = options as unknown as StreamOptions;
  const address = streamUrl(plain.url);
  const fetcher = plain.fetch ?? globalThis.fetch.bind(globalThis);
  const stream = new Stream({
    transport: makeTransport(plain, address, encodeRequest(plain), fetcher),
    backChannel: new BackChannel(address, encodeHeaders(plain), fetcher),
    tools: new ToolRunner({
      functions: functionTools(plain.tools),
      onToolCall: plain.onToolCall,
      timeoutMs: plain.toolTimeoutMs ?? TOOL_TIMEOUT_MS,
    }),
    callbacks: plain,
    reconnect: { ...RECONNECT, ...plain.reconnect },
    onDegraded: plain.onDegraded,
    requestTimeoutMs: plain.requestTimeoutMs,
    signal: plain.signal,
  });
  return stream as unknown as StreamHandle<Objects, Result>;
}

function makeTransport(
  options: StreamOptions,
  address: URL,
  body: RequestBody,
  fetcher: typeof fetch,
): Transport {
  const { apiKey, idleTimeoutMs = IDLE_TIMEOUT_MS } = options;
  const shared = { address, body, idempotencyKey: chooseKey(options.idempotencyKey), idleTimeoutMs };
  if (options.transport === "ws") {
    return new WsTransport({ ...shared, apiKey, WebSocket: findWebSocket(options) });
  }
  return new SseTransport({ ...shared, headers: encodeHeaders(options), fetch: fetcher });
}

function findWebSocket(options: StreamOptions): WebSocketConstructor {
  const found = options.WebSocket ?? globalThis.WebSocket;
  if (found !== undefined) return found;
  const message = "this runtime has no WebSocket; give one, for example that of the package ws";
  throw new StreamError("unsupported", message, { where: "WebSocket" });
}

function chooseKey(key: string | false | undefined): string | undefined {
  if (key === false) return undefined;
  // randomUUID is missing in pages that were not served securely.
  return key ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), hex).join("");
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
