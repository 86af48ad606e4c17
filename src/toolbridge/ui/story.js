/** Folds the events of a run into items in lanes and shaded intervals for the time axis. */

export const LANES = [
  ["text", "Text"],
  ["objects", "Objects"],
  ["tools", "Tools"],
  ["repairs", "Repairs"],
  ["result", "Result"],
  ["errors", "Errors"],
];
const QUIET = 750; // milliseconds without an event that are worth showing

export class Story {
  items = [];
  /** Intervals: `{kind: "paused" | "lost" | "quiet" | "waiting", start, end}`; `end` may be null. */
  spans = [];
  /** The text and the items in it, in order. */
  pieces = [];
  events = 0;
  /** The time of the last event; all times are milliseconds since the start. */
  last = 0;
  done = false;
  result = null;
  #open = new Map();
  #text = null;

  feed(time, name, data) {
    this.#note(time);
    const [family, verb] = name.split(".");
    if (name === "text.delta") this.#write(time, data.text);
    else if (family === "json" || family === "result") this.#frame(time, family, verb, data);
    else if (name === "tool.call") this.#call(time, data);
    else if (name === "tool.result") this.#answer(time, data);
    else if (name === "error") this.#fail(time, data);
    else if (name === "done") this.#end(time);
  }

  /** Begins a shaded interval, unless one of its kind is open. */
  beginSpan(kind, time) {
    if (this.spans.some((span) => span.kind === kind && span.end === null)) return;
    this.spans.push({ kind, start: time, end: null });
  }

  endSpan(kind, time) {
    for (const span of this.spans) if (span.kind === kind && span.end === null) span.end = time;
  }

  #note(time) {
    const silent = time - this.last;
    const known = this.spans.some((span) => span.end === null || span.end > this.last);
    if (silent > QUIET && !known) this.spans.push({ kind: "quiet", start: this.last, end: time });
    this.events += 1;
    this.last = time;
  }

  #add(lane, time, fields) {
    const item = {
      number: this.items.length,
      lane,
      start: time,
      end: time,
      open: false,
      status: "",
      chunks: [],
      size: 0,
      problems: [],
      steps: [],
      version: 0,
      ...fields,
    };
    this.items.push(item);
    return item;
  }

  #write(time, text) {
    if (this.#text === null) {
      this.#text = this.#add("text", time, { kind: "text", label: "", open: true });
    }
    const item = this.#text;
    item.chunks.push(text);
    item.size += text.length;
    if (item.label.length < 48) item.label = (item.label + text).trimStart().slice(0, 48);
    touch(item, time);
    this.pieces.push({ text });
  }

  #closeText() {
    if (this.#text !== null) this.#text.open = false;
    this.#text = null;
  }

  #begin(lane, time, data, fields) {
    this.#closeText();
    const item = this.#add(lane, time, { id: data.id, open: true, ...fields });
    this.#open.set(data.id, item);
    this.pieces.push({ item });
    return item;
  }

  #frame(time, family, verb, data) {
    const lane = family === "json" ? "objects" : "result";
    if (verb === "begin") {
      const fields = { kind: lane === "objects" ? "object" : "result", label: data.schema };
      const item = this.#begin(lane, time, data, { ...fields, schema: data.schema });
      if (lane === "result") this.result = item;
      return;
    }
    const item = this.#open.get(data.id);
    if (item === undefined) return;
    if (verb === "delta") {
      item.chunks.push(data.chunk);
      item.size += data.chunk.length;
      touch(item, time);
    } else if (verb === "end") this.#close(time, item, data);
  }

  #close(time, item, data) {
    const wrote = item.end;
    item.status = data.status ?? "valid";
    item.steps = data.steps ?? [];
    item.invented = data.invented ?? [];
    item.bytes = data.length;
    item.value = "value" in data ? data.value : parsed(item.chunks.join(""));
    this.#shut(time, item);
    if (data.status === undefined) return;
    const label = `${data.status} ${item.schema}`;
    const fields = { kind: "repair", label, status: data.status, about: item, steps: item.steps, invented: item.invented };
    this.#add("repairs", wrote, { ...fields, id: item.id, end: time });
  }

  #call(time, data) {
    const fields = { kind: "tool", label: data.name, args: data.args, client: data.client === true };
    this.#begin("tools", time, data, fields);
    this.beginSpan("waiting", time);
  }

  #answer(time, data) {
    const item = this.#open.get(data.id) ?? this.#begin("tools", time, data, toolOf(data));
    const failure = data.result?.error;
    item.status = typeof failure?.code === "string" ? "failed" : data.cached ? "cached" : "ok";
    item.value = data.result;
    item.answered = true;
    this.#shut(time, item);
    this.endSpan("waiting", time);
  }

  #fail(time, data) {
    const about = this.items.findLast((item) => item.id === data.id && data.id !== undefined);
    const fields = { kind: "error", label: data.code, message: data.message, status: "error" };
    const item = this.#add("errors", time, { ...fields, id: data.id, about });
    this.pieces.push({ item });
    if (about === undefined) return;
    about.problems.push(data);
    about.version += 1;
  }

  #shut(time, item) {
    item.open = false;
    this.#open.delete(item.id);
    touch(item, time);
  }

  #end(time) {
    this.#closeText();
    for (const item of this.#open.values()) {
      item.status = "unfinished";
      item.open = false;
      touch(item, time);
    }
    for (const span of this.spans) span.end ??= time;
    this.done = true;
  }
}

function touch(item, time) {
  item.end = time;
  item.version += 1;
}

function toolOf(data) {
  return { kind: "tool", label: data.name, args: undefined };
}

/** Returns the value of the JSON `text`; undefined if it is not valid. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns a duration as text. */
export function spoken(milliseconds) {
  if (milliseconds < 1) return "under 1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}
