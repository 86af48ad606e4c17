/** Keys of the page, and the list of them. A key with a modifier, or in a field, is the browser's. */

const keys = new Map();
const dialog = document.getElementById("shortcuts");

/** Registers a key; `text` describes it in the list. The action returns false to leave the key alone. */
export function onKey(key, text, action) {
  keys.set(key, { text, action });
}

/** Lists a key that the element with the focus handles by itself. */
export function describeKey(key, text) {
  onKey(key, text, () => false);
}

function inField(target) {
  return target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null;
}

function list() {
  const shown = dialog.querySelector("dl");
  shown.replaceChildren();
  const texts = new Map();
  for (const [key, { text }] of keys) texts.set(text, [...(texts.get(text) ?? []), key]);
  for (const [text, names] of texts) {
    const term = document.createElement("dt");
    for (const name of names) {
      const shownKey = document.createElement("kbd");
      shownKey.textContent = name;
      term.append(shownKey, " ");
    }
    const description = document.createElement("dd");
    description.textContent = text;
    shown.append(term, description);
  }
}

export function showShortcuts() {
  if (dialog.open) {
    dialog.close();
    return;
  }
  list();
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (inField(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (dialog.open && event.key !== "?") return;
  const found = keys.get(event.key);
  if (found === undefined || found.action(event) === false) return;
  event.preventDefault();
});
dialog.querySelector("button").addEventListener("click", () => dialog.close());
document.getElementById("help").addEventListener("click", showShortcuts);
