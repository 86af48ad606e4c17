/** Draws the items of a run on a time axis: one lane per kind, one button per item. */
import { make } from "./dom.js";
import { LANES, spoken } from "./story.js";

const ROW = 30;
const ROWS = 5;
const LABEL = { size: 0.8, most: 200, margin: 16 }; // rem, as in the style sheet, and pixels
const THINNEST = 6;
const GAP = 4;
const SPANS = { paused: "paused", lost: "connection lost", quiet: "no events", waiting: "" };

export class Chart {
  #root;
  #plan = make("div", "plan");
  #zoom = 1;
  #onselect;
  #axis = make("div", "axis");
  #shade = make("div", "shade");
  #now = make("div", "now");
  #tracks = new Map();
  #bars = new Map();
  #shades = new Map();
  #story = null;
  #selected = null;
  #scale = 500;
  #ticks = "";
  #ruler = document.createElement("canvas").getContext("2d");
  #widths = new Map();

  constructor(root, onselect) {
    this.#root = root;
    this.#onselect = onselect;
    this.#axis.setAttribute("aria-hidden", "true");
    this.#shade.setAttribute("aria-hidden", "true");
    root.append(this.#plan);
    this.#plan.append(this.#axis);
    for (const [lane, title] of LANES) this.#addLane(lane, title);
    this.#shade.append(this.#now);
    this.#plan.append(this.#shade);
    root.addEventListener("keydown", (event) => this.#walk(event));
  }

  #addLane(lane, title) {
    const row = make("div", `lane lane-${lane}`);
    const track = make("div", "track");
    track.setAttribute("role", "group");
    track.setAttribute("aria-label", title);
    row.append(make("div", "lane-name", title), track);
    this.#plan.append(row);
    this.#tracks.set(lane, track);
  }

  /** Zooms to `times` the width that fits, and keeps the middle in place. */
  zoom(times) {
    const { clientWidth, scrollLeft } = this.#root;
    const middle = (scrollLeft + clientWidth / 2) / this.#zoom;
    this.#zoom = times;
    this.#plan.style.width = `${times * 100}%`;
    this.#root.scrollLeft = middle * times - clientWidth / 2;
  }

  select(item) {
    this.#selected = item;
    for (const [other, bar] of this.#bars) bar.button.setAttribute("aria-pressed", other === item);
  }

  /** Draws `story` at the time `now` on an axis of length `whole`; a live run leaves room to grow. */
  draw(story, now, growing, whole) {
    if (story !== this.#story) this.#clear(story);
    const width = this.#axis.clientWidth;
    if (width === 0) return;
    this.#fit(Math.max(whole, story.last, 20), growing);
    const scale = width / this.#scale;
    this.#drawTicks(width, scale);
    this.#drawSpans(story, now, scale);
    this.#now.style.left = `${now * scale}px`;
    this.#now.hidden = !growing && now >= whole;
    for (const [lane] of LANES) this.#drawLane(lane, story, now, scale, width);
    this.#makeReachable();
    if (growing && this.#zoom > 1) this.#root.scrollLeft = now * scale - this.#root.clientWidth * 0.7;
  }

  #clear(story) {
    for (const bar of this.#bars.values()) bar.button.remove();
    for (const shade of this.#shades.values()) shade.remove();
    this.#bars.clear();
    this.#shades.clear();
    this.#story = story;
    this.#scale = 500;
    this.#selected = null;
  }

  #fit(whole, growing) {
    if (!growing) this.#scale = whole * 1.02;
    else while (this.#scale < whole * 1.02) this.#scale *= 1.5;
  }

  #drawTicks(width, scale) {
    const step = niceStep(90 / scale);
    const told = `${step}/${width}/${this.#scale}`;
    if (told === this.#ticks) return;
    this.#ticks = told;
    const marks = [];
    for (let time = 0; time * scale < width - 24; time += step) {
      const mark = make("span", "tick", time === 0 ? "0" : tickText(time, step));
      mark.style.left = `${time * scale}px`;
      marks.push(mark);
    }
    this.#axis.replaceChildren(...marks);
  }

  #drawSpans(story, now, scale) {
    for (const span of story.spans) {
      let shade = this.#shades.get(span);
      if (shade === undefined) {
        shade = make("div", `span span-${span.kind}`);
        shade.append(make("span", "span-name"));
        this.#shade.append(shade);
        this.#shades.set(span, shade);
      }
      const width = ((span.end ?? now) - span.start) * scale;
      shade.style.left = `${span.start * scale}px`;
      shade.style.width = `${Math.max(1, width)}px`;
      const name = SPANS[span.kind];
      shade.firstChild.textContent = name && width > this.#widthOf(name) ? name : "";
    }
  }

  /** Returns the width of a label; each is measured once. */
  #widthOf(label) {
    let width = this.#widths.get(label);
    if (width === undefined) {
      if (this.#widths.size > 2000) this.#widths.clear();
      const root = parseFloat(getComputedStyle(document.documentElement).fontSize);
      this.#ruler.font = `${root * LABEL.size}px ${getComputedStyle(this.#root).fontFamily}`;
      width = Math.min(LABEL.most, this.#ruler.measureText(label).width) + LABEL.margin;
      this.#widths.set(label, width);
    }
    return width;
  }

  #drawLane(lane, story, now, scale, width) {
    const ends = [];
    for (const item of story.items) {
      if (item.lane !== lane) continue;
      const bar = this.#barOf(item);
      const end = item.open && item.kind === "tool" ? now : item.end;
      this.#place(bar, item, { start: item.start * scale, end: end * scale, width }, ends);
    }
    this.#tracks.get(lane).style.height = `${Math.max(1, ends.length) * ROW + 4}px`;
  }

  #barOf(item) {
    const known = this.#bars.get(item);
    if (known !== undefined) return known;
    const button = make("button", "item");
    const fill = make("span", "fill");
    const label = make("span", "label");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(fill, label);
    button.addEventListener("click", () => this.#onselect(item));
    this.#tracks.get(item.lane).append(button);
    const bar = { button, fill, label, version: -1 };
    this.#bars.set(item, bar);
    return bar;
  }

  /** Places a bar in the first row that has room for it and its label. */
  #place(bar, item, span, ends) {
    const long = Math.max(THINNEST, span.end - span.start);
    const label = this.#widthOf(item.label || "…");
    const start = Math.min(span.start, span.width - long);
    let side = sideOf(start, long, label, span.width);
    const left = side === "before" ? start - label : start;
    let row = ends.findIndex((end) => end <= left);
    if (row < 0 && ends.length < ROWS) row = ends.push(0) - 1;
    if (row < 0) {
      row = ends.indexOf(Math.min(...ends));
      side = "none";
    }
    const beside = side === "before" || side === "after" ? label : 0;
    ends[row] = Math.max(ends[row], left + long + beside + GAP);
    this.#lay(bar, { side, start, long, label, top: row * ROW + GAP });
    this.#describe(bar, item);
  }

  #lay({ button, fill, label }, at) {
    const before = at.side === "before";
    const beside = before || at.side === "after";
    button.style.top = `${at.top}px`;
    button.style.left = `${before ? at.start - at.label : at.start}px`;
    button.style.width = `${beside ? at.long + at.label : at.long}px`;
    fill.style.left = before ? `${at.label}px` : "0";
    fill.style.width = `${at.long}px`;
    label.style.left = at.side === "after" ? `${at.long}px` : "0";
    label.style.width = `${beside ? at.label : at.long}px`;
    button.dataset.side = at.side;
  }

  #describe(bar, item) {
    if (bar.version === item.version) return;
    bar.version = item.version;
    bar.label.textContent = item.label || "…";
    bar.button.dataset.status = item.status;
    bar.button.classList.toggle("open", item.open);
    const told = [item.kind, item.label, item.status, `at ${spoken(item.start)}`];
    if (!item.open) told.push(`for ${spoken(item.end - item.start)}`);
    bar.button.setAttribute("aria-label", told.filter(Boolean).join(", "));
    bar.button.title = told.filter(Boolean).join(" · ");
  }

  /** Makes one item reachable with the Tab key; arrow keys move to the others. */
  #makeReachable() {
    const chosen = this.#bars.has(this.#selected) ? this.#selected : this.#bars.keys().next().value;
    for (const [item, { button }] of this.#bars) button.tabIndex = item === chosen ? 0 : -1;
  }

  #walk(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const ordered = [...this.#bars.keys()].sort((a, b) => a.start - b.start || a.number - b.number);
    const at = ordered.findIndex((item) => this.#bars.get(item).button === event.target);
    if (at < 0) return;
    const jump = { Home: 0, End: ordered.length - 1 }[event.key];
    const next = ordered[jump ?? at + (step ?? 0)];
    if (next === undefined || (step === undefined && jump === undefined)) return;
    event.preventDefault();
    this.#bars.get(next).button.focus();
    this.#onselect(next);
  }
}

/** Returns the position of a label: in its bar, after it, before it, or hidden. */
function sideOf(start, long, label, width) {
  if (long >= label) return "inside";
  if (start + long + label <= width) return "after";
  return start >= label ? "before" : "none";
}

/** Returns the smallest of 1, 2, 5 × 10ⁿ milliseconds that is not below `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

function tickText(time, step) {
  if (step < 1) return `${time.toFixed(1)} ms`;
  if (step < 100) return time < 1000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(2)} s`;
  return `${(time / 1000).toFixed(step < 1000 ? 1 : 0)} s`;
}
