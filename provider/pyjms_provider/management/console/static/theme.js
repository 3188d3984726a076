// Light or dark: as the system says, unless somebody chose.

const KEY = "pyjms-theme";
const ORDER = ["auto", "light", "dark"];

function stored() {
  const value = localStorage.getItem(KEY);
  return ORDER.includes(value) ? value : "auto";
}

export function applyTheme(theme = stored()) {
  document.documentElement.dataset.theme = theme;
  return theme;
}

export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
  localStorage.setItem(KEY, next);
  return applyTheme(next);
}

export function themeNow() {
  return stored();
}
