/** The events of a stream, and what they add up to. */

import type { StreamError } from "./errors.js";

/** Schema names with the types that they describe, when the caller names none. */
export type AnyObjects = Record<string, unknown>;

type Name<Objects> = keyof Objects & string;

/** How a frame came to be valid, when its text was not valid as it was written. */
export type FrameStatus = "healed" | "repaired" | "degraded";

/** One change that the server made to what the model wrote. */
export interface Step {
  what: string;
  level: string | number;
  path: string;
}

interface Numbered {
  /** The number of the event in its run, from 1 without gaps. */
  readonly n: number;
  /** `run_<16 hex>:<n>`, with which a stream can be taken up again. */
  readonly eventId: string;
}

export interface TextDelta extends Numbered {
  readonly type: "text.delta";
  readonly text: string;
}

export interface JsonBegin<Objects = AnyObjects> extends Numbered {
  readonly type: "json.begin";
  readonly id: string;
  readonly schema: Name<Objects>;
}

export interface JsonDelta extends Numbered {
  readonly type: "json.delta";
  readonly id: string;
  readonly chunk: string;
}

interface FrameEnd extends Numbered {
  readonly id: string;
  /** The UTF-8 bytes of the chunks. */
  readonly length: number;
  /** Absent when the text was valid as the model wrote it. */
  readonly status?: FrameStatus;
  readonly steps?: readonly Step[];
  /** Paths of members of a degraded value that the model did not write; `.` for all of it. */
  readonly invented?: readonly string[];
}

/** The end of an object. `value` is the object that counts, also when no repair was needed. */
export type JsonEnd<Objects = AnyObjects> = {
  [Schema in Name<Objects>]: FrameEnd & {
    readonly type: "json.end";
    readonly schema: Schema;
    readonly value: Objects[Schema];
  };
}[Name<Objects>];

export interface ToolCallEvent extends Numbered {
  readonly type: "tool.call";
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
  /** True when this client has to answer the call. */
  readonly client: boolean;
}

export interface ToolResultEvent extends Numbered {
  readonly type: "tool.result";
  readonly id: string;
  readonly name: string;
  /** `{"error": {"code", "message"}}` when the tool failed. */
  readonly result: unknown;
  /** True when the result came from an earlier request with the same key. */
  readonly cached: boolean;
}

export interface ResultBegin extends Numbered {
  readonly type: "result.begin";
  readonly id: string;
  readonly schema: string;
}

export interface ResultDelta extends Numbered {
  readonly type: "result.delta";
  readonly id: string;
  readonly chunk: string;
}

export interface ResultEnd<Result = unknown> extends FrameEnd {
  readonly type: "result.end";
  readonly schema: string;
  readonly value: Result;
}

/** Something went wrong. The stream goes on, unless `done` follows. */
export interface ErrorEvent extends Numbered {
  readonly type: "error";
  readonly code: string;
  readonly message: string;
  /** The frame or call that it concerns. */
  readonly id?: string;
}

/** US dollars, by what they were spent on. */
export interface Cost {
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  total: number;
}

/** The tokens of all model calls of a run, added up. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  /** How often the model was asked, repairs included. */
  calls?: number;
  /** Absent where nobody knows the price. */
  cost?: Cost;
  /** True when a part is an estimate: an answer that was left before its end is not counted. */
  estimated?: boolean;
}

export interface Done extends Numbered {
  readonly type: "done";
  /** Absent where no provider counted any of the calls. */
  readonly usage?: Usage;
}

export type StreamEvent<Objects = AnyObjects, Result = unknown> =
  | TextDelta
  | JsonBegin<Objects>
  | JsonDelta
  | JsonEnd<Objects>
  | ToolCallEvent
  | ToolResultEvent
  | ResultBegin
  | ResultDelta
  | ResultEnd<Result>
  | ErrorEvent
  | Done;

/** An object that the model wrote, whole and valid. */
export type ObjectRecord<Objects = AnyObjects> = {
  [Schema in Name<Objects>]: {
    id: string;
    schema: Schema;
    value: Objects[Schema];
    status?: FrameStatus;
    invented?: readonly string[];
  };
}[Name<Objects>];

export interface ToolCallRecord {
  id: string;
  name: string;
  args: unknown;
  /** Absent until the tool has answered. */
  result?: unknown;
  client: boolean;
  cached: boolean;
}

/** What a stream adds up to. */
export interface Outcome<Objects = AnyObjects, Result = unknown> {
  runId: string;
  result: Result;
  /** Set when the result's text was not valid as it was written. */
  resultStatus?: FrameStatus;
  /** The members of a degraded result that the model did not write. */
  resultInvented?: readonly string[];
  objects: ObjectRecord<Objects>[];
  text: string;
  toolCalls: ToolCallRecord[];
  /** The errors that the stream survived. */
  errors: StreamError[];
  /** The tokens of all model calls; absent where no provider counted any. */
  usage?: Usage;
}
