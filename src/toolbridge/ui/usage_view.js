/** What was used: by day as bars, by model, key and client as tables. */
import { barChart } from "./bar_chart.js";
import { getJson } from "./client.js";
import { build, emptyState, make } from "./dom.js";
import { saveTable } from "./export.js";
import { count, exact, money, plural } from "./format.js";

const at = (id) => document.getElementById(id);
const NOBODY = { key: "(no key)", session: "(no session)", client: "(unknown)", model: "(none)", provider: "(none)" };
const MEASURES = {
  cost: { value: (total) => Number(total.cost), text: (value) => money(value) },
  tokens: { value: tokensOf, text: (value) => count(Math.round(value)) },
  requests: { value: (total) => total.requests, text: (value) => count(Math.round(value * 10) / 10) },
};

function tokensOf(total) {
  return total.input + total.cache_read + total.cache_write + total.output;
}

export class UsageView {
  #data = null;
  #asked = 0;

  constructor() {
    for (const name of ["usage-since", "usage-measure", "usage-by"]) {
      at(name).addEventListener("change", () => (name === "usage-measure" ? this.#draw() : this.enter()));
    }
    at("usage-save").addEventListener("click", () => this.#save());
    new ResizeObserver(() => this.#draw()).observe(at("usage-chart"));
  }

  async enter() {
    const asked = (this.#asked += 1);
    const since = at("usage-since").value;
    const by = at("usage-by").value;
    try {
      const [days, groups] = await Promise.all(
        ["day", by].map((name) => getJson(`/v1/usage?by=${name}&since=${since}`)),
      );
      if (asked !== this.#asked) return; // a later choice has its own answer
      this.#data = { days, groups, by };
      at("usage-problem").textContent = "";
    } catch (error) {
      if (asked !== this.#asked) return;
      at("usage-problem").textContent = `The usage cannot be read: ${error.message}`;
      this.#data = null;
    }
    this.#draw();
  }

  #draw() {
    if (this.#data === null || at("usage-chart").clientWidth === 0) return;
    const { days, groups, by } = this.#data;
    const none = days.totals.length === 0;
    at("usage-content").hidden = none;
    at("usage-empty").replaceChildren(...(none ? [emptyText(days.ledger)] : []));
    if (none) return;
    this.#figures(days.totals);
    const measure = MEASURES[at("usage-measure").value];
    const bars = everyDay(days.totals, days.since).map(([label, total]) => {
      const value = total === null ? 0 : measure.value(total);
      return { label, value, text: measure.text(value) };
    });
    const chart = barChart(bars, at("usage-chart").clientWidth, measure.text);
    chart.setAttribute("aria-label", `${at("usage-measure").value} by day, ${plural(bars.length, "day")}`);
    at("usage-chart").replaceChildren(chart);
    at("usage-table").replaceChildren(table(groups.totals, by, measure));
  }

  #figures(totals) {
    const sum = (pick) => totals.reduce((whole, total) => whole + pick(total), 0);
    const unpriced = sum((total) => total.unpriced);
    const cached = sum((total) => total.cache_read);
    const input = sum((total) => total.input + total.cache_read + total.cache_write);
    const about = sum((total) => total.estimated) > 0 ? "~" : "";
    const figures = [
      ["Requests", exact(sum((total) => total.requests)), plural(sum((total) => total.errors), "error")],
      ["Input tokens", about + count(input), input > 0 ? `${Math.round((cached / input) * 100)} % from caches` : ""],
      ["Output tokens", about + count(sum((total) => total.output)), about && "estimated in part"],
      ["Cost", money(sum((total) => Number(total.cost))), unpriced > 0 ? `${plural(unpriced, "request")} without a known price` : ""],
    ];
    at("usage-figures").replaceChildren(
      ...figures.map(([name, value, note]) =>
        build("div", {}, make("dt", "", name), make("dd", "", value), note ? make("dd", "figure-note", note) : null),
      ),
    );
  }

  #save() {
    if (this.#data === null) return;
    const { groups, by } = this.#data;
    const columns = [by, "requests", "errors", "input", "cache_read", "cache_write", "output", "thinking", "cost", "unpriced", "estimated", "currency"];
    saveTable(`usage-by-${by}`, columns, groups.totals);
  }
}

function emptyText(ledger) {
  if (ledger === "off") {
    return emptyState("The ledger is off.", "Set `ledger = \"on\"` in toolbridge.toml to keep a row for each request; prompts and answers are never in it.");
  }
  return emptyState("No requests in this time.", "Choose a longer time, or send a request through the gateway.");
}

/** Returns every day since the first with its total, or null; a day without requests is shown too. */
function everyDay(totals, since) {
  const known = new Map(totals.map((total) => [total.day, total]));
  const first = [since.slice(0, 10), totals[0].day].sort()[0];
  const found = [];
  for (let day = new Date(`${first}T00:00:00Z`); day <= new Date(); day.setUTCDate(day.getUTCDate() + 1)) {
    const name = day.toISOString().slice(0, 10);
    found.push([name, known.get(name) ?? null]);
  }
  return found.slice(-400);
}

function table(totals, by, measure) {
  const sorted = [...totals].sort((a, b) => measure.value(b) - measure.value(a) || b.requests - a.requests);
  const most = Math.max(...sorted.map(measure.value), 0);
  const head = build("tr", {}, ...[by, "requests", "errors", "input", "cached", "output", "cost", ""].map((name, column) =>
    build("th", { scope: "col", class: column > 0 && column < 7 ? "number" : undefined }, name)));
  const body = make("tbody");
  for (const total of sorted) body.append(line(total, by, most > 0 ? measure.value(total) / most : 0));
  return build("table", { class: "data" }, build("thead", {}, head), body);
}

function line(total, by, share) {
  const mark = total.estimated > 0 ? "~" : "";
  const bar = make("span", "share");
  bar.style.width = share > 0 ? `max(2px, ${share * 100}%)` : "0";
  const numbers = [
    count(total.requests),
    total.errors > 0 ? count(total.errors) : "–",
    `${mark}${count(total.input + total.cache_read + total.cache_write)}`,
    count(total.cache_read),
    `${mark}${count(total.output)}`,
    Number(total.cost) === 0 && total.unpriced > 0 ? "?" : money(total.cost),
  ];
  const name = build("th", { scope: "row", title: total[by] }, total[by] || NOBODY[by]);
  const cells = numbers.map((text) => build("td", { class: "number" }, text));
  return build("tr", {}, name, ...cells, build("td", { class: "share-cell", "aria-hidden": "true" }, bar));
}

