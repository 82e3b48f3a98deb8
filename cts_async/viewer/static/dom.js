// Elements, created one by one: untrusted text is never parsed as markup.
//
// h("p", { class: "note", on: { click: f }, vars: { "--share": 0.4 } }, "text", element, [more], null)

const SVG = "http://www.w3.org/2000/svg";
const FORBIDDEN = /^(on|style$|srcdoc$)/i;

/** An HTML element. Attributes that are null, undefined or false are left out; `true` stands without a value. */
export function h(tag, attributes, ...children) {
  return made(document.createElement(tag), attributes, children);
}

/** The same for a drawing. */
export function svg(tag, attributes, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

/** Put `children` in the place of whatever is in the element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** An address that may be followed: of the web, of this page or of its server; null for any other. */
export function safeHref(address) {
  if (address.startsWith("#") || address.startsWith("api/")) return address;
  return webAddress(address);
}

/** The http or https address that a text is, whole; null where it is none. */
export function webAddress(text) {
  if (!/^https?:\/\/[^\s<>"]+$/i.test(text)) return null;
  try {
    return new URL(text).href;
  } catch {
    return null;
  }
}

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) give(element, name, value);
  element.append(...nodes(children));
  return element;
}

function give(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "on") {
    for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
  } else if (name === "vars") {
    for (const [variable, amount] of Object.entries(value)) element.style.setProperty(variable, String(amount));
  } else if (FORBIDDEN.test(name)) {
    throw new Error(`no attribute ${name}`);
  } else if (name === "href") {
    const address = safeHref(value);
    if (address !== null) element.setAttribute("href", address);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

// --- Untrusted text

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
