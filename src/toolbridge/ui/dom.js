/** Makes elements. Values are set as text, so that none is interpreted as HTML. */

/** Returns text with characters that change the direction of other text shown as escapes: a name must not read as another one. */
export function visible(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/gu, (mark) => `\\u${mark.codePointAt(0).toString(16)}`);
}

export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = visible(String(text));
  return element;
}

/** Returns an element with attributes and children; a child may be text, an element or null. */
export function build(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  const given = children.filter((child) => child !== null && child !== undefined && child !== "");
  element.append(...given.map((child) => (child instanceof Node ? child : visible(String(child)))));
  return element;
}

/** Returns a button that submits no form. */
export function button(text, onclick, className = "") {
  return build("button", { type: "button", class: className || undefined, onclick }, text);
}

const SHAPES = {
  ok: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm3.4 4.9-4.1 4.6a.8.8 0 0 1-1.2 0L4.5 9.2l1.1-1.1 1.1 1.2 3.6-4Z",
  error: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm2.9 8.3-1.1 1.1L8 9.1l-1.8 1.8-1.1-1.1L6.9 8 5.1 6.2l1.1-1.1L8 6.9l1.8-1.8 1.1 1.1L9.1 8Z",
  warn: "M8 1.2 15.2 14H.8L8 1.2Zm-.8 4.6v4h1.6v-4H7.2Zm0 5v1.6h1.6v-1.6H7.2Z",
  gone: "M8 1.5 14.5 8 8 14.5 1.5 8 8 1.5ZM4.8 7.2v1.6h6.4V7.2H4.8Z",
  running: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 1.8v9.4a4.7 4.7 0 0 1 0-9.4Z",
  open: "M2 2h12v12H2V2Zm3.2 5.2v1.6h5.6V7.2H5.2Z",
  half: "M2 2h12v12H2V2Zm6 2H4v8h4V4Z",
  unknown: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 1.8a4.7 4.7 0 1 1 0 9.4 4.7 4.7 0 0 1 0-9.4Z",
};
const SVG = "http://www.w3.org/2000/svg";

/** Returns an SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Returns a shape that shows a state without its color. */
export function shape(state) {
  const path = svg("path", { d: SHAPES[state] ?? SHAPES.unknown, "fill-rule": "evenodd" });
  const icon = svg("svg", { viewBox: "0 0 16 16", class: "shape", "aria-hidden": "true" }, path);
  icon.dataset.state = state;
  return icon;
}

/** Returns a list of names and values, without those that are unknown. */
export function factList(rows) {
  const list = make("dl", "facts");
  for (const [name, value] of rows) {
    if (value === undefined || value === null || value === "") continue;
    const shown = value instanceof Node ? build("dd", {}, value) : make("dd", "", String(value));
    list.append(build("div", {}, make("dt", "", name), shown));
  }
  return list;
}

/** Returns an explanation for a place that has nothing to show yet. */
export function emptyState(title, ...lines) {
  const shown = make("div", "empty");
  shown.append(make("p", "empty-title", title));
  for (const line of lines) shown.append(typeof line === "string" ? make("p", "", line) : line);
  return shown;
}
