/** One request: its timeline, its edits side by side, and the answer with its healing. */
import { getJson } from "./client.js";
import { build, emptyState, factList, make, shape } from "./dom.js";
import { saveJson } from "./export.js";
import { bytes, count, duration, exact, fullTime, inputOf, money } from "./format.js";
import { served, stateOf } from "./request_state.js";
import { timeline } from "./request_timeline.js";
import { SideBySide } from "./side_by_side.js";
import { compare } from "./text_diff.js";

const at = (id) => document.getElementById(id);

export class RequestView {
  #id = "";
  #found = null;
  #neighbour;

  /** `neighbour(id, step)` returns the id of the request beside another one in the list. */
  constructor(neighbour) {
    this.#neighbour = neighbour;
    at("request-older").addEventListener("click", () => this.step(1));
    at("request-newer").addEventListener("click", () => this.step(-1));
    at("request-save").addEventListener("click", () => saveJson(this.#id, this.#found));
  }

  get id() {
    return this.#id;
  }

  /** Opens the request that is `step` rows below this one in the list. */
  step(step) {
    const next = this.#neighbour(this.#id, step);
    if (next !== undefined) location.hash = `request/${encodeURIComponent(next)}`;
  }

  async enter(id) {
    if (id !== this.#id) {
      at("request-body").replaceChildren(make("p", "hint", "Loading…"));
      at("request-title").textContent = id;
    }
    this.#id = id;
    await this.refresh();
  }

  /** Loads the request again, as after its end. */
  async refresh() {
    const id = this.#id;
    try {
      const found = await getJson(`/v1/requests/${encodeURIComponent(id)}`);
      if (id !== this.#id) return;
      this.#found = found;
      at("request-body").replaceChildren(...sections(found));
      at("request-save").disabled = false;
    } catch (error) {
      if (id !== this.#id) return;
      this.#found = null;
      at("request-save").disabled = true;
      at("request-body").replaceChildren(emptyState("This request cannot be shown.", error.message));
    }
  }
}

function sections(found) {
  const { request: row, explanation } = found;
  const shown = [headline(row, explanation), timeCard(row, explanation)];
  if (explanation === null) {
    shown.push(card("Contents", make("p", "hint", found.why)));
    return shown;
  }
  if (explanation.error) shown.splice(1, 0, problemCard(explanation.error));
  shown.push(editsCard(found), answerCard(found));
  if (explanation.prefix) shown.push(prefixCard(explanation.prefix));
  return shown;
}

function card(title, ...children) {
  return build("section", { class: "card" }, make("h3", "", title), ...children);
}

function headline(row, explanation) {
  const state = stateOf(row);
  const to = served(row);
  const model = build("p", { class: "request-model" }, make("span", "asked", row.asked || "no model"));
  if (to && to !== row.asked) model.append(make("span", "arrow", "→"), make("strong", "", to));
  const badge = build("span", { class: "state-badge" }, shape(state.kind), state.word);
  badge.dataset.state = state.kind;
  const facts = factList([
    ["client", row.client],
    ["key", row.key],
    ["API", row.api],
    ["session", sessionLink(row)],
    ["received", fullTime(row.at)],
    ["process", row.process],
    ["tool mode", explanation?.tool_mode],
    ["dialect", explanation?.dialect === "auto" ? "" : explanation?.dialect],
    ["tried", row.routes.length > 1 ? row.routes.join(", ") : ""],
    ["body", explanation?.client?.bytes ? bytes(explanation.client.bytes) : ""],
  ]);
  return build("section", { class: "card headline" }, build("div", { class: "headline-top" }, badge, model), figures(row, explanation), facts);
}

function sessionLink(row) {
  if (!/^run_[0-9a-f]+$/u.test(row.session)) return row.session;
  return build("a", { href: `#run/${row.session}` }, row.session);
}

function figures(row, explanation) {
  const tokens = explanation?.tokens ?? {};
  const estimate = tokens.estimated ? `estimated ${exact(tokens.estimated)}` : "";
  const cached = row.cache_read > 0 ? `${count(row.cache_read)} cached` : "";
  const list = make("dl", "figures");
  const add = (name, value, note = "") => {
    list.append(build("div", {}, make("dt", "", name), make("dd", "", value), note ? make("dd", "figure-note", note) : null));
  };
  const unknown = row.running || (inputOf(row) + row.output === 0 && row.error !== "");
  add("Input tokens", unknown ? "–" : exact(inputOf(row)), [cached, estimate].filter(Boolean).join(", "));
  add("Output tokens", unknown ? "–" : exact(row.output), row.thinking > 0 ? `${count(row.thinking)} thinking` : "");
  add("Cost", unknown ? "–" : money(row.cost), row.estimated ? "tokens are estimated" : "");
  add("First token", duration(row.first_token_ms));
  add("Total", row.running ? "running" : duration(row.total_ms));
  add("Healed", String(row.healings));
  add("Lost", String(row.losses));
  return list;
}

function timeCard(row, explanation) {
  if (row.running) return card("Timeline", make("p", "hint", "The request is running. Its timeline appears at its end."));
  return card("Timeline", timeline(row, explanation));
}

function problemCard(error) {
  return build("section", { class: "card problem-card" }, make("h3", "", `Error: ${error.type}`), make("p", "problem", error.message));
}

function editsCard({ explanation, came, sent }) {
  const edits = explanation.edits ?? [];
  const attempt = explanation.route?.attempts?.at(-1);
  const titles = [
    `Came: ${explanation.client.api} ${explanation.client.path}`,
    attempt ? `Sent: ${explanation.route.api} ${attempt.path ?? "(no HTTP: the prepared request)"}` : "Sent",
  ];
  const sides = new SideBySide(came, sent, edits, titles);
  const title = edits.length > 0 ? `What was changed on the way (${edits.length})` : "What was changed on the way";
  const shown = card(title, sides.element);
  if (explanation.note) shown.append(make("p", "hint", explanation.note));
  if (explanation.edits_left_out) shown.append(make("p", "hint", `${explanation.edits_left_out} further edits are left out.`));
  const lost = explanation.losses?.request ?? [];
  if (lost.length > 0) shown.append(make("h4", "", "Lost on the way to the model"), lossList(lost));
  return shown;
}

function lossList(losses) {
  const list = make("ul", "losses");
  for (const loss of losses) {
    list.append(build("li", {}, make("code", "", loss.what), make("span", "", ` ${loss.why}`), loss.minor ? make("span", "faint", " (minor)") : null));
  }
  return list;
}

// ── the answer ───────────────────────────────────────────────────────────────

function answerCard({ answer, explanation }) {
  const shown = card("Answer");
  if (answer === null) {
    shown.append(make("p", "hint", "There was no answer."));
    return shown;
  }
  if (answer.stop) shown.append(factList([["ended with", answer.stop.replaceAll("_", " ")]]));
  for (const part of answer.content) shown.append(...partOf(part));
  if (answer.content.length === 0) shown.append(make("p", "hint", "The answer has no text and no calls."));
  const healings = explanation.healings ?? [];
  if (healings.length > 0) shown.append(make("h4", "", "Healed"), ...healings.flatMap(healingOf));
  const lost = explanation.losses?.answer ?? [];
  if (lost.length > 0) shown.append(make("h4", "", "Lost on the way to the client"), lossList(lost));
  return shown;
}

function partOf(part) {
  const text = (content) => {
    const shown = make("pre", "", content);
    shown.tabIndex = 0;
    return shown;
  };
  if (part.type === "text") return [make("h4", "", "Text"), text(part.text)];
  if (part.type === "thinking") return [make("h4", "", "Thinking"), text(part.text)];
  return [make("h4", "", `Call of ${part.name}`), text(part.arguments ? JSON.stringify(part.arguments, null, 2) : (part.raw ?? "{}"))];
}

function healingOf(report) {
  const title = build("p", { class: "healing" }, make("code", "", report.name || "answer"), ` level ${report.level}`);
  const steps = report.steps.map((step) => {
    const [before, after] = compare(step.before, step.after);
    return build("div", { class: "healing-step" }, make("p", "reason", `${step.what} (level ${step.level})`),
      build("div", { class: "panes" }, side("As the model wrote it", before), side("As the client got it", after)));
  });
  return [title, ...steps];
}

function side(title, content) {
  return build("div", { class: "pane" }, make("h4", "", title), content);
}

function prefixCard(prefix) {
  const shown = card("Prompt prefix", make("p", "", prefix.text));
  if (prefix.before || prefix.after) {
    const [before, after] = compare(prefix.before ?? "", prefix.after ?? "");
    shown.append(build("div", { class: "panes" }, side("Before", before), side("Now", after)));
  }
  return shown;
}
