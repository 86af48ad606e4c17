/** The text of the run with its items, and the final result. */
import { make, visible } from "./dom.js";
import { badge, pretty } from "./details.js";

const LONGEST = 100_000; // characters that stay on the page; the axis keeps all of them
const NODE = 4000;

export class TextPane {
  #root;
  #onselect;
  #story = null;
  #shown = 0;
  #last = null;
  #length = 0;

  constructor(root, onselect) {
    this.#root = root;
    this.#onselect = onselect;
  }

  refresh(story) {
    if (story !== this.#story || story.pieces.length < this.#shown) {
      this.#root.replaceChildren();
      this.#story = story;
      this.#shown = 0;
      this.#last = null;
      this.#length = 0;
    }
    const fresh = story.pieces.slice(this.#shown);
    if (fresh.length === 0) return;
    const follows = this.#root.scrollTop + this.#root.clientHeight >= this.#root.scrollHeight - 8;
    this.#shown = story.pieces.length;
    for (const piece of fresh) this.#add(piece);
    while (this.#length > LONGEST) this.#drop(this.#root.firstChild);
    if (follows) this.#root.scrollTop = this.#root.scrollHeight;
  }

  #add(piece) {
    if (piece.item !== undefined) {
      this.#root.append(this.#chip(piece.item));
      this.#last = null;
      return;
    }
    if (this.#last === null || this.#last.length > NODE) {
      this.#last = document.createTextNode("");
      this.#root.append(this.#last);
    }
    this.#last.appendData(visible(piece.text));
    this.#length += piece.text.length;
  }

  #drop(node) {
    if (node === this.#last) this.#last = null;
    if (node instanceof Text) this.#length -= node.length;
    node.remove();
  }

  #chip(item) {
    const chip = make("button", `chip lane-${item.lane}`, item.label);
    chip.type = "button";
    chip.title = `Show this ${item.kind}`;
    chip.addEventListener("click", () => this.#onselect(item));
    return chip;
  }
}

export class ResultPane {
  #root;
  #item = null;
  #version = -1;

  constructor(root) {
    this.#root = root;
  }

  refresh(story) {
    const item = story.result;
    const version = item === null ? Number(story.done) - 2 : item.version;
    if (item === this.#item && version === this.#version) return;
    this.#item = item;
    this.#version = version;
    this.#root.replaceChildren(...shown(item, story));
  }
}

function shown(item, story) {
  if (item === null) {
    const text = story.done ? "The run ended without a result." : "The result appears here.";
    return [make("p", "hint", text)];
  }
  const found = [];
  const answer = item.value?.answer;
  if (typeof answer === "string") found.push(make("p", "reply", answer));
  const head = make("p", "caption", item.schema);
  if (item.status) head.append(badge(item.status));
  const named = item.invented?.length > 0 ? `Not written by the model: ${item.invented.join(", ")}` : "";
  if (named) found.push(make("p", "problem", named));
  const json = make("pre", "", item.value === undefined ? item.chunks.join("") : pretty(item.value));
  json.tabIndex = 0;
  return [...found, head, json];
}
