/** The health of the providers: breaker, latency, errors, and the last failures. */
import { getJson } from "./client.js";
import { build, emptyState, factList, make, shape, svg } from "./dom.js";
import { ago, count, duration, plural } from "./format.js";

const at = (id) => document.getElementById(id);
const PAUSE = 3000;
const STATES = {
  closed: ["ok", "in use"],
  open: ["open", "passed over"],
  half_open: ["half", "being probed"],
};

export class ProvidersView {
  #timer = 0;
  #drawn = "";

  enter() {
    this.#load();
  }

  leave() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  async #load() {
    clearTimeout(this.#timer);
    try {
      const { providers, now } = await getJson("/v1/providers");
      this.#draw(providers, now);
      at("provider-problem").textContent = "";
    } catch (error) {
      at("provider-problem").textContent = `The providers cannot be listed: ${error.message}`;
    }
    if (!at("view-providers").hidden) this.#timer = setTimeout(() => this.#load(), PAUSE);
  }

  #draw(providers, now) {
    const told = JSON.stringify(providers);
    // A field that somebody reads or has selected is not replaced by the same content.
    if (told === this.#drawn) return;
    this.#drawn = told;
    const cards = providers.map((provider) => cardOf(provider, now));
    at("provider-cards").replaceChildren(...cards);
    if (cards.length === 0) at("provider-cards").append(emptyState("No providers.", "Configure one with `toolbridge init`."));
  }
}

function cardOf(provider, now) {
  const [state, word] = stateOf(provider);
  const badge = build("span", { class: "state-badge" }, shape(state), word);
  badge.dataset.state = state;
  const head = build("header", { class: "model-head" }, make("h3", "", provider.name), make("span", "faint", provider.host || provider.api), badge);
  const card = build("article", { class: "card provider-card" }, head);
  if (provider.resting) card.append(make("p", "problem", provider.resting));
  card.append(figures(provider));
  if (provider.recent_ms.length > 1) card.append(spark(provider.recent_ms));
  card.append(factList([
    ["API", provider.api],
    ["failures in a row", provider.failures_in_a_row || ""],
    ["waiting", provider.waiting || ""],
  ]));
  card.append(failures(provider.failures, now));
  return card;
}

function stateOf(provider) {
  if (provider.resting) return STATES.open;
  // The breaker opens only after several failures.
  if (provider.breaker === "closed" && provider.failures_in_a_row > 0) return ["warn", "failing"];
  return STATES[provider.breaker] ?? STATES.closed;
}

function figures(provider) {
  const list = make("dl", "figures");
  const add = (name, value, note = "") =>
    list.append(build("div", {}, make("dt", "", name), make("dd", "", value), note ? make("dd", "figure-note", note) : null));
  const { first_token_ms: first, total_ms: total } = provider;
  add("Requests", count(provider.requests), plural(provider.errors, "error"));
  add("In flight", count(provider.in_flight));
  add("First token", first ? duration(first.p50) : "–", first ? `p95 ${duration(first.p95)}` : "");
  add("Total", total ? duration(total.p50) : "–", total ? `p95 ${duration(total.p95)}` : "");
  return list;
}

/** Returns the durations of the last requests as a line. */
function spark(values) {
  const most = Math.max(...values, 1);
  const points = values.map((value, index) => `${(index / (values.length - 1)) * 100},${24 - (value / most) * 22}`);
  const line = svg("polyline", { points: points.join(" "), class: "spark-line", "vector-effect": "non-scaling-stroke" });
  return svg("svg", { viewBox: "0 0 100 25", class: "spark", preserveAspectRatio: "none", role: "img", "aria-label": `total time of the last ${values.length} requests, at most ${duration(most)}` }, line);
}

function failures(list, now) {
  if (list.length === 0) return make("p", "hint", "No failures among the requests in memory.");
  const shown = make("ul", "failures");
  for (const failure of list) {
    const head = build("p", {}, make("strong", "", failure.kind.replaceAll("_", " ")), failure.status ? ` ${failure.status}` : "",
      make("span", "faint", ` ${ago(failure.at, now)}, ${failure.model}`));
    if (failure.request) head.append(" ", build("a", { href: `#request/${encodeURIComponent(failure.request)}` }, "request"));
    shown.append(build("li", {}, head, failure.text ? make("p", "problem", failure.text) : null));
  }
  return build("div", {}, make("h4", "", "Last failures"), shown);
}
