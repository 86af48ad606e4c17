/** One stream: its connections, its events, its end. */

import { callBack, isListened } from "./callbacks.js";
import { type Arrival, broken, EventDecoder, type Position, readPosition } from "./decode.js";
import { readRefusal, StreamError } from "./errors.js";
import type { AnyObjects, Outcome, StreamEvent, ToolCallEvent } from "./events.js";
import { Fold } from "./fold.js";
import type { Callbacks, OnDegraded, Reconnect } from "./options.js";
import { Outbox } from "./outbox.js";
import type { ToolRunner } from "./tools.js";
import { type Answer, type BackChannel, type Connection, lost, type Transport } from "./transport.js";
import { after, backoff, Gate, sleep, until, within } from "./waiting.js";

/** How long an abort waits for the run's name, and then for the server's last events. */
const ABORT_GRACE_MS = 5000;
const ANSWER_ATTEMPTS = 3;
/** A run without a reader is abandoned after this, so a longer wait would be in vain. */
const ABANDONED_MS = 30_000;

export interface StreamSettings {
  transport: Transport;
  backChannel: BackChannel;
  tools: ToolRunner;
  callbacks: Callbacks<AnyObjects, unknown>;
  reconnect: Required<Reconnect>;
  onDegraded: OnDegraded | undefined;
  requestTimeoutMs: number | undefined;
  signal: AbortSignal | undefined;
}

/** A name that is told once, or the reason why it never will be. */
class Announcement {
  tell: (runId: string) => void = () => {};
  fail: (error: unknown) => void = () => {};
  readonly told = new Promise<string>((resolve, reject) => {
    this.tell = resolve;
    this.fail = reject;
  });

  constructor() {
    // A caller who never asks for the name must not get an unhandled rejection.
    this.told.catch(() => {});
  }
}

export class Stream implements AsyncIterableIterator<StreamEvent> {
  readonly #settings: StreamSettings;
  readonly #decoder = new EventDecoder();
  readonly #fold: Fold;
  readonly #gate = new Gate();
  readonly #outbox = new Outbox<StreamEvent>();
  readonly #name = new Announcement();
  /** Fires when the stream ends, for whatever reason. */
  readonly #life = new AbortController();
  readonly #timers: (() => void)[] = [];
  readonly #done: Promise<Outcome>;
  #at: Position | undefined;
  #connection: Connection | undefined;
  #aborting: Promise<void> | undefined;
  #reported: StreamError | undefined;

  constructor(settings: StreamSettings) {
    this.#settings = settings;
    this.#fold = new Fold(settings.onDegraded);
    if (isListened(settings.callbacks)) this.#outbox.flow();
    this.#watch();
    this.#done = this.#run();
  }

  get runId(): Promise<string> {
    return this.#name.told;
  }

  get done(): Promise<Outcome> {
    this.#outbox.flow();
    return this.#done;
  }

  get lastEventId(): string | undefined {
    return this.#at === undefined || this.#at.n === 0 ? undefined : `${this.#at.runId}:${this.#at.n}`;
  }

  get paused(): boolean {
    return this.#gate.closed;
  }

