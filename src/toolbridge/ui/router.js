/** Shows the view that the fragment of the address names: `#requests`, `#request/ID`, `#run/ID` … */

const DEFAULT = "requests";
const views = new Map();
let current = null;

/**
 * Registers a view: `tab` is its link in the navigation, `enter(argument)` is called when it is
 * shown, and returns true if it has placed the focus; `leave()` is called when another one is shown.
 */
export function addView(name, { section, tab, title, enter, leave = () => {} }) {
  views.set(name, { name, section: document.getElementById(section), tab, title, enter, leave });
}

export function go(name, argument = "") {
  location.hash = argument ? `${name}/${encodeURIComponent(argument)}` : name;
}

/** Returns the name of the view that is shown. */
export function shownView() {
  return current?.name ?? "";
}

function read() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  let argument = rest.join("/");
  try {
    argument = decodeURIComponent(argument);
  } catch {
    // A fragment that somebody wrote by hand is taken as it is.
  }
  return views.has(name) ? [name, argument] : [DEFAULT, ""];
}

export function route() {
  const [name, argument] = read();
  const view = views.get(name);
  const before = current;
  if (before !== null && before !== view) before.leave();
  current = view;
  for (const { section } of views.values()) section.hidden = section !== view.section;
  for (const tab of document.querySelectorAll("nav a")) {
    if (tab.dataset.tab === view.tab) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  setTitle(argument ? `${view.title} ${argument}` : view.title);
  const focused = view.enter(argument) === true;
  // Somebody who reads with a screen reader or the keyboard begins at the top of the new view.
  if (!focused && before !== null && before.section !== view.section) view.section.querySelector("h2")?.focus();
}

export function setTitle(text) {
  document.title = `${text} · toolbridge`;
}

export function start() {
  window.addEventListener("hashchange", route);
  route();
}
