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
