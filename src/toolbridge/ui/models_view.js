/** Cards of the models: what is known about each, and from which source. */
import { getJson } from "./client.js";
import { build, button, emptyState, factList, make } from "./dom.js";
import { ago, count, plural } from "./format.js";

const at = (id) => document.getElementById(id);
const CAPABILITIES = {
  tools: "tools", parallel: "parallel calls", thinking: "thinking", vision: "images", pdf: "PDF",
  audio: "audio", schema: "JSON schema",
};
const SIGNS = new Map([[true, "yes"], [false, "no"], [null, "unknown"]]);

export class ModelsView {
  #timer = 0;
  #asked = 0;
  #next = null;

  constructor() {
    at("model-search").addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#load(0), 250);
    });
  }

  enter(name) {
    if (name) at("model-search").value = name;
    this.#load(0);
  }

  async #load(after) {
    const asked = (this.#asked += 1);
    const wanted = at("model-search").value.trim();
    if (after === 0 && at("model-cards").childElementCount === 0) at("model-count").textContent = "Loading…";
    let found;
    try {
      found = await getJson(`/v1/model_cards?after=${after}&q=${encodeURIComponent(wanted)}`);
    } catch (error) {
      if (asked === this.#asked) at("model-count").textContent = `The models cannot be listed: ${error.message}`;
      return;
    }
    if (asked !== this.#asked) return;
    this.#next = found.next;
    at("model-count").textContent = plural(found.count, "model");
    const cards = found.cards.map(cardOf);
    if (after === 0) at("model-cards").replaceChildren(...cards);
    else at("model-cards").append(...cards);
    if (found.count === 0) at("model-cards").replaceChildren(none(wanted));
    at("model-more").replaceChildren(...(found.next === null ? [] : [button("More models", () => this.#load(this.#next))]));
  }
}

function none(wanted) {
  if (wanted) return emptyState("No model has this in its name.");
  return emptyState("No models yet.", "Configure a provider with `toolbridge init`, or start Ollama.");
}

function cardOf(model) {
  const head = build("header", { class: "model-head" }, make("h3", "", model.model || model.address), make("span", "faint", model.provider));
  if (model.default) head.append(make("span", "tag strong", "default"));
  if (model.retires) head.append(make("span", "tag warn", `retires ${model.retires}`));
  const card = build("article", { class: "card model-card" }, head);
  if (model.problem) card.append(make("p", "problem", model.problem));
  card.append(figures(model), abilities(model), factList(factsOf(model)));
  if (model.probe) card.append(probe(model.probe));
  return card;
}

function figures(model) {
  const list = make("dl", "figures");
  const add = (name, value) => list.append(build("div", {}, make("dt", "", name), make("dd", "", value)));
  add("Window", model.window ? count(model.window) : "?");
  add("Output", model.max_output ? count(model.max_output) : "?");
  add("Input $/M", rate(model, "input"));
  add("Output $/M", rate(model, "output"));
  return list;
}

function rate(model, name) {
  if (model.free) return "free";
  const value = model.rates?.[name];
  return value === undefined || value === null ? "?" : `$${Number(value.toPrecision(4))}`;
}

function abilities(model) {
  const list = make("ul", "abilities");
  for (const [name, word] of Object.entries(CAPABILITIES)) {
    const has = model.capabilities[name] ?? null;
    const item = build("li", { title: sourceText(model, name) }, word, make("span", "unseen", `: ${SIGNS.get(has)}`));
    item.dataset.has = SIGNS.get(has);
    list.append(item);
  }
  return list;
}

function sourceText(model, name) {
  const source = model.sources[name];
  return source ? `source: ${source}` : "nothing is known about it";
}

function factsOf(model) {
  const thinking = [model.thinking.style, model.thinking.efforts.join(", "), model.thinking.always ? "always on" : ""];
  const mode = model.tool_mode;
  const rates = model.rates ?? {};
  const cache = rates.cache_read === undefined || rates.cache_read === null ? "" : `$${rates.cache_read} per million read`;
  return [
    ["also named", model.names.join(", ")],
    ["tool mode", mode ? [mode.mode, mode.why].filter(Boolean).join(", ") : ""],
    ["thinking", thinking.filter((text) => text && text !== "none").join("; ")],
    ["prompt cache", cache],
    ["API", model.api],
    ["engine", model.engine],
    ["window from", model.window ? model.sources.window : ""],
  ];
}

function probe(card) {
  const shown = build("details", { class: "probe" }, make("summary", "", `Probed ${ago(card.at)}: best mode ${card.best ?? "unknown"}`));
  const [head, ...lines] = card.rows;
  const table = build("table", { class: "data" }, build("thead", {}, build("tr", {}, ...head.map((text) => build("th", { scope: "col" }, text)))));
  const body = make("tbody");
  for (const [name, ...cells] of lines) {
    body.append(build("tr", {}, build("th", { scope: "row" }, name), ...cells.map((text) => build("td", { class: "number" }, text))));
  }
  table.append(body);
  shown.append(table, make("p", "hint", card.facts.join(" · ")));
  return shown;
}

