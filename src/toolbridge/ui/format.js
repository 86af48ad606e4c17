/** Numbers, times and money as text. */

const whole = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** Returns a count: with separators up to 99,999, shortened above. */
export function count(value) {
  return value < 100_000 ? whole.format(value) : compact.format(value);
}

export function exact(value) {
  return whole.format(value);
}

/** Returns a cost in dollars; `cost` is a decimal text, or null if the price is not known. */
export function money(cost) {
  if (cost === null || cost === undefined) return "?";
  const value = Number(cost);
  if (value === 0) return "$0";
  if (value >= 100) return `$${whole.format(Math.round(value))}`;
  if (value >= 0.1) return `$${value.toFixed(2)}`;
  return `$${value.toPrecision(2).includes("e") ? value.toFixed(9).replace(/0+$/u, "") : trimmed(value)}`;
}

function trimmed(value) {
  const digits = Math.max(2, 1 - Math.floor(Math.log10(value)));
  return value.toFixed(digits);
}

/** Returns a duration, in a few characters. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms > 0 && ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

const minutes = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const hours = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const days = new Intl.DateTimeFormat([], { month: "short", day: "2-digit" });

/** Returns the time of the day; the day and the minute if it is not today. `at` is in seconds. */
export function clock(at) {
  const when = new Date(at * 1000);
  const today = new Date().toDateString() === when.toDateString();
  return today ? hours.format(when) : `${days.format(when)} ${minutes.format(when)}`;
}

export function fullTime(at) {
  return new Date(at * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}

/** Returns how long ago a time was. */
export function ago(at, now = Date.now() / 1000) {
  const seconds = Math.max(0, now - at);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1_048_576 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1_048_576).toFixed(1)} MiB`;
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** Returns the input tokens of a row: plain, read from a cache and written to one. */
export function inputOf(row) {
  return row.input + row.cache_read + row.cache_write;
}
