/** Shows one item in full. All values are set as text, so that none is interpreted as HTML. */
import { make } from "./dom.js";
import { spoken } from "./story.js";
import { toolForm } from "./tool_form.js";

const KINDS = {
  text: "Text",
  object: "Object",
  tool: "Tool",
  repair: "Repair",
  result: "Result",
  error: "Error",
};

/** Returns JSON on several lines. */
export function pretty(value) {
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}

export class Details {
  #root;
  #item = null;
  #run = null;
  #version = -1;
  #answer;
  #schema;

  /** `answer(item, outcome)` sends the outcome of a client tool; `schema(item)` describes its result. */
  constructor(root, answer, schema) {
    this.#root = root;
    this.#answer = answer;
    this.#schema = schema;
  }

  get item() {
    return this.#item;
  }

  /** Shows the summary of a past run, or a hint if no item is selected. */
  showRun(kept) {
    this.#run = kept;
    this.show(null);
  }

  show(item) {
    this.#item = item;
    this.#version = -1;
    this.refresh();
  }

  /** Updates the item that is shown. */
  refresh() {
    const item = this.#item;
    if (item === null) {
      if (this.#version === 0) return;
      this.#version = 0;
      const hint = make("p", "hint", "Select an item on the time axis to see its details.");
      this.#root.replaceChildren(...(this.#run === null ? [] : runFacts(this.#run)), hint);
      return;
    }
    if (item.version === this.#version || this.#root.contains(document.activeElement)) return;
    this.#version = item.version;
    this.#root.replaceChildren(heading(item), facts(item), ...parts(item));
    if (item.client && item.open) this.#root.append(this.#answerForm(item));
  }

  #answerForm(item) {
    return toolForm(item.label, this.#schema(item), (outcome) => this.#answer(item, outcome));
  }
}

function heading(item) {
  const head = make("h3", "", `${KINDS[item.kind]}: ${item.kind === "text" ? "" : item.label}`.replace(/: $/, ""));
  if (item.status) head.append(badge(item.status));
  return head;
}

export function badge(status) {
  const mark = make("span", "badge", status);
  mark.dataset.status = status;
  return mark;
}

function runFacts(kept) {
  const order = kept.prompt?.order ?? {};
  const told = kept.metrics ?? {};
  const asked = order.prompt || order.messages?.at(-1)?.content;
  const tokens = told.output_tokens ? `${told.input_tokens} in, ${told.output_tokens} out` : undefined;
  const errors = Object.entries(told.errors ?? {}).map(([code, count]) => `${code} × ${count}`);
  const rows = [
    ["asked", asked],
    ["model", kept.prompt?.model],
    ["profile", order.profile],
    ["took", typeof told.total_ms === "number" ? spoken(told.total_ms) : undefined],
    ["tokens", tokens],
    ["healed", told.heals],
    ["repaired", told.repairs],
    ["errors", errors.join(", ")],
  ];
  return [make("h3", "", "The run"), table(rows)];
}

function facts(item) {
  const length = item.open ? "running" : spoken(item.end - item.start);
  const rows = [
    ["id", item.id],
    ["schema", item.schema],
    ["started at", spoken(item.start)],
    ["took", item.kind === "error" ? undefined : length],
    ["size", sizeOf(item)],
    ["answered by", item.client ? "the caller" : undefined],
    ["about", item.about ? `${KINDS[item.about.kind]} ${item.about.label}` : undefined],
  ];
  return table(rows);
}

function table(rows) {
  const list = make("dl", "facts");
  for (const [name, value] of rows) {
    if (value !== undefined && value !== "") {
      list.append(make("dt", "", name), make("dd", "", String(value)));
    }
  }
  return list;
}

function sizeOf(item) {
  if (item.bytes !== undefined) return `${item.bytes} bytes`;
  return item.size > 0 ? `${item.size} characters` : undefined;
}

function parts(item) {
  const written = item.chunks.join("");
  const found = [];
  if (item.message) found.push(make("p", "problem", item.message));
  for (const problem of item.problems) {
    found.push(make("p", "problem", `${problem.code}: ${problem.message}`));
  }
  if (item.steps.length > 0) found.push(...part("Changes", steps(item.steps)));
  if (item.invented?.length > 0) found.push(...part("Not written by the model", invented(item.invented)));
  if (item.args !== undefined) found.push(...block("Arguments", pretty(item.args)));
  if (item.value !== undefined) {
    found.push(...block(item.kind === "tool" ? "Result of the tool" : "Value", pretty(item.value)));
  }
  if (item.about?.value !== undefined && item.kind === "repair") {
    found.push(...block("Final value", pretty(item.about.value)));
    found.push(...block("As the model wrote it", item.about.chunks.join("")));
  }
  const differs = item.value === undefined || (item.status && item.status !== "valid");
  if (written && differs) found.push(...block(item.kind === "text" ? "" : "As the model wrote it", written));
  return found;
}

function part(title, content) {
  return title ? [make("h4", "", title), content] : [content];
}

function block(title, text) {
  const shown = make("pre", "", text);
  shown.tabIndex = 0; // so that a long one can be scrolled with the keyboard
  return part(title, shown);
}

/** Return the members of a degraded value that were invented so that it fits its schema. */
export function invented(paths) {
  const shown = make("ul", "invented");
  for (const path of paths) {
    const line = make("li");
    line.append(make("code", "", path === "." ? "the whole value" : path));
    shown.append(line);
  }
  return shown;
}

function steps(list) {
  const shown = make("ol", "steps");
  for (const step of list) {
    const line = make("li", "", step.what ?? "");
    if (step.path) line.append(" at ", make("code", "", step.path));
    if (step.level !== undefined) line.append(make("span", "level", ` (level ${step.level})`));
    shown.append(line);
  }
  return shown;
}
