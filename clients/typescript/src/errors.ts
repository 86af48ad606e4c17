import type { Outcome } from "./events.js";

/** The codes that the server uses; see "Error codes" of the wire contract. */
export type ServerErrorCode =
  | "malformed_request"
  | "unknown_schema"
  | "invalid_schema"
  | "unknown_tool"
  | "unknown_model"
  | "not_allowed"
  | "idempotency_conflict"
  | "unknown_run"
  | "too_large"
  | "too_many_runs"
  | "frame_too_large"
  | "frame_too_deep"
  | "arguments_too_large"
  | "nested_frame"
  | "duplicate_id"
  | "unexpected_end"
  | "unclosed_frame"
  | "frame_timeout"
  | "invalid_arguments"
  | "invalid_result"
  | "schema_repair_failed"
  | "tool_timeout"
  | "tool_failed"
  | "too_many_tool_calls"
  | "no_result"
  | "aborted"
  | "request_timeout"
  | "upstream_error"
  | "overloaded"
  | "context_overflow"
  | "abandoned"
  | "replay_truncated";

/**
 * The codes that arise on this side: the connection could not be had or kept, the server said
 * something that the contract does not allow, an HTTP error had no body of ours, a callback threw, the
 * caller closed the stream, members of the result were invented, or an option does not go together with another or with this runtime.
 */
export type ClientErrorCode =
  | "connection_lost"
  | "broken_stream"
  | "http_error"
  | "callback_failed"
  | "closed"
  | "degraded"
  | "unsupported";

/** Any string is possible, because a newer server may have newer codes. */
export type ErrorCode = ServerErrorCode | ClientErrorCode | (string & {});

export interface StreamErrorDetails {
  /** HTTP status, when the server refused the request. */
  status?: number | undefined;
  /** The field of the request that was wrong. */
  where?: string | undefined;
  /** The frame or call that the error concerns. */
  id?: string | undefined;
  /** How long the server asks to wait, in milliseconds. */
  retryAfterMs?: number | undefined;
  /** The members of a degraded result that the model did not write. */
  invented?: readonly string[] | undefined;
  cause?: unknown;
}

export class StreamError extends Error {
  override readonly name = "StreamError";
  readonly code: ErrorCode;
  readonly status: number | undefined;
  readonly where: string | undefined;
  readonly id: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly invented: readonly string[] | undefined;
  /** What had arrived when the stream failed; set on the error that `done` rejects with. */
  outcome: Partial<Outcome> | undefined;

  constructor(code: ErrorCode, message: string, details: StreamErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.where = details.where;
    this.id = details.id;
    this.retryAfterMs = details.retryAfterMs;
    this.invented = details.invented;
  }
}

/** Read an HTTP refusal, whose body is `{"error": {"code", "message", "where"}}` when it is ours. */
export async function decodeRefusal(response: Response): Promise<StreamError> {
  const status = response.status;
  const retryAfterMs = readRetryAfter(response.headers.get("retry-after"));
  const text = await response.text().catch(() => "");
  const error = readErrorBody(text);
  if (error === undefined) {
    const message = `the server answered ${status}${text === "" ? "" : `: ${text.slice(0, 200)}`}`;
    return new StreamError("http_error", message, { status, retryAfterMs });
  }
  return new StreamError(error.code, error.message, { status, where: error.where, retryAfterMs });
}

export interface ErrorBody {
  code: string;
  message: string;
  where?: string | undefined;
  id?: string | undefined;
}

function readErrorBody(text: string): ErrorBody | undefined {
  try {
    return readRefusal(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Return the error of a refusal, `{"error": {"code", "message", "where"}}`. */
export function readRefusal(body: unknown): ErrorBody | undefined {
  return readError((body as { error?: unknown } | null | undefined)?.error);
}

/** Return the error that `value` describes, or nothing when it has no code. */
function readError(value: unknown): ErrorBody | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { code, message, where, id } = value as Record<string, unknown>;
  if (typeof code !== "string") return undefined;
  return { code, message: text(message) ?? code, where: text(where), id: text(id) };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** `Retry-After` is a number of seconds or a date. */
function readRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const seconds = Number(value);
  const wait = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1000;
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}
