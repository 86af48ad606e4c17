/** Ways to wait that end. */

/** The longest wait that timers can express; they fire at once for a longer one. */
const LONGEST_MS = 2 ** 31 - 1;

/** Act after `ms`; the returned function calls it off. */
export function after(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, Math.min(ms, LONGEST_MS));
  return () => clearTimeout(timer);
}

/** A door that a stream must pass before it reads on. */
export class Gate {
  #opened: Promise<void> = Promise.resolve();
  #open: (() => void) | undefined;

  get closed(): boolean {
    return this.#open !== undefined;
  }

  close(): void {
    if (this.closed) return;
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(): void {
    this.#open?.();
    this.#open = undefined;
  }

  /** Wait until the gate is open, also when it is closed again meanwhile. */
  async pass(): Promise<void> {
    while (this.closed) await this.#opened;
  }
}

/** Wait for `promise`, but no longer than until `signal` fires; then throw its reason. */
export function until<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  if (signal.aborted) {
    promise.catch(() => {});
    return Promise.reject(signal.reason);
  }
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** Wait for `promise`, but no longer than `ms`; then throw what `late` makes. */
export function within<T>(ms: number, promise: Promise<T>, late: () => Error): Promise<T> {
  let callOff = () => {};
  const deadline = new Promise<never>((_, reject) => {
    callOff = after(ms, () => reject(late()));
  });
  return Promise.race([promise, deadline]).finally(callOff);
}

export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  let callOff = () => {};
  const wait = new Promise<void>((resolve) => {
    callOff = after(ms, resolve);
  });
  return until(signal, wait).finally(callOff);
}

/** The wait before attempt `attempt` (from 1): doubled each time, and spread so that clients do not return together. */
export function backoff(attempt: number, baseMs: number, maxMs: number): number {
  const full = Math.min(maxMs, baseMs * 2 ** (attempt - 1));
  return full / 2 + (Math.random() * full) / 2;
}
