/** The state of a request: a shape, a word and a kind, so that color is never the only sign. */

const GONE = new Set(["aborted"]);

/** Returns `{kind, word}` of a row; the kind is ok, warn, error, gone or running. */
export function stateOf(row) {
  if (row.running) return { kind: "running", word: row.first_token_ms === null ? "waiting" : "writing" };
  if (GONE.has(row.error)) return { kind: "gone", word: "client left" };
  if (row.status >= 400) return { kind: "error", word: String(row.status) };
  if (row.error) return { kind: "warn", word: "broke off" };
  return { kind: "ok", word: String(row.status) };
}

/** Returns whether a row has failed. */
export function failed(row) {
  return !row.running && (row.status >= 400 || row.error !== "");
}

/** Returns the address of the model that served a request; empty if none did. */
export function served(row) {
  if (!row.model) return "";
  return row.provider ? `${row.provider}/${row.model}` : row.model;
}
