/** Marks the part in which two texts differ. */
import { make } from "./dom.js";

const AROUND = 160; // characters of the common text that stay

/** Returns two elements: the text before with its removed part marked, and the text after likewise. */
export function compare(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  const most = Math.min(before.length, after.length) - start;
  while (end < most && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return [marked(before, start, end, "del"), marked(after, start, end, "ins")];
}

function marked(text, start, end, tag) {
  const shown = make("pre", "compared");
  shown.tabIndex = 0;
  const changed = text.slice(start, text.length - end);
  const head = text.slice(0, start);
  const tail = end > 0 ? text.slice(-end) : "";
  shown.append(head.length > AROUND ? `…${head.slice(-AROUND)}` : head);
  if (changed) shown.append(make(tag, "", changed));
  shown.append(tail.length > AROUND ? `${tail.slice(0, AROUND)}…` : tail);
  return shown;
}
