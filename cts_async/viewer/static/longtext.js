// Long texts: their beginning first, the rest on request, in pieces that are rendered when they are visible.

import { getText, SERVED } from "./api.js";
import { fill, h, untrusted } from "./dom.js";
import { size } from "./format.js";
import { later } from "./parts.js";
import { t } from "./words.js";

const PIECE = 12_000;
const SHORT = 1_500;
const CUT = 900;
const HEADING = 300;

/** A text in an element of its own; of one that may fill many screens the beginning, until the reader asks for it. */
export function passage(text, tag = "p", attributes = {}) {
  return isLong(text) ? longText(text, {}) : untrusted(text, tag, attributes);
}

/** Whether a text is more than a few paragraphs. */
export const isLong = (text) => text.length > SHORT;

/** A text, or its beginning, for where there is no room to ask for more of it. */
export function beginning(text, length = HEADING) {
  if (text.length <= length) return text;
  return `${text.slice(0, length).replace(/[\ud800-\udbff]$/, "").trimEnd()} …`;
}

/**
 * A text that may be long. `whole` is {run, id, n} if only its beginning is here; `length` counts all of it.
 * What is longer than 1,500 characters is cut until the reader asks for it. An export has no more than the beginning.
 */
export function longText(text, { whole = null, length = text.length, signal = null }) {
  const body = h("div", { class: "text" });
  const place = h("div", { class: "long" }, body);
  if (whole === null && !isLong(text)) return fill(place, pieces(text));
  const button = (words, click) => h("button", { type: "button", class: "more", on: { click } }, words);
  const cut = () => {
    fill(body, untrusted(beginning(text, CUT), "p"));
    fill(place, body, button(t("showAll", { size: size(SERVED ? length : text.length, "") }), open));
  };
  const close = () => {
    cut();
    place.querySelector("button").focus();
  };
  const open = async () => {
    const less = button(t("showLess"), close);
    fill(place, less, body);
    less.focus({ preventScroll: true });
    if (whole === null) fill(body, pieces(text));
    else if (!SERVED) fill(body, pieces(text), h("p", { class: "muted small" }, t("cutHere", { size: size(length, "") })));
    else await later(body, async () => pieces(await getText(whole, signal)), signal);
  };
  cut();
  return place;
}

/** A text in pieces of some thousand characters, cut at the ends of lines where there are any. */
export function pieces(text) {
  const made = [];
  for (let from = 0; from < text.length;) {
    const to = cutAt(text, from);
    made.push(untrusted(text.slice(from, to), "div", { class: text.length > PIECE ? "piece" : "" }));
    from = to;
  }
  return made;
}

function cutAt(text, from) {
  if (text.length - from <= PIECE) return text.length;
  const line = text.lastIndexOf("\n", from + PIECE);
  if (line > from + PIECE / 4) return line + 1;
  const to = from + PIECE;
  return /[\udc00-\udfff]/.test(text[to]) ? to - 1 : to;
}
