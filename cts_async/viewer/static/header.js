// The head of every page: its name, the theme, the language, the keys.

import { fill, h } from "./dom.js";
import { select } from "./parts.js";
import { remember, remembered, setTheme, theme, THEMES } from "./prefs.js";
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

// --- Single keys

const ALIKE = { ArrowRight: "j", ArrowLeft: "k" };
const SHORTCUTS = [
  ["j", "→", "keyNext"], ["k", "←", "keyPrevious"],
  ["u", null, "keyUp"], ["/", null, "keyFilter"], ["?", null, "keyHelp"],
];

const on = () => remembered("keys") !== "off";

/** Listen; `keys()` are the page's own: {"j": f, "k": f, "u": f, "/": f}. */
export function listenToKeys(keys) {
  addEventListener("keydown", (event) => {
    const chord = event.ctrlKey || event.metaKey || event.altKey;
    if (event.defaultPrevented || chord || !on() || writing(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const action = event.key === "?" ? showHelp : keys()[ALIKE[event.key] ?? event.key];
    if (!action || (event.key in ALIKE && scrollsSideways(event.target))) return;
    event.preventDefault();
    action();
  });
}

function writing(element) {
  return element instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);
}

function scrollsSideways(element) {
  return element instanceof HTMLElement && element.scrollWidth > element.clientWidth;
}

/** The keys, in a dialog that Escape closes. */
function showHelp() {
  const dialog = h("dialog", { "aria-labelledby": "keys-title" });
  const close = () => dialog.close();
  const change = (event) => remember("keys", event.target.checked ? "on" : "off");
  const off = h("input", { type: "checkbox", checked: on(), on: { change } });
  fill(dialog,
    h("h2", { id: "keys-title" }, t("keys")),
    h("dl", { class: "keys" }, SHORTCUTS.map(([key, other, what]) =>
      h("div", {}, h("dt", {}, h("kbd", {}, key), other ? [" ", h("kbd", {}, other)] : null), h("dd", {}, t(what))))),
    h("label", { class: "switch" }, off, t("keysOn")),
    h("button", { type: "button", autofocus: true, on: { click: close } }, t("close")));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  dialog.showModal();
}
