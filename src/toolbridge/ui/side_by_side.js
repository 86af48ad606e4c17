/** What came in and what was sent, side by side, with the edits marked and their reasons. */
import { build, button, make } from "./dom.js";
import { plural } from "./format.js";
import { jsonLines, linesAt, linesWith } from "./json_lines.js";

const AROUND = 3; // lines around an edit
const LONG = 80; // lines above which only the surroundings of edits are shown at first

export class SideBySide {
  element = make("div", "sides");
  #panes;

  /** `edits` are those of the explanation; `titles` are the headings of both sides. */
  constructor(came, sent, edits, titles) {
    this.#panes = [
      new JsonPane(titles[0], came, edits.map(leftOf)),
      new JsonPane(titles[1], sent, edits.map(rightOf)),
    ];
    const both = build("div", { class: "panes" }, ...this.#panes.map((pane) => pane.element));
    this.element.append(this.#editList(edits), both);
  }

  #editList(edits) {
    if (edits.length === 0) {
      return make("p", "hint", "The request was sent with the same meaning: there are no edits.");
    }
    const list = make("ol", "edits");
    edits.forEach((edit, at) => {
      const line = build("li", { class: "edit" });
      line.dataset.kind = edit.kind;
      const show = button("", () => this.#panes.forEach((pane) => pane.reveal(at)), "edit-head");
      show.append(make("span", "number", String(at + 1)), make("span", "kind", edit.kind), make("code", "place", edit.place));
      show.title = "Show this edit in both requests";
      line.append(show, make("p", "reason", edit.reason), values(edit));
      list.append(line);
    });
    return list;
  }
}

function leftOf(edit) {
  return edit.kind === "added" ? () => [] : (lines) => linesAt(lines, edit.place);
}

function rightOf(edit) {
  if (edit.kind === "removed") return () => [];
  const key = edit.place.split(".").at(-1);
  return (lines) => {
    const same = lines.some((line) => line.path === edit.place) && !edit.place.includes(".");
    const found = same ? linesAt(lines, edit.place) : linesWith(lines, edit.after, key);
    return found.length > 0 ? found : linesWith(lines, flat(edit.after), key);
  };
}

/** Returns the texts in a value, for a part whose shape differs between the APIs. */
function flat(value) {
  if (value === null || typeof value !== "object") return [];
  return Object.values(value).flatMap((one) => (typeof one === "string" ? [one] : flat(one)));
}

function values(edit) {
  const shown = make("div", "edit-values");
  if (edit.kind !== "added") shown.append(value("del", edit.before));
  if (edit.kind !== "removed") shown.append(value("ins", edit.after));
  return shown;
}

function value(tag, content) {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  return build(tag, {}, text ?? "nothing");
}

class JsonPane {
  element = make("section", "pane");
  #lines;
  #marks = new Map();
  #body = make("div", "lines");
  #all = false;

  constructor(title, value, finders) {
    this.#lines = value === null || value === undefined ? [] : jsonLines(value);
    finders.forEach((find, number) => {
      for (const at of find(this.#lines)) {
        if (!this.#marks.has(at)) this.#marks.set(at, number);
      }
    });
    this.#all = this.#lines.length <= LONG;
    this.#body.tabIndex = 0;
    this.#body.setAttribute("role", "region");
    this.#body.setAttribute("aria-label", title);
    const head = build("div", { class: "pane-head" }, make("h4", "", title));
    if (!this.#all) {
      const toggle = button(`Show all ${plural(this.#lines.length, "line")}`, () => {
        this.#all = !this.#all;
        toggle.textContent = this.#all ? "Show the edits" : `Show all ${plural(this.#lines.length, "line")}`;
        this.#draw();
      }, "small");
      head.append(toggle);
    }
    this.element.append(head, this.#body);
    this.#draw();
  }

  #draw() {
    if (this.#lines.length === 0) {
      this.#body.replaceChildren(make("p", "hint", "No request was sent."));
      return;
    }
    const shown = document.createDocumentFragment();
    let hidden = 0;
    this.#lines.forEach((line, at) => {
      if (!this.#all && !this.#isNear(at)) {
        hidden += 1;
        return;
      }
      if (hidden > 0) shown.append(make("div", "gap", `⋯ ${plural(hidden, "line")}`));
      hidden = 0;
      shown.append(this.#line(line, at));
    });
    if (hidden > 0) shown.append(make("div", "gap", `⋯ ${plural(hidden, "line")}`));
    this.#body.replaceChildren(shown);
  }

  #isNear(at) {
    if (this.#marks.size === 0) return at < LONG / 2;
    for (let near = at - AROUND; near <= at + AROUND; near += 1) if (this.#marks.has(near)) return true;
    return false;
  }

  #line({ depth, text }, at) {
    const line = make("div", "line");
    const number = this.#marks.get(at);
    const first = number !== undefined && this.#marks.get(at - 1) !== number;
    if (number !== undefined) {
      line.classList.add("marked");
      line.dataset.edit = String(number);
    }
    line.append(make("span", "gutter", first ? String(number + 1) : ""), make("span", "code-text", `${"  ".repeat(depth)}${text}`));
    return line;
  }

  /** Scrolls to the lines of an edit. */
  reveal(number) {
    for (const line of this.#body.querySelectorAll(".chosen")) line.classList.remove("chosen");
    const lines = this.#body.querySelectorAll(`[data-edit="${number}"]`);
    for (const line of lines) line.classList.add("chosen");
    if (lines.length > 0) this.#body.scrollTop = lines[0].offsetTop - this.#body.offsetTop - 40;
  }
}
