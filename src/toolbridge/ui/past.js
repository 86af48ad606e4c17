/** The list of past runs. */
import { make } from "./dom.js";
import { getJson } from "./client.js";
import { badge } from "./details.js";
import { spoken } from "./story.js";

export class PastRuns {
  #root;
  #onopen;
  #search;
  #runs = [];
  #drawn = "";
  #marked = "";
  #disabled = false;

  constructor(root, search, onopen) {
    this.#root = root;
    this.#search = search;
    this.#onopen = onopen;
    search.addEventListener("input", () => this.#draw());
  }

  async refresh() {
    try {
      const { runs } = await getJson("/v1/runs");
      this.#runs = runs;
    } catch (error) {
      this.#drawn = "";
      this.#root.replaceChildren(make("p", "hint", `The runs cannot be listed: ${error.message}`));
      return;
    }
    this.#draw();
  }

  #draw() {
    const words = this.#search.value.toLowerCase().split(/\s+/u).filter(Boolean);
    const shown = this.#runs.filter((run) => contains(run, words));
    const told = JSON.stringify(shown);
    if (told === this.#drawn && this.#root.childElementCount > 0) return;
    this.#drawn = told;
    if (shown.length === 0) {
      const text = words.length > 0 ? "No run contains these words." : "No runs are recorded yet. Start one above.";
      this.#root.replaceChildren(make("p", "hint", text));
      return;
    }
    const focused = this.#root.contains(document.activeElement) ? document.activeElement.dataset.run : "";
    const list = make("ul", "runs");
    list.append(...shown.map((run) => this.#row(run)));
    this.#root.replaceChildren(list);
    this.mark(this.#marked);
    this.disable(this.#disabled);
    if (focused) [...list.querySelectorAll("button")].find((row) => row.dataset.run === focused)?.focus();
  }

  /** Shows that the list needs the key. */
  wait() {
    this.#drawn = "";
    this.#root.replaceChildren(make("p", "hint", "Enter the key to list past runs."));
  }

  mark(id) {
    this.#marked = id;
    for (const button of this.#root.querySelectorAll("button")) {
      button.setAttribute("aria-current", String(button.dataset.run === id));
    }
  }

  disable(yes) {
    this.#disabled = yes;
    for (const button of this.#root.querySelectorAll("button")) button.disabled = yes;
  }

  #row(run) {
    const row = make("li");
    const button = make("button", "run");
    button.type = "button";
    button.dataset.run = run.id;
    button.append(
      make("span", "run-prompt", run.prompt || "(no prompt)"),
      make("span", "run-facts", facts(run).join(" · ")),
      ...badges(run),
    );
    button.addEventListener("click", () => this.#onopen(run.id));
    row.append(button);
    return row;
  }
}

function contains(run, words) {
  const whole = [run.id, run.prompt, run.model ?? "", ...badgeNames(run)].join("\n").toLowerCase();
  return words.every((word) => whole.includes(word));
}

function facts(run) {
  const when = new Date(run.started * 1000);
  const told = [when.toLocaleString([], { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" })];
  if (run.model) told.push(run.model);
  if (typeof run.total_ms === "number") told.push(spoken(run.total_ms));
  told.push(run.id.slice(0, 12));
  return told;
}

function badges(run) {
  return badgeNames(run).map(badge);
}

function badgeNames(run) {
  if (run.active) return ["running"];
  const found = [];
  const degraded = Array.isArray(run.degraded) ? run.degraded.length : run.degraded;
  if (!run.finished) found.push("unfinished");
  if (degraded) found.push("degraded");
  else if (run.repairs) found.push("repaired");
  else if (run.heals) found.push("healed");
  if (run.errors && Object.keys(run.errors).length > 0) found.push("error");
  return found;
}
