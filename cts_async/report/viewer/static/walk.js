// The way through a list: which instance comes before and after another one, as the list was filtered and sorted.

import { get } from "./api.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { href } from "./route.js";
import { visible } from "./untrusted.js";
import { t } from "./words.js";

const LIMIT = 50;
const starts = new Map();
let walked = null;

/** The list shows this page of these instances, which begins after `after`. */
export function remember(run, filter, page, after, { rows, next, total }) {
  const name = keyOf(run, filter);
  starts.set(`${name} ${page}`, after ?? "");
  starts.set(`${name} ${page + 1}`, next ?? "");
  const address = href("/run", { run, ...filter, p: page > 1 ? page : "", after });
  // Pages of a search for text may be shorter than LIMIT, so that only its first page has known places.
  const before = page === 1 ? 0 : filter.text ? null : (page - 1) * LIMIT;
  walked = { run, filter, ids: rows.map((row) => row.id), next, address, before, total };
}

/** The same of a table of several runs; `runs` are their joined names, `asked` are its parameters. */
export function rememberMatrix(runs, { after, p, ...asked }, { rows, next, total }) {
  const before = (p ?? 1) === 1 ? 0 : asked.text ? null : (Number(p) - 1) * LIMIT;
  const ids = rows.map((row) => row.id);
  const filter = { text: asked.text, min: asked.min, max: asked.max, failed: asked.failed };
  walked = { run: runs, filter, ids, next, address: location.hash, before, total, table: { ...asked, runs } };
}

/** Where the list of a run is: as it was filtered and paged when it was last looked at. */
export function listOf(run, unfiltered = href("/run", { run })) {
  return walked?.run === run ? walked.address : unfiltered;
}

/** Where a page began when it was shown; null if it was not. */
export function startOf(run, filter, page) {
  return page === 1 ? "" : starts.get(`${keyOf(run, filter)} ${page}`) ?? null;
}

/**
 * The instances around one: as in the list it was opened from, else as the file has them.
 * {previous, next, at, all, filtered}: ids or null; its place in that list and its length, or null if unknown.
 */
export async function neighbours(run, id, inFile, signal) {
  const at = walked?.run === run ? walked.ids.indexOf(id) : -1;
  if (at < 0) return { previous: inFile.previous, next: inFile.next, at: null, all: null, filtered: false };
  if (at === walked.ids.length - 1 && walked.next !== null) await further(signal);
  const { ids, filter, before, total } = walked;
  const place = before === null ? null : before + at + 1;
  return { previous: ids[at - 1] ?? null, next: ids[at + 1] ?? null, at: place, all: total, filtered: filtered(filter) };
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
  const [name, asked] = list.table ? ["matrix", list.table] : ["instances", { run: list.run, ...list.filter }];
  const more = await get(name, { ...asked, after: list.next, limit: LIMIT }, signal);
  walked = { ...list, ids: [...list.ids, ...more.rows.map((row) => row.id)], next: more.next };
}

const filtered = (filter) => Object.values(filter).some((value) => value);

const keyOf = (run, filter) => JSON.stringify([run, Object.values(filter).map((value) => value ?? "")]);
