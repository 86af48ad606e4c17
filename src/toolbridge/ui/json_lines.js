/** JSON as numbered lines, each with the path of its value. */

const LONGEST = 2000; // characters of one line

/** Returns lines `{depth, text, path, value}`; `value` is set for a line that has a whole value. */
export function jsonLines(value) {
  const lines = [];
  write(value, "", "", 0, false, lines);
  return lines;
}

function write(value, path, key, depth, comma, lines) {
  const name = key === "" ? "" : `${JSON.stringify(key)}: `;
  const end = comma ? "," : "";
  const put = (text, whole) => lines.push({ depth, text: cut(text), path, value: whole });
  if (value === null || typeof value !== "object") {
    put(`${name}${JSON.stringify(value)}${end}`, value);
    return;
  }
  const list = Array.isArray(value);
  const [open, close] = list ? ["[", "]"] : ["{", "}"];
  const members = list ? value.map((item, at) => [String(at), item]) : Object.entries(value);
  if (members.length === 0) {
    put(`${name}${open}${close}${end}`, value);
    return;
  }
  put(`${name}${open}`, value);
  members.forEach(([member, item], at) => {
    const inner = path === "" ? member : `${path}.${member}`;
    write(item, inner, list ? "" : member, depth + 1, at < members.length - 1, lines);
  });
  lines.push({ depth, text: `${close}${end}`, path, value: undefined });
}

function cut(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text;
}

/** Returns the indices of the lines at `path` and below; those of its nearest part if there are none. */
export function linesAt(lines, path) {
  for (let at = path; at !== ""; at = at.split(".").slice(0, -1).join(".")) {
    const found = below(lines, at);
    // A whole list would mark half of the request.
    if (found.length > 0 && (at === path || found.length <= 12)) return found;
  }
  return [];
}

function below(lines, path) {
  const found = [];
  lines.forEach((line, at) => {
    if (line.path === path || line.path.startsWith(`${path}.`)) found.push(at);
  });
  return found;
}

const SHORTENED = /… \(\d+ characters\)$/u;

/** Returns the indices of the lines that hold `value`, which may be shortened; none for a trivial one. */
export function linesWith(lines, value, key) {
  const texts = (Array.isArray(value) ? value : [value]).filter((one) => one !== null && one !== undefined);
  const found = [];
  for (const wanted of texts) {
    const at = lines.findIndex((line, index) => !found.includes(index) && holds(line, wanted, key));
    if (at >= 0) found.push(at);
  }
  return found;
}

function holds(line, wanted, key) {
  if (line.value === undefined) return false;
  if (typeof wanted === "string") {
    if (typeof line.value !== "string" || wanted === "") return false;
    if (wanted.length < 3) return line.value === wanted && line.path.endsWith(key);
    return SHORTENED.test(wanted) ? line.value.startsWith(wanted.replace(SHORTENED, "")) : line.value.includes(wanted);
  }
  const named = line.path.split(".").at(-1) === key;
  return named && JSON.stringify(line.value) === JSON.stringify(wanted);
}
