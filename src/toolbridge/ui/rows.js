/** The requests that the page knows: joined by their ids, the newest first, limited in number. */
import { failed, stateOf } from "./request_state.js";

export const MOST = 5000;
const SEARCHED = ["id", "key", "client", "session", "api", "asked", "model", "provider", "error", "status", "process"];

export class Rows {
  /** The newest first. */
  list = [];
  #known = new Map();

  get size() {
    return this.list.length;
  }

  find(id) {
    return this.#known.get(id);
  }

  /** Adds or replaces rows; a row that has ended does not run again. Returns how many are new. */
  add(rows) {
    let fresh = 0;
    for (const row of rows) {
      const known = this.#known.get(row.id);
      if (known !== undefined && row.running && !known.running) continue;
      if (known === undefined) fresh += 1;
      // A row of the ledger does not name its process, which is known from before.
      // The gateway's clock may differ from ours, so that a duration is counted from its arrival.
      this.#known.set(row.id, { process: known?.process, ...row, seen: performance.now() - row.total_ms });
    }
    if (rows.length > 0) this.#sort();
    return fresh;
  }

  /** Forgets running rows that the gateway no longer has, after a lost connection. */
  settle(running) {
    for (const row of this.list) {
      if (row.running && !running.has(row.id)) this.#known.delete(row.id);
    }
    this.#sort();
  }

  #sort() {
    this.list = [...this.#known.values()].sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    for (const row of this.list.splice(MOST)) this.#known.delete(row.id);
  }
}

const FILTERS = {
  all: () => true,
  running: (row) => row.running,
  errors: failed,
  healed: (row) => row.healings > 0,
  losses: (row) => row.losses > 0,
};

/** Returns the rows that contain every word of `text` and fit the filter `only`. */
export function matching(list, text, only) {
  const words = text.toLowerCase().split(/\s+/u).filter(Boolean);
  return list.filter((row) => FILTERS[only](row) && (words.length === 0 || contains(row, words)));
}

function contains(row, words) {
  const whole = [stateOf(row).word, ...SEARCHED.map((name) => row[name]), ...row.routes].join("\n").toLowerCase();
  return words.every((word) => whole.includes(word));
}
