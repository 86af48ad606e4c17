/** What a caller may ask for. */

import type { StreamError } from "./errors.js";
import type { AnyObjects, FrameStatus, Step, StreamEvent } from "./events.js";

export type JsonSchema = Readonly<Record<string, unknown>> | boolean;

export interface Message {
  role: "user" | "assistant";
  content: string;
}

/** A call of a tool, as a callback gets it. */
export interface ToolCall {
  id: string;
  name: string;
  args: unknown;
  /** True when this client has to answer; false when the server runs the tool and only tells. */
  client?: boolean;
  /** With the id, a key under which a tool with side effects can remember what it did. */
  runId?: string;
  /** Fires when the answer is no longer wanted: the tool's time is up, or the stream has ended. */
  signal?: AbortSignal;
}

/** A piece of a frame, as a callback gets it. */
export interface FramePiece {
  id: string;
  /** The text that was added. */
  delta?: string;
  /** True on the last piece. */
  end?: boolean;
  schema?: string;
  /** On the last piece: the value that counts. */
  value?: unknown;
  /** On the last piece, when the text was not valid as it was written. */
  status?: FrameStatus;
  steps?: readonly Step[];
  /** On the last piece of a degraded value: the members that the model did not write. */
  invented?: readonly string[];
}

/** Answers a tool call. What it returns, or throws, is sent to the server when the call is ours. */
export type OnToolCall = (t: ToolCall) => Promise<unknown>;
/** Gets each piece of each object. When it returns a promise, reading waits for it. */
export type OnJSON = (j: FramePiece) => void;
/** Gets each piece of the result. When it returns a promise, reading waits for it. */
export type OnResult = (r: FramePiece) => void;
export type OnText = (text: string) => void;
export type OnError = (error: StreamError) => void;

interface ToolBase {
  name: string;
  description?: string;
  /** JSON Schema of the arguments. */
  parameters?: JsonSchema;
}

/** A tool that runs here: the function gets valid arguments. */
export interface FunctionTool extends ToolBase {
  // Arguments are checked by the server against `parameters`, so a tool may name their type.
  // biome-ignore lint/suspicious/noExplicitAny: any narrower type would refuse typed functions.
  run: (args: any, call: Required<ToolCall>) => unknown;
}

/** A tool that runs here, in `onToolCall`. */
export interface ClientTool extends ToolBase {
  client: true;
  /** JSON Schema of the result: the page makes a form of it. The server does not check results. */
  returns?: JsonSchema;
}

/** A tool that the server posts to. */
export interface UrlTool extends ToolBase {
  url: string;
}

/** A registered tool by name, or one of the caller's own. */
export type Tool = string | FunctionTool | ClientTool | UrlTool;

export interface Limits {
  frame?: number;
  depth?: number;
  arguments?: number;
  result?: number;
}

/** How a lost connection is taken up again. */
export interface Reconnect {
  /** Attempts in a row without a new event. 6 when absent; 0 gives up at once. */
  attempts?: number;
  /** The first wait, doubled each time, with jitter. 250 ms when absent. */
  baseMs?: number;
  /** The longest wait. 5000 ms when absent. */
  maxMs?: number;
}

/** The part of `WebSocket` that is used; browsers, Node 22 and the package `ws` have it. */
export interface WebSocketLike {
  readonly readyState: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "error" | "close", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
}

export type WebSocketConstructor = new (url: string) => WebSocketLike;

/** The question: a text or a conversation. */
type Question =
  | { prompt: string; messages?: undefined }
  | { messages: readonly Message[]; prompt?: undefined };

/** Fields of the request, as the wire contract describes them. */
export interface RequestOptions<Objects = AnyObjects> {
  system?: string;
  model?: string;
  /** Schemas of this stream, by name. */
  schemas?: Readonly<Record<string, JsonSchema>>;
  /** Names of the schemas that the model may write objects of. */
  objects?: readonly (keyof Objects & string)[];
  /** Name of the schema of the result. */
  result?: string;
  tools?: readonly Tool[];
  profile?: string;
  mode?: "auto" | "sentinel" | "native";
  /** Frames must carry a tag of their stream, so that a quoted one counts for nothing. */
  frameTag?: boolean;
  /** Get objects and results only when they are whole and valid. */
  holdResults?: boolean;
  temperature?: number;
  seed?: number;
  maxTokens?: number;
  limits?: Limits;
  frameTimeoutMs?: number;
  /** How long a tool may take, there and here. 8000 ms when absent. */
  toolTimeoutMs?: number;
  /** How long the whole may take, there and here. The server's own limit holds when absent. */
  requestTimeoutMs?: number;
  toolRetries?: number;
  repairRetries?: number;
  maxToolCalls?: number;
}

export interface Callbacks<Objects = AnyObjects, Result = unknown> {
  onToolCall?: OnToolCall;
  onJSON?: OnJSON;
  onResult?: OnResult;
  onText?: OnText;
  /** Gets every event. When it returns a promise, reading waits for it. */
  onEvent?: (event: StreamEvent<Objects, Result>) => void;
  /** Gets errors that the stream survives, and the one that ends it. */
  onError?: OnError;
}

/** What `done` does with a degraded result, of which members were invented. */
export type OnDegraded = "raise" | "accept";

export interface ConnectionOptions {
  /** The server, as `http://127.0.0.1:3456`; a URL that ends in `/v1/stream` is taken as it is. */
  url: string | URL;
  apiKey?: string;
  headers?: Readonly<Record<string, string>>;
  /**
   * Names this request, so that a repeat does not run twice. When absent, a random one is made, and
   * a request that was lost before its answer is sent again; `false` sends none and asks once.
   */
  idempotencyKey?: string | false;
  /** "raise" when absent: `done` rejects with the code `degraded` and the outcome. */
  onDegraded?: OnDegraded;
  /** Aborts the run when it fires, as `abort()` does. */
  signal?: AbortSignal;
  transport?: "sse" | "ws";
  /** Used in place of the global one. */
  fetch?: typeof globalThis.fetch;
  /** Used in place of the global one; Node 20 has none. */
  WebSocket?: WebSocketConstructor;
  reconnect?: Reconnect;
  /** Silence after which a connection counts as lost. 45000 ms when absent. */
  idleTimeoutMs?: number;
}

export type StreamOptions<Objects = AnyObjects, Result = unknown> = Question &
  RequestOptions<Objects> &
  Callbacks<Objects, Result> &
  ConnectionOptions;
