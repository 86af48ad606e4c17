/** Events on their way to a `for await` loop. */

/** Events that may lie unread before the reading of the stream stops. */
const CAPACITY = 16;

/**
 * Holds events until the loop takes them. The stream waits while the box is full, so a slow loop
 * slows the server. Where nobody loops and the events are wanted otherwise, they pass by.
 */
export class Outbox<Item> {
  /** Whether someone loops over the events. */
  looping = false;
  readonly #items: Item[] = [];
  #flowing = false;
  #end: { error: unknown } | "clean" | undefined;
  #changed: () => void = () => {};
  #change: Promise<void> = new Promise(() => {});

  constructor() {
    this.#renew();
  }

  /** Say that someone loops over the events. */
  loop(): void {
    this.looping = true;
    this.#signal();
  }

  /** Say that the events are wanted even if nobody loops over them. */
  flow(): void {
    this.#flowing = true;
    this.#signal();
  }

  /** Put an event in, and wait while the box is full. */
  async put(item: Item): Promise<void> {
    if (this.#passing()) return;
    this.#items.push(item);
    this.#signal();
    while (this.#items.length >= CAPACITY && !this.#passing()) await this.#change;
  }

  /** Take the next event, or nothing at the end. */
  async take(): Promise<Item | undefined> {
    while (this.#items.length === 0 && this.#end === undefined) await this.#change;
    const item = this.#items.shift();
    this.#signal();
    if (item === undefined && this.#end !== "clean") throw this.#end?.error;
    return item;
  }

  finish(end: { error: unknown } | "clean"): void {
    this.#end ??= end;
    this.#signal();
  }

  #passing(): boolean {
    return this.#flowing && !this.looping;
  }

  #signal(): void {
    if (this.#passing()) this.#items.length = 0;
    this.#changed();
    this.#renew();
  }

  #renew(): void {
    this.#change = new Promise((resolve) => {
      this.#changed = resolve;
    });
  }
}
