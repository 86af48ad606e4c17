/** The list of past runs. */
import { make } from "./chart.js";
import { getJson } from "./client.js";
import { badge } from "./details.js";
import { spoken } from "./story.js";

export class PastRuns {
  #root;
  #onopen;

  constructor(root, onopen) {
    this.#root = root;
    this.#onopen = onopen;
  }

  async refresh() {
    let runs;
    try {
      ({ runs } = await getJson("/v1/runs"));
    } catch (error) {
      this.#root.replaceChildren(make("p", "hint", `The past runs cannot be listed: ${error.message}`));
      return;
    }
    if (runs.length === 0) {
      this.#root.replaceChildren(make("p", "hint", "No runs are recorded yet. Start one above."));
      return;
    }
    const list = make("ul", "runs");
    list.append(...runs.map((run) => this.#row(run)));
    this.#root.replaceChildren(list);
  }

  /** Shows that the list needs the key. */
  wait() {
    this.#root.replaceChildren(make("p", "hint", "Enter the key to list past runs."));
  }

  mark(id) {
    for (const button of this.#root.querySelectorAll("button")) {
      button.setAttribute("aria-current", String(button.dataset.run === id));
    }
  }

  disable(yes) {
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

function facts(run) {
  const when = new Date(run.started * 1000);
  const told = [when.toLocaleString([], { dateStyle: "short", timeStyle: "medium" })];
  if (run.model) told.push(run.model);
  if (typeof run.total_ms === "number") told.push(spoken(run.total_ms));
  told.push(run.id.slice(0, 12));
  return told;
}

function badges(run) {
  const found = [];
  const degraded = Array.isArray(run.degraded) ? run.degraded.length : run.degraded;
  if (!run.finished) found.push("unfinished");
  if (degraded) found.push("degraded");
  else if (run.repairs) found.push("repaired");
  else if (run.heals) found.push("healed");
  if (run.errors && Object.keys(run.errors).length > 0) found.push("error");
  return found.map(badge);
}
