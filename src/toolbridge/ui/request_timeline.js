/** One request on a time axis: received, routed, each attempt, the first token, the answer, the end. */
import { build, make } from "./dom.js";
import { duration, plural } from "./format.js";

/** Returns the steps of a request: `{label, start, end, kind, note}` in milliseconds. */
export function stepsOf(row, explanation) {
  const total = row.total_ms;
  const first = row.first_token_ms;
  const attempts = explanation?.route?.attempts ?? [];
  const began = attempts[0]?.at_ms ?? (first ?? total);
  const steps = [{ label: "Received and routed", start: 0, end: Math.min(began, total), kind: "route", note: explanation?.route?.why ?? "" }];
  attempts.forEach((attempt, at) => steps.push(attemptStep(attempt, at, attempts, { first, total })));
  if (attempts.length === 0 && first !== null) {
    steps.push({ label: "Waiting for the model", start: 0, end: first, kind: "wait", note: "" });
  }
  if (first !== null) {
    const note = row.output > 0 ? `${plural(row.output, "token")}${speed(row, total - first)}` : "";
    steps.push({ label: "Answer", start: first, end: total, kind: "answer", note });
  }
  return steps;
}

function attemptStep(attempt, at, attempts, { first, total }) {
  const next = attempts[at + 1]?.at_ms;
  const last = next === undefined;
  const end = last ? (attempt.problem ? (attempt.answered_ms ?? total) : (first ?? total)) : Math.min(next, attempt.answered_ms ?? next);
  const said = [attempt.status ? `status ${attempt.status}` : "", attempt.problem ?? "", attempt.then ?? ""];
  return {
    label: `Attempt ${at + 1}: ${attempt.model}`,
    start: attempt.at_ms,
    end: Math.max(end, attempt.at_ms),
    kind: attempt.problem ? "failed" : "wait",
    note: said.filter(Boolean).join(" · "),
  };
}

function speed(row, milliseconds) {
  return milliseconds > 50 ? `, ${Math.round((row.output * 1000) / milliseconds)} per second` : "";
}

/** Returns the timeline as an element. */
export function timeline(row, explanation) {
  const steps = stepsOf(row, explanation);
  const whole = Math.max(row.total_ms, 1, ...steps.map((step) => step.end));
  const list = make("ol", "waterfall");
  for (const step of steps) list.append(stepLine(step, whole));
  const end = build("li", { class: "waterfall-end" }, make("span", "", "End"), make("span", "number", duration(row.total_ms)));
  list.append(end);
  return list;
}

function stepLine(step, whole) {
  const bar = make("span", "step-bar");
  bar.dataset.kind = step.kind;
  bar.style.left = `${(step.start / whole) * 100}%`;
  bar.style.width = `max(3px, ${((step.end - step.start) / whole) * 100}%)`;
  const head = build("div", { class: "step-head" }, make("span", "step-label", step.label),
    make("span", "number", `${duration(step.start)} + ${duration(step.end - step.start)}`));
  const line = build("li", {}, head, build("div", { class: "step-track" }, bar));
  if (step.note) line.append(make("p", "step-note", step.note));
  line.dataset.kind = step.kind;
  return line;
}
