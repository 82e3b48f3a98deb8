// What the reader has chosen, remembered by the browser where it lets us.

const PREFIX = "cts.";
const held = new Map();

/** What was remembered under the name; null for nothing. */
export function remembered(name) {
  if (held.has(name)) return held.get(name);
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Remember a text, for this visit at least. */
export function remember(name, value) {
  held.set(name, value);
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Private windows and full disks: it holds until the page is left.
  }
}

export const THEMES = ["system", "light", "dark"];

/** The chosen theme, "system" without a choice. */
export function theme() {
  const chosen = remembered("theme");
  return THEMES.includes(chosen) ? chosen : "system";
}

/** Show the page in a theme, from now on. */
export function setTheme(name) {
  remember("theme", name);
  applyTheme();
}

export function applyTheme() {
  if (theme() === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
}
