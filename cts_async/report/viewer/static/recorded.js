// The answers in an export (static_export.py), in the place of those of a server (api.js). Each is a script in data/.

import { h } from "./dom.js";
import { instances, matrix } from "./recorded_lists.js";

const POLYNOMIAL = 0xedb88320;
const KEPT = ["runs", "instances", "texts"];
const COMPUTED = { instances, matrix };
const received = new Map();
const kept = new Map();

/** An export has no raw records, no whole texts of long pages, and nothing to download. */
export const SERVED = false;

/** What an export does not have. */
class NotRecorded extends Error {
  constructor() {
    super("not part of this export");
    this.status = 404;
  }
}

globalThis.recorded = (key, json) => received.set(key, json);

/** An export does not change, and its files do not go away. */
export function onConnection() {}
export function watch() {}

/** The answer to a request, e.g. get("instance", { run, id }). */
export function get(name, parameters) {
  return Object.hasOwn(COMPUTED, name) ? COMPUTED[name](answer, parameters) : answer(name, parameters);
}

/** There are no whole texts of long pages, and no files to download. */
export function getText() {
  return Promise.reject(new NotRecorded());
}
export function address() {
  return null;
}

function answer(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const key = [name, ...given.map(([one, value]) => `${one}=${value}`).sort(byCode)].join("\n");
  if (!KEPT.includes(name)) return loaded(key);
  if (!kept.has(key)) kept.set(key, loaded(key));
  return kept.get(key);
}

const byCode = (a, b) => (a < b ? -1 : 1);

function loaded(key) {
  return new Promise((resolve, reject) => {
    const end = () => {
      script.remove();
      const json = received.get(key);
      received.delete(key);
      if (json === undefined) reject(new NotRecorded());
      else resolve(JSON.parse(json));
    };
    const script = h("script", { src: `data/${crc32(key)}.js`, on: { load: end, error: end } });
    document.head.append(script);
  });
}

function crc32(text) {
  let sum = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? POLYNOMIAL : 0);
  }
  return (~sum >>> 0).toString(16).padStart(8, "0");
}
