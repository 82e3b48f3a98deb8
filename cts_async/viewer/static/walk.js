// The way through a list: which instance comes before and after another one, as the list was filtered and sorted.

import { get } from "./api.js";
import { h, visible } from "./dom.js";
import { count } from "./format.js";
import { href } from "./route.js";
import { t } from "./words.js";

const LIMIT = 50;
const FILTERS = ["text", "min", "max", "failed", "unknown"];
const starts = new Map();
let walked = null;

/** The list `key` (a run, or the joined names of several) shows this page of what `name` answers to `asked`. */
export function remember(key, name, { after = "", ...asked }, page, { rows, next, total }) {
  const list = listName(name, asked);
  starts.set(`${list} ${page}`, after);
  starts.set(`${list} ${page + 1}`, next ?? "");
  // Pages of a search for text may be shorter than LIMIT, so that only its first page has known places.
  const before = page === 1 ? 0 : asked.text ? null : (page - 1) * LIMIT;
  walked = { key, name, asked, ids: rows.map((row) => row.id), next, address: location.hash, before, total };
}

/** Where a list is: as it was filtered and paged when it was last looked at. */
export function listOf(key, unfiltered = href("/run", { run: key })) {
  return walked?.key === key ? walked.address : unfiltered;
}

/** Where a page began when it was shown; null if it was not. */
export function startOf(name, { after, ...asked }, page) {
  return page === 1 ? "" : starts.get(`${listName(name, asked)} ${page}`) ?? null;
}

/**
 * The instances around one: as in the list it was opened from, else as the file has them.
 * {previous, next, at, all, filtered}: ids or null; its place in that list and its length, or null if unknown.
 */
export async function neighbours(key, id, inFile, signal) {
  const at = walked?.key === key ? walked.ids.indexOf(id) : -1;
  if (at < 0) return { previous: inFile.previous, next: inFile.next, at: null, all: null, filtered: false };
  if (at === walked.ids.length - 1 && walked.next !== null) await further(signal);
  const { ids, asked, before, total } = walked;
  const place = before === null ? null : before + at + 1;
  const filtered = FILTERS.some((name) => asked[name]);
  return { previous: ids[at - 1] ?? null, next: ids[at + 1] ?? null, at: place, all: total, filtered };
}

/** Links to the instances around one, and its place in the list. */
export function wayLinks({ previous, next, at, all, filtered: some }, to) {
  const of = all === null ? "…" : count(all);
  const place = at === null ? null : t(some ? "nthFiltered" : "nth", { n: count(at), all: of });
  return [
    place === null ? null : h("span", { class: "muted small" }, place),
    wayLink(previous, to, "←", t("previousInstance")), wayLink(next, to, "→", t("nextInstance")),
  ];
}

function wayLink(id, to, mark, words) {
  if (id === null) return h("span", { class: "button off", "aria-disabled": "true" }, mark);
  return h("a", { class: "button", href: to(id), title: visible(id), "aria-label": words }, mark);
}

async function further(signal) {
  const list = walked;
  const more = await get(list.name, { ...list.asked, after: list.next, limit: LIMIT }, signal);
  walked = { ...list, ids: [...list.ids, ...more.rows.map((row) => row.id)], next: more.next };
}

const listName = (name, asked) => JSON.stringify([name, Object.entries(asked).filter(([, value]) => value).sort()]);
