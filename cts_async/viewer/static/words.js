// The page's words, in every language it speaks.

import { en } from "./words.en.js";
import { zh } from "./words.zh.js";
import { remember, remembered } from "./prefs.js";

export const LANGUAGES = { en: "English", zh: "中文" };
const WORDS = { en, zh };

/** The language chosen, else the browser's, else English. */
export function language() {
  const chosen = remembered("language");
  if (chosen in WORDS) return chosen;
  const known = (navigator.languages ?? [navigator.language]).find((name) => /^(en|zh)\b/i.test(name));
  return known?.slice(0, 2).toLowerCase() ?? "en";
}

/** Speak a language from now on. */
export function setLanguage(name) {
  remember("language", name);
  applyLanguage();
}

export function applyLanguage() {
  document.documentElement.lang = language() === "zh" ? "zh-Hans" : "en";
}

/** The words for a key, with what it leaves open: t("of", { n: 3, all: 8 }). */
export function t(key, values = {}) {
  const words = WORDS[language()][key] ?? en[key] ?? key;
  return words.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}
