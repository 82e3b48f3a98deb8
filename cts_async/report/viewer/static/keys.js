// Single-key shortcuts, and their help. They can be disabled, and do not work in input fields.

import { fill, h } from "./dom.js";
import { remember, remembered } from "./prefs.js";
import { t } from "./words.js";

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
export function showHelp() {
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
