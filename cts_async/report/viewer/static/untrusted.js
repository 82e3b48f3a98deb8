// Untrusted text: its direction isolated, its language marked, its invisible characters made visible.

import { h } from "./dom.js";

// Controls but tab and newline; marks that turn text round; characters without width. Joiners stay: scripts need them.
const CONTROLS = "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f";
const TURNERS = "\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069";
const WIDTHLESS = "\\u00ad\\u034f\\u180e\\u200b\\u2060-\\u2065\\u206a-\\u206f\\ufeff\\ufff9-\\ufffb";
const FILLERS = "\\u115f\\u1160\\u3164\\uffa0";
const TAGS = "\\u{e0000}-\\u{e00ff}"; // letters that only machines read
const HIDDEN = new RegExp(`[${CONTROLS}${TURNERS}${WIDTHLESS}${FILLERS}${TAGS}]`, "gu");
const HAN = /\p{Script=Han}/u;
const KANA = /[\p{Script=Hiragana}\p{Script=Katakana}]/u;

/** The text with every hidden character written out by its number. */
export function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(HIDDEN, numbered);
}

function numbered(character) {
  return `\u27e8U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

/** "zh" for a text with Chinese characters, else null: it may be in any language. */
export function languageOf(text) {
  const beginning = text.slice(0, 2000);
  return HAN.test(beginning) && !KANA.test(beginning) ? "zh" : null;
}

/** An element that holds untrusted text. */
export function untrusted(text, tag = "span", attributes = {}) {
  const { class: classes = "", ...others } = attributes;
  const all = { dir: "auto", lang: languageOf(text) ?? "", ...others, class: `untrusted ${classes}`.trim() };
  return h(tag, all, visible(text));
}
