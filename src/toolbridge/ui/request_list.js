/** A list of thousands of requests: only the rows in sight are elements of the page. */
import { build, make, shape } from "./dom.js";
import { clock, count, duration, inputOf, money } from "./format.js";
import { served, stateOf } from "./request_state.js";

const SPARE = 8; // rows above and below those in sight

export class RequestList {
  #root;
  #sheet = build("div", { class: "sheet", role: "rowgroup" });
  #rows = [];
  #shown = new Map();
  #active = "";
  #height = 36;
  #onend;

  /** `onend()` is called when the end of the list comes into sight. */
  constructor(root, onend) {
    this.#root = root;
    this.#onend = onend;
    root.append(this.#sheet);
    root.addEventListener("scroll", () => this.draw(), { passive: true });
    root.addEventListener("keydown", (event) => this.#walk(event));
    root.addEventListener("focusin", (event) => this.#noteFocus(event));
    new ResizeObserver(() => this.draw()).observe(root);
  }

  get active() {
    return this.#active;
  }

  get atTop() {
    return this.#root.scrollTop < this.#height / 2;
  }

  /** Shows `rows`. Unless the top is in sight, what is in sight stays where it is. */
  show(rows) {
    const anchor = this.atTop ? null : this.#rows[Math.floor(this.#root.scrollTop / this.#height)];
    const before = anchor === null || anchor === undefined ? -1 : this.#rows.indexOf(anchor);
    this.#rows = rows;
    // Only a gateway of several processes names them.
    if (rows.some((row) => row.process)) this.#root.classList.add("team");
    this.#root.setAttribute("aria-rowcount", String(rows.length + 1));
    if (before >= 0) {
      const now = rows.findIndex((row) => row.id === anchor.id);
      if (now >= 0 && now !== before) this.#root.scrollTop += (now - before) * this.#height;
    }
    this.draw();
  }

  toTop() {
    this.#root.scrollTop = 0;
  }

  draw() {
    if (this.#root.clientHeight === 0) return; // hidden
    this.#measure();
    const first = Math.max(0, Math.floor(this.#root.scrollTop / this.#height) - SPARE);
    const last = Math.min(this.#rows.length, first + Math.ceil(this.#root.clientHeight / this.#height) + 2 * SPARE);
    const wanted = new Map();
    for (let at = first; at < last; at += 1) wanted.set(this.#rows[at].id, at);
    const active = this.#rows.findIndex((row) => row.id === this.#active);
    // The row with the focus stays, or the focus would be lost.
    if (active >= 0) wanted.set(this.#active, active);
    for (const [id, item] of this.#shown) {
      if (wanted.has(id)) continue;
      item.element.remove();
      this.#shown.delete(id);
    }
    for (const [id, at] of wanted) this.#place(id, at);
    this.#makeReachable(first);
    if (last === this.#rows.length && this.#rows.length > 0) this.#onend();
  }

  #measure() {
    const height = parseFloat(getComputedStyle(this.#root).getPropertyValue("--row-height"));
    if (height > 0) this.#height = height;
    this.#sheet.style.height = `${this.#rows.length * this.#height}px`;
  }

  #place(id, at) {
    const row = this.#rows[at];
    let item = this.#shown.get(id);
    if (item === undefined) {
      const element = build("a", { class: "row", role: "row", href: `#request/${encodeURIComponent(id)}`, tabindex: -1 });
      element.dataset.id = id;
      item = { element, row: null };
      this.#shown.set(id, item);
      this.#sheet.append(element);
    }
    item.element.style.transform = `translateY(${at * this.#height}px)`;
    item.element.setAttribute("aria-rowindex", String(at + 2));
    item.element.classList.toggle("odd", at % 2 === 1);
    if (item.row !== row || row.running) fill(item, row);
  }

  /** Makes one row reachable with the Tab key; arrow keys move to the others. */
  #makeReachable(first) {
    const chosen = this.#shown.has(this.#active) ? this.#active : this.#rows[first + SPARE]?.id ?? this.#rows[first]?.id;
    for (const [id, { element }] of this.#shown) element.tabIndex = id === chosen ? 0 : -1;
  }

  #noteFocus(event) {
    const id = event.target.closest?.(".row")?.dataset.id;
    if (id !== undefined) this.#active = id;
  }

  #walk(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#root.clientHeight / this.#height) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || this.#rows.length === 0) return;
    event.preventDefault();
    this.move(step);
  }

  /** Moves the focus by so many rows. */
  move(step) {
    const at = this.#rows.findIndex((row) => row.id === this.#active);
    const next = at < 0 ? 0 : Math.min(this.#rows.length - 1, Math.max(0, at + step));
    this.focus(next);
  }

  focus(at) {
    const row = this.#rows[at];
    if (row === undefined) return;
    this.#active = row.id;
    const top = at * this.#height;
    if (top < this.#root.scrollTop) this.#root.scrollTop = top;
    // The head of the table stays in sight, above the rows.
    const bottom = top + this.#height + this.#sheet.offsetTop - this.#root.clientHeight;
    if (bottom > this.#root.scrollTop) this.#root.scrollTop = bottom;
    this.draw();
    this.#shown.get(row.id)?.element.focus({ preventScroll: true });
  }

  /** Puts the focus back on the row that was opened; returns whether there is one. */
  refocus() {
    this.draw();
    const opened = this.#shown.get(this.#active);
    opened?.element.focus({ preventScroll: true });
    return opened !== undefined;
  }

  /** Returns the id of the row that is `step` rows away from `id`; undefined at the ends. */
  neighbour(id, step) {
    const at = this.#rows.findIndex((row) => row.id === id);
    const found = at < 0 ? undefined : this.#rows[at + step];
    if (found !== undefined) this.#active = found.id;
    return found?.id;
  }
}

function fill(item, row) {
  const state = stateOf(row);
  const known = item.row === row;
  item.row = row;
  const total = row.running ? performance.now() - row.seen : row.total_ms;
  if (known) {
    item.element.querySelector(".total").textContent = duration(total); // only the time has changed
    return;
  }
  item.element.dataset.state = state.kind;
  item.element.setAttribute("aria-label", spoken(row, state));
  item.element.replaceChildren(
    build("span", { class: "cell state", role: "gridcell" }, shape(state.kind), make("span", "", state.word)),
    cell("time", clock(row.at)),
    cell("client", row.client || "unknown", !row.client),
    processCell(row.process ?? ""),
    modelCell(row),
    cell("in number", row.running ? "" : tokens(row, inputOf(row))),
    cell("out number", row.running ? "" : tokens(row, row.output)),
    cell("cost number", row.running ? "" : costOf(row)),
    cell("ttft number", duration(row.first_token_ms)),
    cell("total number", duration(total)),
    marks(row),
  );
}

function cell(name, text, faint = false) {
  return build("span", { class: `cell ${name}${faint ? " faint" : ""}`, role: "gridcell" }, text);
}

/** Returns the cell of the process, `host:pid`; where there is no room, the host is shortened. */
function processCell(name) {
  const end = name.lastIndexOf(":");
  return build("span", { class: "cell process", role: "gridcell", title: name }, make("span", "host", name.slice(0, Math.max(end, 0))), make("span", "pid", name.slice(Math.max(end, 0))));
}

function modelCell(row) {
  const to = served(row);
  const shown = build("span", { class: "cell model", role: "gridcell", title: to ? `${row.asked} → ${to}` : row.asked });
  shown.append(make("span", "asked", row.asked || (row.error ? row.error.replaceAll("_", " ") : "–")));
  if (to && to !== row.asked) shown.append(make("span", "arrow", "→"), make("span", "served", to));
  else if (row.error && row.asked) shown.append(make("span", "served", row.error.replaceAll("_", " ")));
  return shown;
}

function tokens(row, number) {
  if (number === 0 && row.error) return "–";
  return `${row.estimated ? "~" : ""}${count(number)}`;
}

function costOf(row) {
  const unknown = inputOf(row) + row.output === 0 && (row.cost === null || row.error !== "");
  return unknown ? "–" : money(row.cost);
}

function marks(row) {
  const shown = build("span", { class: "cell marks", role: "gridcell" });
  if (row.healings > 0) shown.append(build("span", { class: "mark healed" }, `${count(row.healings)} healed`));
  if (row.losses > 0) shown.append(build("span", { class: "mark lost" }, `${count(row.losses)} lost`));
  if (row.routes.length > 1) shown.append(build("span", { class: "mark tried" }, `${row.routes.length} tried`));
  return shown;
}

function spoken(row, state) {
  const told = [state.word, row.client, `asked ${row.asked}`, served(row) && `served by ${served(row)}`, clock(row.at), row.process && `by ${row.process}`];
  return told.filter(Boolean).join(", ");
}
