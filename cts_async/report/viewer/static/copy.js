// Buttons that copy a text to the clipboard.

import { h } from "./dom.js";
import { t } from "./words.js";

const SHOWN_MS = 2000;

/** A button "Copy" for `what`, e.g. "answer"; `text` is the text, or a function that returns it. */
export function copyButton(what, text) {
  const words = h("span", {}, t("copy"));
  const status = h("span", { class: "hidden", role: "status" });
  let timer = null;
  const click = async () => {
    const done = await copied(typeof text === "function" ? text() : text);
    button.focus({ preventScroll: true });
    status.textContent = t(done ? "copied" : "notCopied");
    words.textContent = t(done ? "copied" : "notCopied");
    clearTimeout(timer);
    timer = setTimeout(() => {
      status.textContent = "";
      words.textContent = t("copy");
    }, SHOWN_MS);
  };
  const button = h("button", { type: "button", class: "plain copy", on: { click } },
    words, h("span", { class: "hidden" }, ` ${what}`));
  return h("span", { class: "copy-way" }, button, status);
}

/** Whether the text is on the clipboard now. Browsers that refuse the clipboard may still copy a selection. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "hidden", "aria-hidden": "true", tabindex: "-1" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
