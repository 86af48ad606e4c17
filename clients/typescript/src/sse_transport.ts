/** The stream as server-sent events, over `fetch`. */

import { type Arrival, broken, type Position } from "./decode.js";
import type { RequestBody } from "./request.js";
import { below } from "./request.js";
import { SseDecoder, type SseFrame } from "./sse.js";
import { type Connection, lost, request, type Transport } from "./transport.js";
import { within } from "./waiting.js";

export interface SseSettings {
  address: URL;
  headers: Readonly<Record<string, string>>;
  body: RequestBody;
  idempotencyKey: string | undefined;
  idleTimeoutMs: number;
  fetch: typeof fetch;
}

export class SseTransport implements Transport {
  readonly #settings: SseSettings;

  constructor(settings: SseSettings) {
    this.#settings = settings;
  }

  get repeatable(): boolean {
    return this.#settings.idempotencyKey !== undefined;
  }

  async open(at: Position | undefined, signal: AbortSignal): Promise<Connection> {
    const { fetch, idleTimeoutMs } = this.#settings;
    const stop = new AbortController();
    const follow = () => stop.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
    const close = () => {
      signal.removeEventListener("abort", follow);
      stop.abort(lost("the connection was closed"));
    };
    const [address, init] = at === undefined ? this.#start() : this.#resume(at);
    try {
      const answer = request(fetch, address, { ...init, signal: stop.signal });
      return new SseConnection(await within(idleTimeoutMs, answer, silence), idleTimeoutMs, close);
    } catch (error) {
      close();
      throw error;
    }
  }

  #start(): [URL, RequestInit] {
    const { address, headers, body, idempotencyKey } = this.#settings;
    const key = idempotencyKey === undefined ? undefined : { "idempotency-key": idempotencyKey };
    const type = { accept: "text/event-stream", "content-type": "application/json" };
    return [
      address,
      { method: "POST", headers: { ...type, ...headers, ...key }, body: JSON.stringify(body) },
    ];
  }

  #resume({ runId, n }: Position): [URL, RequestInit] {
    const { address, headers } = this.#settings;
    const after = n === 0 ? undefined : { "last-event-id": `${runId}:${n}` };
    return [
      below(address, runId),
      { headers: { accept: "text/event-stream", ...headers, ...after }, cache: "no-store" },
    ];
  }
}

class SseConnection implements Connection {
  readonly runId: string | undefined;
  readonly close: () => void;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #idleTimeoutMs: number;
  readonly #decoder = new SseDecoder();
  #fault: Error | undefined;

  constructor(response: Response, idleTimeoutMs: number, close: () => void) {
    const type = response.headers.get("content-type") ?? "";
    if (response.body === null || !type.startsWith("text/event-stream")) {
      throw broken(`the server answered with ${type || "no content type"}, not with an event stream`);
    }
    this.runId = response.headers.get("x-toolbridge-run") ?? undefined;
    this.#reader = response.body.getReader();
    this.#idleTimeoutMs = idleTimeoutMs;
    this.close = close;
  }

  async read(): Promise<Arrival[] | undefined> {
    if (this.#fault !== undefined) throw this.#fault;
    const piece = this.#reader.read().catch((cause: unknown) => {
      throw lost("the connection broke", cause);
    });
    const { done, value } = await within(this.#idleTimeoutMs, piece, silence);
    if (done) return undefined;
    return this.#arrivals(this.#decoder.feed(value));
  }

  /** The messages up to one that cannot be read; that one fails the next reading. */
  #arrivals(frames: SseFrame[]): Arrival[] {
    const arrivals: Arrival[] = [];
    for (const { event, id = "", data } of frames) {
      try {
        arrivals.push({ event, id, data: JSON.parse(data) });
      } catch (cause) {
        this.#fault = broken(`the data of ${event} is no JSON`, cause);
        break;
      }
    }
    return arrivals;
  }
}

function silence(): Error {
  return lost("the server fell silent");
}
