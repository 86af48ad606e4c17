/** Light, dark, or as the system has it. The choice is kept in this browser. */

const NAME = "toolbridge.theme";
const THEMES = ["auto", "light", "dark"];
const TITLES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

function kept() {
  try {
    const found = localStorage.getItem(NAME);
    return THEMES.includes(found) ? found : "auto";
  } catch {
    return "auto"; // without storage the choice lasts until the page is left
  }
}

let theme = kept();

function apply() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const control = document.getElementById("theme");
  control.title = `${TITLES[theme]} (t)`;
  control.setAttribute("aria-label", TITLES[theme]);
  control.dataset.theme = theme;
}

export function nextTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try {
    localStorage.setItem(NAME, theme);
  } catch {
    // As above.
  }
  apply();
}

document.getElementById("theme").addEventListener("click", nextTheme);
apply();
