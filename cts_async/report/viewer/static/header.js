// The head of every page: its name, the theme, the language, the keys.

import { fill, h } from "./dom.js";
import { showHelp } from "./keys.js";
import { select } from "./parts.js";
import { setTheme, theme, THEMES } from "./prefs.js";
import { language, LANGUAGES, setLanguage, t } from "./words.js";

/** The head. `languageChanged()` is called when another language was chosen. */
export function header(languageChanged) {
  const named = THEMES.map((name) => [name, t(`theme_${name}`)]);
  const themes = select(named, theme(), setTheme, { "aria-label": t("theme") });
  const languages = select(Object.entries(LANGUAGES), language(), (name) => { setLanguage(name); languageChanged(); },
    { id: "language", "aria-label": t("language") });
  const names = { "aria-label": t("keys"), title: t("keys") };
  const help = h("button", { type: "button", class: "plain", ...names, on: { click: showHelp } }, "?");
  return h("header", { class: "top" },
    h("nav", { "aria-label": t("navigation") },
      h("a", { class: "brand", href: "#/", "aria-label": t("name") }, h("span", { class: "mark", "aria-hidden": "true" }),
        h("span", { class: "wide" }, t("name")), h("span", { class: "short" }, t("shortName")))),
    h("div", { class: "tools" }, themes, languages, help));
}

/** Where this page stands: [[words or an element, address], ...], the last without one. */
export function crumbs(steps) {
  return h("nav", { class: "crumbs", "aria-label": t("crumbs") },
    fill(h("ol"), steps.map(([words, address]) =>
      h("li", {}, address ? h("a", { href: address }, words) : h("span", { "aria-current": "page" }, words)))));
}
