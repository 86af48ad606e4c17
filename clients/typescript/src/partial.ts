/**
 * JSON that is still being written.
 *
 * Each character is read once. A snapshot copies only the containers that are still open; what is
 * complete is shared between snapshots, so a caller must not change it.
 */

/** `T` while it is being written: anything may be missing, and a string may be short. */
export type DeepPartial<T> = T extends (infer Item)[]
  ? DeepPartial<Item>[]
  : T extends readonly (infer Item)[]
    ? readonly DeepPartial<Item>[]
    : T extends object
      ? { [Key in keyof T]?: DeepPartial<T[Key]> }
      : T;

type Container = unknown[] | Record<string, unknown>;

interface Open {
  readonly container: Container;
  /** The key that the next value belongs to; unused in an array. */
  key: string;
}

/** What may come next, outside of strings and scalars. */
type Expecting = "value" | "value or end" | "key" | "key or end" | "colon" | "comma or end";

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const BLANK = " \t\n\r";
const SCALAR_END = /[^-+.\w]/g;
// Control characters must be escaped in a string, so one of them ends the reading.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that JSON forbids.
const STRING_STOP = /["\\\u0000-\u001f]/g;
const HEX = /^[0-9a-fA-F]$/;

export class PartialJson {
  readonly #open: Open[] = [];
  #expecting: Expecting = "value";
  #root: unknown;
  #finished = false;
  #broken = false;
  /** The string that is open: its text so far, or undefined between strings. */
  #string: string | undefined;
  #stringIsKey = false;
  /** The escape that is open, from its backslash on. */
  #escape = "";
  /** The number or literal that is open. */
  #scalar = "";

  /** True when the text so far is one whole JSON value. A number at the top is whole only at the end. */
  get finished(): boolean {
    return this.#finished && !this.#broken;
  }

  /** True when the text cannot become JSON; the value stays what it was before the fault. */
  get broken(): boolean {
    return this.#broken;
  }

  feed(chunk: string): void {
    let at = 0;
    while (at < chunk.length && !this.#broken) {
      if (this.#escape !== "") at = this.#readEscape(chunk, at);
      else if (this.#string !== undefined) at = this.#readString(chunk, at);
      else if (this.#scalar !== "") at = this.#readScalar(chunk, at);
      else at = this.#readMark(chunk, at);
    }
  }

  /** Say that no more text comes, which makes a number at the top whole. */
  close(): void {
    if (this.#scalar !== "") this.#endScalar();
    if (!this.#finished) this.#broken = true;
  }

  /** The value so far. Strings may be short; numbers, literals and keys appear when they are whole. */
  snapshot(): unknown {
    let inner: unknown = this.#stringIsKey ? undefined : this.#string;
    for (let level = this.#open.length - 1; level >= 0; level -= 1) {
      const { container, key } = this.#open[level] as Open;
      const copy: Container = Array.isArray(container) ? container.slice() : { ...container };
      if (inner !== undefined) place(copy, key, inner);
      inner = copy;
    }
    return inner ?? this.#root;
  }

  #readMark(chunk: string, at: number): number {
    const mark = chunk.charAt(at);
    if (!BLANK.includes(mark)) this.#takeMark(mark);
    return at + 1;
  }

  #takeMark(mark: string): void {
    const expecting = this.#finished ? undefined : this.#expecting;
    if (expecting === "value" || expecting === "value or end") this.#takeValueMark(mark);
    else if (mark === '"' && (expecting === "key" || expecting === "key or end")) {
      this.#openString(true);
    } else if (mark === "}" && (expecting === "key or end" || expecting === "comma or end")) {
      this.#endContainer(false);
    } else if (mark === ":" && expecting === "colon") this.#expecting = "value";
    else if (expecting === "comma or end") this.#takeComma(mark);
    else this.#broken = true;
  }

  #takeComma(mark: string): void {
    const inArray = Array.isArray(this.#open.at(-1)?.container);
    if (mark === ",") this.#expecting = inArray ? "value" : "key";
    else if (mark === "]") this.#endContainer(true);
    else this.#broken = true;
  }

  #takeValueMark(mark: string): void {
    if (mark === '"') this.#openString(false);
    else if (mark === "{") this.#openContainer({}, "key or end");
    else if (mark === "[") this.#openContainer([], "value or end");
    else if (mark === "]" && this.#expecting === "value or end") this.#endContainer(true);
    else if (/[-\dtfn]/.test(mark)) this.#scalar = mark;
    else this.#broken = true;
  }

  #openString(isKey: boolean): void {
    this.#string = "";
    this.#stringIsKey = isKey;
  }

  #readString(chunk: string, at: number): number {
    STRING_STOP.lastIndex = at;
    const stop = STRING_STOP.exec(chunk)?.index ?? chunk.length;
    this.#string += chunk.slice(at, stop);
    const mark = chunk.charAt(stop);
    if (mark === '"') this.#endString();
    else if (mark === "\\") this.#escape = "\\";
    else if (mark !== "") this.#broken = true;
    return stop + 1;
  }

  #readEscape(chunk: string, at: number): number {
    const mark = chunk.charAt(at);
    const simple = this.#escape === "\\" ? SIMPLE_ESCAPES[mark] : undefined;
    if (simple !== undefined) this.#endEscape(simple);
    else if (this.#escape === "\\" ? mark === "u" : HEX.test(mark)) this.#growEscape(mark);
    else this.#broken = true;
    return at + 1;
  }

  #growEscape(mark: string): void {
    this.#escape += mark;
    if (this.#escape.length < 6) return;
    this.#endEscape(String.fromCharCode(Number.parseInt(this.#escape.slice(2), 16)));
  }

  #endEscape(text: string): void {
    this.#string += text;
    this.#escape = "";
  }

  #endString(): void {
    const text = this.#string ?? "";
    this.#string = undefined;
    if (this.#stringIsKey) this.#endKey(text);
    else this.#endValue(text);
  }

  #endKey(text: string): void {
    this.#stringIsKey = false;
    (this.#open.at(-1) as Open).key = text;
    this.#expecting = "colon";
  }

  #readScalar(chunk: string, at: number): number {
    SCALAR_END.lastIndex = at;
    const end = SCALAR_END.exec(chunk)?.index ?? chunk.length;
    this.#scalar += chunk.slice(at, end);
    if (end < chunk.length) this.#endScalar();
    return end;
  }

  #endScalar(): void {
    const text = this.#scalar;
    this.#scalar = "";
    try {
      this.#endValue(JSON.parse(text));
    } catch {
      this.#broken = true;
    }
  }

  #openContainer(container: Container, expecting: Expecting): void {
    this.#open.push({ container, key: "" });
    this.#expecting = expecting;
  }

  #endContainer(isArray: boolean): void {
    const open = this.#open.at(-1);
    if (open === undefined || Array.isArray(open.container) !== isArray) {
      this.#broken = true;
      return;
    }
    this.#open.pop();
    this.#endValue(open.container);
  }

  #endValue(value: unknown): void {
    const parent = this.#open.at(-1);
    if (parent === undefined) {
      this.#root = value;
      this.#finished = true;
      return;
    }
    place(parent.container, parent.key, value);
    this.#expecting = "comma or end";
  }
}

function place(container: Container, key: string, value: unknown): void {
  if (Array.isArray(container)) container.push(value);
  else if (key !== "__proto__") container[key] = value;
  // An assignment to this key would change the prototype instead of making a property.
  else Object.defineProperty(container, key, { value, writable: true, enumerable: true, configurable: true });
}
