// Addresses within the page: "#/instance?run=NAME&id=ID".

/** The route an address names: its path and its parameters, each a text. */
export function readRoute(hash) {
  const [path, query = ""] = split(hash.replace(/^#/, ""), "?");
  return { path: path || "/", query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a route. Parameters that are null, undefined or "" are left out. */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const parameters = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#${path}${parameters && `?${parameters}`}`;
}

/** Go to an address; `replace` keeps it out of the history. */
export function go(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address.slice(1);
  }
}

/** Where an event of an instance's search stands on its page, and a result of a search, by their numbers from 1. */
export const eventAt = (event) => `event-${event}`;
export const resultAt = (event, rank) => `event-${event}-result-${rank}`;

/** Names of runs as one parameter, and back: a comma in a name is "%2C", a percent sign "%25". */
export const joined = (names) => names.map((name) => name.replace(/%/g, "%25").replace(/,/g, "%2C")).join(",");
export const named = (runs) =>
  runs.split(",").filter(Boolean).map((name) => name.replace(/%2C/g, ",").replace(/%25/g, "%"));

function split(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