  pause(): void {
    if (this.#life.signal.aborted || this.#aborting !== undefined) return;
    this.#gate.close();
    this.#connection?.hold?.();
  }

  resume(): void {
    this.#gate.open();
    this.#connection?.release?.();
  }

  partial(id: string): unknown {
    return this.#decoder.partial(id);
  }

  abort(): Promise<void> {
    this.#aborting ??= this.#abort();
    return this.#aborting;
  }

  async close(): Promise<void> {
    this.#terminate(new StreamError("closed", "the stream was closed by its reader"));
    await this.#done.catch(() => {});
  }

  [Symbol.asyncIterator](): this {
    this.#outbox.loop();
    return this;
  }

  async next(): Promise<IteratorResult<StreamEvent, undefined>> {
    await this.#gate.pass();
    const value = await this.#outbox.take();
    return value === undefined ? { done: true, value } : { done: false, value };
  }

  /** Leaving the loop early closes the connection; the run is not aborted. */
  async return(): Promise<IteratorResult<StreamEvent, undefined>> {
    await this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Start the caller's clocks: the deadline and the signal, both of which stop the run. */
  #watch(): void {
    const { requestTimeoutMs, signal } = this.#settings;
    if (requestTimeoutMs !== undefined) {
      this.#after(requestTimeoutMs, () => {
        const message = `the stream was not done after ${requestTimeoutMs} ms`;
        this.#abandon(new StreamError("request_timeout", message));
      });
    }
    const stop = () => this.abort().catch((error) => this.#report(error));
    if (signal?.aborted) this.#terminate(aborted());
    signal?.addEventListener("abort", stop, { once: true, signal: this.#life.signal });
  }

  async #run(): Promise<Outcome> {
    let end: { error: StreamError } | "clean" = "clean";
    try {
      // A failure here must not come before the caller has the handle.
      await Promise.resolve();
      await this.#readToEnd();
      if (this.#fold.failure !== undefined) throw this.#fold.failure;
      return this.#fold.outcome();
    } catch (error) {
      end = { error: this.#failure(error) };
      throw end.error;
    } finally {
      this.#finish(end);
    }
  }

  #failure(error: unknown): StreamError {
    const failure =
      error instanceof StreamError
        ? error
        : new StreamError("broken_stream", String(error), { cause: error });
    failure.outcome = this.#fold.outcome();
    return failure;
  }

  #finish(end: { error: StreamError } | "clean"): void {
    this.#life.abort(end === "clean" ? new StreamError("closed", "the stream has ended") : end.error);
    for (const callOff of this.#timers) callOff();
    this.#settings.tools.stop();
    this.#gate.open();
    this.#outbox.finish(end);
    if (end === "clean") return;
    if (this.#isHeard(end.error)) this.#done.catch(() => {});
    this.#name.fail(end.error);
    this.#report(end.error);
  }

  /** Whether the failure reaches the caller also without `done`; if not, it must not pass in silence. */
  #isHeard({ code }: StreamError): boolean {
    const wanted = code === "closed" || code === "aborted";
    return wanted || this.#outbox.looping || this.#settings.callbacks.onError !== undefined;
  }

  /** Read one connection after the other until `done`, or until too many in a row brought nothing new. */
  async #readToEnd(): Promise<void> {
    const { attempts, baseMs, maxMs } = this.#settings.reconnect;
    for (let failures = 0; ; ) {
      const before = this.#at?.n ?? 0;
      const fault = await this.#readConnection();
      if (fault === undefined) return;
      failures = (this.#at?.n ?? 0) > before ? 1 : failures + 1;
      if (failures > attempts || !this.#mayRetry(fault)) throw fault;
      const asked = Math.min(fault.retryAfterMs ?? 0, ABANDONED_MS);
      await sleep(Math.max(backoff(failures, baseMs, maxMs), asked), this.#life.signal);
    }
  }

  /** Read until `done`, or return the fault of the connection. Other failures are thrown. */
  async #readConnection(): Promise<StreamError | undefined> {
    try {
      this.#life.signal.throwIfAborted();
      await this.#open();
      return (await this.#readArrivals())
        ? undefined
        : lost("the connection ended before the stream was done");
    } catch (error) {
      this.#life.signal.throwIfAborted();
      if (error instanceof StreamError && error.code !== "callback_failed") return error;
      throw error;
    } finally {
      this.#connection?.close();
      this.#connection = undefined;
    }
  }

  async #open(): Promise<void> {
    const connection = await this.#settings.transport.open(this.#at, this.#life.signal);
    this.#connection = connection;
    if (connection.runId !== undefined) this.#learn(connection.runId);
    if (this.paused) connection.hold?.();
  }

  /** A refusal stands, unless the run is known and the server may answer otherwise later. */
  #mayRetry(fault: StreamError): boolean {
    const known = this.#at !== undefined;
    if (fault.status !== undefined) return known && isPassing(fault.status);
    if (fault.code === "broken_stream") return known;
    return fault.code === "connection_lost" && (known || this.#settings.transport.repeatable);
  }

  async #readArrivals(): Promise<boolean> {
    const connection = this.#connection as Connection;
    for (;;) {
      await until(this.#life.signal, this.#gate.pass());
      const arrivals = await until(this.#life.signal, connection.read());
      if (arrivals === undefined) return false;
      for (const arrival of arrivals) {
        if (await this.#take(arrival)) return true;
      }
    }
  }

  /** Take one message; true when it was the last of the stream. */
  async #take(arrival: Arrival): Promise<boolean> {
    if (arrival.event === "ping") return false;
    const position = readPosition(arrival.id);
    if (position === undefined) {
      this.#takeUnnumbered(arrival);
      return false;
    }
    const at = this.#learn(position.runId);
    if (position.n <= at.n) return false;
    if (position.n > at.n + 1) throw broken(`event ${position.n} came after event ${at.n}`);
    const event = this.#decoder.decode(arrival, { n: position.n, eventId: arrival.id });
    at.n = position.n;
    if (event === undefined) return false;
    await until(this.#life.signal, this.#deliver(event));
    return event.type === "done";
  }

  /** What is no part of the run: over a WebSocket, that a message of ours was not accepted. */
  #takeUnnumbered({ event, data }: Arrival): void {
    if (this.#decoder.knows(event)) throw broken(`event ${event} has no number`);
    const refusal = event === "rejected" ? readRefusal(data) : undefined;
    if (refusal !== undefined) this.#report(new StreamError(refusal.code, refusal.message, refusal));
  }

  #learn(runId: string): Position {
    this.#at ??= { runId, n: 0 };
    if (this.#at.runId !== runId) throw broken(`events of ${runId} came in the stream of ${this.#at.runId}`);
    this.#fold.runId = runId;
    this.#name.tell(runId);
    return this.#at;
  }

  /** Give the event to everyone who wants it, and wait for them. */
  async #deliver(event: StreamEvent): Promise<void> {
    await this.#gate.pass();
    const error = this.#fold.add(event);
    if (error !== undefined) this.#report(error);
    await callBack(this.#settings.callbacks, event);
    if (event.type === "tool.call") this.#startTool(event);
    if (event.type === "tool.result") this.#settings.tools.stop(event.id);
    await this.#outbox.put(event);
  }

  #startTool(event: ToolCallEvent): void {
    const { tools, callbacks } = this.#settings;
    const { id, name, args, client } = event;
    const runId = this.#fold.runId;
    if (client) {
      const work = tools.run(event, runId).then((answer) => answer && this.#answer(answer));
      work.catch((error) => this.#life.signal.aborted || this.#report(error));
    } else if (callbacks.onToolCall !== undefined) {
      // The server runs this tool: whatever the callback makes of it is the caller's own affair.
      const { onToolCall } = callbacks;
      (async () => onToolCall({ id, name, args, client, runId }))().catch(() => {});
    }
  }

  /** Send the answer of a tool, again if the network fails; a refusal stands. */
  async #answer(answer: Answer): Promise<void> {
    if (this.#connection?.answer?.(answer)) return;
    const { backChannel, reconnect } = this.#settings;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await backChannel.answer(this.#fold.runId, answer);
      } catch (error) {
        if (this.#life.signal.aborted) return;
        const refused =
          error instanceof StreamError && error.status !== undefined && !isPassing(error.status);
        if (refused || attempt === ANSWER_ATTEMPTS) throw error;
      }
      await sleep(backoff(attempt, reconnect.baseMs, reconnect.maxMs), this.#life.signal);
    }
  }

  async #abort(): Promise<void> {
    if (this.#life.signal.aborted) return;
    this.resume();
    try {
      await this.#stopRun();
    } catch (error) {
      this.#terminate(aborted());
      // Without a name there was nothing to abort; otherwise the run may still go on, which the caller must know.
      if (this.#fold.runId === "") return;
      throw error;
    }
    // The server tells of the abort and ends the stream; one that does not is left.
    this.#after(ABORT_GRACE_MS, () => this.#terminate(aborted()));
  }

  /** Tell the server to stop, on the connection or beside it; the latter needs the run's name. */
  async #stopRun(): Promise<void> {
    if (this.#connection?.abort?.()) return;
    const runId = await within(ABORT_GRACE_MS, this.#name.told, aborted);
    await this.#settings.backChannel.abort(runId);
  }

  /** End at once, and tell the server that nobody waits for the run. */
  #abandon(reason: StreamError): void {
    const stopping = this.#fold.runId === "" ? undefined : this.#stopRun();
    stopping?.catch((error) => this.#report(error));
    this.#terminate(reason);
  }

  #terminate(reason: StreamError): void {
    this.#life.abort(reason);
  }

  #after(ms: number, act: () => void): void {
    if (!this.#life.signal.aborted) this.#timers.push(after(ms, act));
  }

  #report(error: StreamError): void {
    // The last error event of a stream is also the failure of the stream.
    if (error === this.#reported) return;
    this.#reported = error;
    try {
      this.#settings.callbacks.onError?.(error);
    } catch {
      // An error in the reporting of errors has nowhere to go.
    }
  }
}

/** Whether the same request may get another answer later. */
function isPassing(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status);
}

function aborted(): StreamError {
  return new StreamError("aborted", "the run was aborted by its caller");
}
