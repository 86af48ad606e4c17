/** From what a transport delivered to typed events. */

import { StreamError } from "./errors.js";
import type { AnyObjects, FrameStatus, Step, StreamEvent, Usage } from "./events.js";
import { PartialJson } from "./partial.js";

/** One message of the server: a server-sent event or a WebSocket message, its data parsed. */
export interface Arrival {
  event: string;
  /** `run_<16 hex>:<n>`; empty for a ping. */
  id: string;
  data: unknown;
}

export interface Position {
  runId: string;
  n: number;
}

/** Read `run_…:<n>`; the run may itself contain no colon. */
export function readPosition(id: string): Position | undefined {
  const match = /^([^:]+):([1-9]\d{0,14})$/.exec(id);
  if (match === null) return undefined;
  return { runId: match[1] as string, n: Number(match[2]) };
}

interface Frame {
  schema: string;
  chunks: string[];
  bytes: number;
  partial: PartialJson;
  /** The value that counts, once the frame has ended. */
  ended?: { value: unknown };
}

const KNOWN = new Set([
  "text.delta",
  "json.begin",
  "json.delta",
  "json.end",
  "tool.call",
  "tool.result",
  "result.begin",
  "result.delta",
  "result.end",
  "error",
  "done",
]);

type Fields = Readonly<Record<string, unknown>>;
type At = { n: number; eventId: string };

/** Turns messages into events, and keeps the text of each frame that is open. */
export class EventDecoder {
  readonly #frames = new Map<string, Frame>();

  knows(event: string): boolean {
    return KNOWN.has(event);
  }

  /** Return the event, or nothing when its type is one that this client does not know. */
  decode(arrival: Arrival, at: At): StreamEvent<AnyObjects, unknown> | undefined {
    if (!this.knows(arrival.event)) return undefined;
    const fields = requireFields(arrival.data, arrival.event);
    switch (arrival.event) {
      case "text.delta":
        return { type: "text.delta", ...at, text: text(fields, "text") };
      case "json.begin":
      case "result.begin":
        return this.#begin(arrival.event, fields, at);
      case "json.delta":
      case "result.delta":
        return this.#delta(arrival.event, fields, at);
      case "json.end":
      case "result.end":
        return this.#end(arrival.event, fields, at);
      default:
        return decodeRest(arrival.event, fields, at);
    }
  }

  /** The value of a frame so far. */
  partial(id: string): unknown {
    const frame = this.#frames.get(id);
    return frame?.ended === undefined ? frame?.partial.snapshot() : frame.ended.value;
  }

  #begin(type: "json.begin" | "result.begin", fields: Fields, at: At): StreamEvent {
    const id = text(fields, "id");
    const schema = text(fields, "schema");
    this.#frames.set(id, { schema, chunks: [], bytes: 0, partial: new PartialJson() });
    return { type, ...at, id, schema };
  }

  #delta(type: "json.delta" | "result.delta", fields: Fields, at: At): StreamEvent {
    const id = text(fields, "id");
    const chunk = text(fields, "chunk");
    const frame = this.#frame(id);
    frame.chunks.push(chunk);
    frame.bytes += countUtf8(chunk);
    frame.partial.feed(chunk);
    return { type, ...at, id, chunk };
  }

  #end(type: "json.end" | "result.end", fields: Fields, at: At): StreamEvent {
    const id = text(fields, "id");
    const frame = this.#frame(id);
    const length = fields["length"];
    if (length !== frame.bytes) {
      throw broken(`frame ${id} should have ${length} bytes, but ${frame.bytes} arrived`);
    }
    const value = "value" in fields ? fields["value"] : parseFrame(id, frame);
    const schema = frame.schema;
    this.#frames.set(id, { ...frame, chunks: [], partial: new PartialJson(), ended: { value } });
    return { type, ...at, id, schema, length, value, ...readRepair(fields) };
  }

  #frame(id: string): Frame {
    const frame = this.#frames.get(id);
    if (frame === undefined) throw broken(`frame ${id} has not begun`);
    return frame;
  }
}

function decodeRest(event: string, fields: Fields, at: At): StreamEvent | undefined {
  switch (event) {
    case "tool.call":
      return {
        type: event,
        ...at,
        ...readTool(fields),
        args: fields["args"],
        client: fields["client"] === true,
      };
    case "tool.result":
      return {
        type: event,
        ...at,
        ...readTool(fields),
        result: fields["result"],
        cached: fields["cached"] === true,
      };
    case "error":
      return { type: event, ...at, ...readFailure(fields) };
    case "done":
      return { type: event, ...at, ...readUsage(fields["usage"]) };
    default:
      return undefined;
  }
}

function readUsage(usage: unknown): { usage?: Usage } {
  return typeof usage === "object" && usage !== null ? { usage: usage as Usage } : {};
}

function readTool(fields: Fields): { id: string; name: string } {
  return { id: text(fields, "id"), name: text(fields, "name") };
}

function readFailure(fields: Fields): { code: string; message: string; id?: string } {
  const id = typeof fields["id"] === "string" ? { id: fields["id"] } : {};
  return { code: text(fields, "code"), message: text(fields, "message"), ...id };
}

interface Repair {
  status?: FrameStatus;
  steps?: Step[];
  invented?: string[];
}

function readRepair(fields: Fields): Repair {
  return {
    ...(typeof fields["status"] === "string" && { status: fields["status"] as FrameStatus }),
    ...(Array.isArray(fields["steps"]) && { steps: fields["steps"] as Step[] }),
    ...(Array.isArray(fields["invented"]) && { invented: fields["invented"] as string[] }),
  };
}

function parseFrame(id: string, frame: Frame): unknown {
  try {
    return JSON.parse(frame.chunks.join(""));
  } catch (cause) {
    throw broken(`frame ${id} ended as valid, but its text is no JSON`, cause);
  }
}

function requireFields(data: unknown, event: string): Fields {
  if (typeof data === "object" && data !== null) return data as Fields;
  throw broken(`the data of ${event} is no object`);
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string") return value;
  throw broken(`field "${name}" is missing or no text`);
}

export function broken(message: string, cause?: unknown): StreamError {
  return new StreamError("broken_stream", message, { cause });
}

/** The bytes that `chunk` takes in UTF-8. */
export function countUtf8(chunk: string): number {
  let bytes = 0;
  for (const character of chunk) {
    const point = character.codePointAt(0) as number;
    if (point < 0x80) bytes += 1;
    else if (point < 0x800) bytes += 2;
    else bytes += point < 0x10000 ? 3 : 4;
  }
  return bytes;
}
