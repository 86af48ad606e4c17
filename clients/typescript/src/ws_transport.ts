/** The stream over a WebSocket, which has no flow control of its own: it is asked to wait in words. */

import { type Arrival, broken, type Position } from "./decode.js";
import { readRefusal, StreamError } from "./errors.js";
import type { WebSocketConstructor, WebSocketLike } from "./options.js";
import type { RequestBody } from "./request.js";
import { below } from "./request.js";
import { type Answer, type Connection, lost, type Transport } from "./transport.js";
import { until, within } from "./waiting.js";

/** Unread messages at which the server is asked to wait. */
const FULL = 64;
const OPEN = 1;

export interface WsSettings {
  address: URL;
  apiKey: string | undefined;
  body: RequestBody;
  idempotencyKey: string | undefined;
  idleTimeoutMs: number;
  WebSocket: WebSocketConstructor;
}

export class WsTransport implements Transport {
  readonly #settings: WsSettings;

  constructor(settings: WsSettings) {
    this.#settings = settings;
  }

  get repeatable(): boolean {
    return this.#settings.idempotencyKey !== undefined;
  }

  async open(at: Position | undefined, signal: AbortSignal): Promise<Connection> {
    const { WebSocket, idleTimeoutMs } = this.#settings;
    const connection = new WsConnection(new WebSocket(this.#url()), idleTimeoutMs);
    try {
      await until(
        signal,
        within(idleTimeoutMs, connection.opened, () => lost("the server is silent")),
      );
    } catch (error) {
      connection.close();
      throw error;
    }
    connection.send(at === undefined ? this.#start() : resume(at));
    return connection;
  }

  /** The request; its key is a field here, because a browser sends no headers of ours with a WebSocket. */
  #start(): unknown {
    const { body, idempotencyKey } = this.#settings;
    return { type: "start", ...body, ...(idempotencyKey && { idempotency_key: idempotencyKey }) };
  }

  #url(): string {
    const address = below(this.#settings.address, "ws");
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    if (this.#settings.apiKey !== undefined) address.searchParams.set("key", this.#settings.apiKey);
    return address.href;
  }
}

function resume({ runId, n }: Position): unknown {
  return { type: "resume", last_event_id: `${runId}:${n}` };
}

class WsConnection implements Connection {
  readonly runId = undefined;
  readonly opened: Promise<void>;
  readonly #socket: WebSocketLike;
  readonly #idleTimeoutMs: number;
  #unread: Arrival[] = [];
  #ended = false;
  #fault: Error | undefined;
  #wake: () => void = () => {};
  #paused = false;
  #toldToWait = false;

  constructor(socket: WebSocketLike, idleTimeoutMs: number) {
    this.#socket = socket;
    this.#idleTimeoutMs = idleTimeoutMs;
    this.opened = new Promise((resolve, reject) => {
      socket.addEventListener("open", () => resolve());
      socket.addEventListener("close", () => reject(lost("the server cannot be reached")));
    });
    // An error is always followed by a close, which tells the rest.
    socket.addEventListener("error", () => {});
    socket.addEventListener("message", ({ data }) => this.#take(data));
    socket.addEventListener("close", () => this.#end());
  }

  async read(): Promise<Arrival[] | undefined> {
    if (this.#unread.length === 0 && !this.#ended) await this.#arrival();
    const arrivals = this.#unread;
    this.#unread = [];
    this.#pace();
    if (arrivals.length > 0) return arrivals;
    if (this.#fault !== undefined) throw this.#fault;
    return undefined;
  }

  /** Send a message; false when the socket is not open. */
  send(message: unknown): boolean {
    if (this.#socket.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  answer(answer: Answer): boolean {
    return this.send({ type: "tool.result", ...answer });
  }

  abort(): boolean {
    return this.send({ type: "abort" });
  }

  hold(): void {
    this.#paused = true;
    this.#pace();
  }

  release(): void {
    this.#paused = false;
    this.#pace();
  }

  close(): void {
    this.#end();
    this.#socket.close(1000);
  }

  /** Tell the server to wait while the caller pauses or lags, and to go on when neither is so. */
  #pace(): void {
    const wait = this.#paused || this.#unread.length >= FULL;
    if (wait === this.#toldToWait) return;
    this.#toldToWait = wait;
    this.send({ type: wait ? "pause" : "resume" });
  }

  #arrival(): Promise<void> {
    const arrival = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    return within(this.#idleTimeoutMs, arrival, () => lost("the server fell silent"));
  }

  #take(data: unknown): void {
    if (this.#ended) return;
    try {
      this.#unread.push(readMessage(data));
    } catch (error) {
      this.#fault = error as Error;
      this.#end();
    }
    this.#pace();
    this.#wake();
  }

  #end(): void {
    this.#ended = true;
    this.#wake();
  }
}

function readMessage(data: unknown): Arrival {
  let message: unknown;
  try {
    message = JSON.parse(String(data));
  } catch (cause) {
    throw broken("a message of the server is no JSON", cause);
  }
  const { event, id, data: fields } = (message ?? {}) as Record<string, unknown>;
  const refusal = event === "error" && id === undefined ? readRefusal(fields) : undefined;
  // An error without a number is no event of a run: the server refuses the request.
  if (refusal !== undefined) throw new StreamError(refusal.code, refusal.message, refusal);
  if (typeof event !== "string") throw broken("a message of the server names no event");
  return { event, id: typeof id === "string" ? id : "", data: fields };
}
