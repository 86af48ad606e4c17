/** Events, as the caller's functions get them. */

import { StreamError } from "./errors.js";
import type { AnyObjects, StreamEvent } from "./events.js";
import type { Callbacks, FramePiece } from "./options.js";

type Listening = Callbacks<AnyObjects, unknown>;

/** Tell the caller of an event, and wait while the caller is busy with it. */
export async function callBack(callbacks: Listening, event: StreamEvent): Promise<void> {
  const { onEvent, onText, onJSON, onResult } = callbacks;
  try {
    await onEvent?.(event);
    if (event.type === "text.delta") await onText?.(event.text);
    if (isJson(event)) await onJSON?.(framePiece(event));
    if (isResult(event)) await onResult?.(framePiece(event));
  } catch (cause) {
    throw new StreamError("callback_failed", `a callback threw on ${event.type}`, { cause });
  }
}

/** Whether anyone wants the events without looping over them. */
export function isListened(callbacks: Listening): boolean {
  const { onEvent, onText, onJSON, onResult, onToolCall } = callbacks;
  return [onEvent, onText, onJSON, onResult, onToolCall].some((callback) => callback !== undefined);
}

type JsonEvent = StreamEvent & { type: `json.${string}` };
type ResultEvent = StreamEvent & { type: `result.${string}` };

function isJson(event: StreamEvent): event is JsonEvent {
  return event.type.startsWith("json.");
}

function isResult(event: StreamEvent): event is ResultEvent {
  return event.type.startsWith("result.");
}

function framePiece(event: JsonEvent | ResultEvent): FramePiece {
  switch (event.type) {
    case "json.begin":
    case "result.begin":
      return { id: event.id, schema: event.schema };
    case "json.delta":
    case "result.delta":
      return { id: event.id, delta: event.chunk };
    default: {
      const { id, schema, value, status, steps, invented } = event;
      const repair = { ...(status && { status }), ...(steps && { steps }), ...(invented && { invented }) };
      return { id, end: true, schema, value, ...repair };
    }
  }
}
