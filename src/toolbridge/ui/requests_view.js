/** The first view: requests as they happen, with search, filters, pause and older ones. */
import { getJson } from "./client.js";
import { build, button, make } from "./dom.js";
import { saveJson, saveLines, saveTable } from "./export.js";
import { count, duration, inputOf, money, plural } from "./format.js";
import { RequestList } from "./request_list.js";
import { failed } from "./request_state.js";
import { MOST, Rows, matching } from "./rows.js";

const at = (id) => document.getElementById(id);
const COLUMNS = [
  "id", "at", "status", "error", "key", "client", "session", "api", "asked", "provider", "model", "input",
  "cache_read", "cache_write", "output", "thinking", "estimated", "cost", "currency", "first_token_ms",
  "total_ms", "healings", "losses", "process",
];
const SERVER_FILTERS = { errors: "errors", healed: "healed", losses: "losses" };

export class RequestsView {
  rows = new Rows();
  #list;
  #shownRows = [];
  #only = "all";
  #paused = false;
  #held = [];
  #fresh = 0;
  #next = new Map();
  #loading = false;
  #asked = false;
  #search = 0;
  #problem = "";

  constructor() {
    this.#list = new RequestList(at("request-list"), () => this.#older());
    at("search").addEventListener("input", () => this.#changed());
    for (const option of document.querySelectorAll("[name=only]")) {
      option.addEventListener("change", () => {
        this.#only = option.value;
        this.#changed();
      });
    }
    at("hold").addEventListener("click", () => this.togglePause());
    at("newest").addEventListener("click", () => this.follow());
    at("request-list").addEventListener("scroll", () => this.#noteTop(), { passive: true });
    for (const save of document.querySelectorAll("[data-save]")) {
      save.addEventListener("click", () => this.#save(save.dataset.save));
    }
    setInterval(() => this.#tick(), 500);
  }

  get list() {
    return this.#list;
  }

  /** Takes rows of the feed; with `first`, they are all that run now. */
  take(rows, first) {
    if (first) {
      this.rows.settle(new Set(rows.filter((row) => row.running).map((row) => row.id)));
      this.#load(""); // older ones, and those that a lost connection has left out
    }
    if (this.#paused) this.#held.push(...rows);
    else this.#add(rows);
    this.draw();
  }

  /** Shows the list; returns whether the row that was opened has the focus again. */
  enter() {
    this.draw();
    return this.#list.refocus();
  }

  togglePause() {
    this.#paused = !this.#paused;
    if (!this.#paused) this.#add(this.#held.splice(0));
    this.draw();
  }

  /** Shows the newest requests, and new ones as they come. */
  follow() {
    if (this.#paused) this.togglePause();
    this.#list.toTop();
    this.#fresh = 0;
    this.draw();
  }

  /** Shows why there are no requests: the key may not see them. */
  refuse(error) {
    this.#problem = error.message;
    this.draw();
  }

  draw() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#paint());
  }

  #add(rows) {
    const fresh = this.rows.add(rows);
    if (!this.#list.atTop) this.#fresh += fresh;
  }

  #paint() {
    this.#asked = false;
    this.#shownRows = matching(this.rows.list, at("search").value, this.#only);
    this.#list.show(this.#shownRows);
    this.#summary();
    at("hold").textContent = this.#paused ? "Resume" : "Pause";
    at("hold").setAttribute("aria-pressed", String(this.#paused));
    at("held").textContent = this.#paused ? heldText(this.#held) : "";
    at("newest").hidden = this.#list.atTop;
    at("newest").textContent = this.#fresh > 0 ? `${plural(this.#fresh, "new request")} ↑` : "Newest ↑";
    this.#empty();
  }

  #summary() {
    const ended = this.#shownRows.filter((row) => !row.running);
    const first = ended.map((row) => row.first_token_ms).filter((ms) => ms !== null).sort((a, b) => a - b);
    const sum = (pick) => ended.reduce((total, row) => total + pick(row), 0);
    const facts = {
      "sum-requests": count(this.#shownRows.length),
      "sum-running": count(this.#shownRows.length - ended.length),
      "sum-errors": count(ended.filter(failed).length),
      "sum-in": count(sum(inputOf)),
      "sum-out": count(sum((row) => row.output)),
      "sum-cost": money(sum((row) => Number(row.cost ?? 0)).toFixed(9)),
      "sum-ttft": first.length > 0 ? duration(first[Math.floor(first.length / 2)]) : "–",
    };
    for (const [id, text] of Object.entries(facts)) at(id).textContent = text;
    at("sum-errors").parentElement.dataset.some = String(facts["sum-errors"] !== "0");
  }

  #empty() {
    const filtered = at("search").value.trim() !== "" || this.#only !== "all";
    at("request-empty").hidden = this.#shownRows.length > 0 || this.#loading;
    at("empty-first").hidden = filtered || this.#problem !== "";
    at("empty-filtered").hidden = !filtered || this.#problem !== "";
    at("empty-problem").textContent = this.#problem;
  }

  #noteTop() {
    if (!this.#list.atTop) {
      at("newest").hidden = false;
      return;
    }
    this.#fresh = 0;
    at("newest").hidden = true;
  }

  #tick() {
    if (this.#shownRows.some((row) => row.running)) this.#list.draw();
  }

  // ── search and older requests ──────────────────────────────────────────────

  #changed() {
    this.#list.toTop();
    this.draw();
    clearTimeout(this.#search);
    this.#search = setTimeout(() => {
      if (!this.#next.has(this.#question())) this.#load("");
    }, 250);
  }

  /** Returns the query of the gateway for what is searched now. */
  #question() {
    const asked = new URLSearchParams();
    const [first = ""] = at("search").value.trim().split(/\s+/u);
    if (first) asked.set("q", first); // the other words are compared here
    if (this.#only in SERVER_FILTERS) asked.set("only", SERVER_FILTERS[this.#only]);
    return asked.toString();
  }

  #older() {
    const next = this.#next.get(this.#question());
    if (next && this.rows.size < MOST) this.#load(next);
  }

  async #load(before) {
    if (this.#loading) return;
    this.#loading = true;
    const question = this.#question();
    const parts = [question, "limit=200", before ? `before=${encodeURIComponent(before)}` : ""];
    try {
      const found = await getJson(`/v1/requests?${parts.filter(Boolean).join("&")}`);
      this.rows.add([...found.requests, ...(found.running ?? [])]);
      if (before || !this.#next.has(question)) this.#next.set(question, found.next);
      const usable = found.ledger === "on" || found.ledger === "off";
      this.#problem = "";
      at("ledger-state").textContent = usable ? "" : `Older requests cannot be read: ${found.ledger}`;
    } catch (error) {
      this.#problem = this.rows.size === 0 && !error.wantsKey ? `The requests cannot be listed: ${error.message}` : "";
    }
    this.#loading = false;
    this.#end();
    this.draw();
  }

  #end() {
    const next = this.#next.get(this.#question());
    const full = this.rows.size >= MOST;
    at("request-end").textContent = full
      ? `The page holds ${count(MOST)} requests; search for older ones.`
      : next === null && this.rows.size > 0 ? "These are all requests that the gateway knows." : "";
  }

  #save(kind) {
    const rows = this.#shownRows.map(({ seen, ...row }) => row);
    if (kind === "json") saveJson("requests", rows);
    else if (kind === "ndjson") saveLines("requests", rows);
    else saveTable("requests", COLUMNS, rows);
    at("save-menu").removeAttribute("open");
  }
}

function heldText(held) {
  const ids = new Set(held.map((row) => row.id));
  return ids.size > 0 ? `${plural(ids.size, "request")} held back` : "paused";
}

/** Fills in the commands that a new user needs first. */
export function fillFirstSteps() {
  const url = location.origin;
  const steps = [
    ["Claude Code", "toolbridge claude"],
    ["Any Anthropic client", `export ANTHROPIC_BASE_URL=${url}`],
    ["Any OpenAI client", `export OPENAI_BASE_URL=${url}/v1`],
  ];
  const list = make("dl", "steps-first");
  for (const [name, command] of steps) {
    const copy = button("Copy", () => copyText(command, copy), "small");
    list.append(make("dt", "", name), build("dd", {}, make("code", "", command), copy));
  }
  at("first-steps").replaceChildren(list);
  at("first-url").textContent = url;
}

async function copyText(text, control) {
  try {
    await navigator.clipboard.writeText(text);
    control.textContent = "Copied";
  } catch {
    control.textContent = "Select it";
  }
  setTimeout(() => {
    control.textContent = "Copy";
  }, 1500);
}
