// The answers in an export (static_export.py), in the place of those of a server (api.js). Each is a script in data/.

import { h } from "./dom.js";
import { named } from "./route.js";

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

// --- Lists

const BASELINE = "orig";
const MAX_COLUMNS = 12;
const SCORES = ["score", "gain"];

// --- Instances of a run

const VALUES = {
  score: (row) => row.score,
  "-score": (row) => negative(row.score),
  "-unknown": (row) => -row.unknown,
};

/** A page of the instances of a run. */
async function instances(answer, { run, judge, text, sort, after, limit, ...filter }) {
  const all = await listBy(answer, run, judge);
  const wanted = await searchOf(answer, run, text);
  const rows = all.rows.filter((row, at) => fits(row, filter) && wanted(at));
  return { ...all, ...paged(sorted(rows, VALUES[sort]), after, limit) };
}

/** The list of a run with the scores of a judge: of the scoring judge for "", none where it has not judged the run. */
async function listBy(answer, run, judge) {
  const first = await answer("instances", { run });
  if (!judge || judge === first.judges[0]) return first;
  if (first.judges.includes(judge)) return answer("instances", { run, judge });
  return { ...first, rows: first.rows.map((row) => ({ ...row, score: null })) };
}

/** Whether the instance at a place of the recorded list has a text. */
async function searchOf(answer, run, text) {
  if (!text) return () => true;
  const texts = await answer("texts", { run });
  return (at) => texts[at].includes(text.toLowerCase());
}

function fits(row, { failed, min, max, unknown }) {
  if (failed && (row.failed !== "") !== (failed === "1")) return false;
  if (!within(row.score, min, max)) return false;
  const share = { none: row.unknown === 0, some: row.unknown > 0, all: row.unknown === row.asked };
  return !unknown || (row.asked > 0 && share[unknown]);
}

function within(score, min, max) {
  if (!min && !max) return true;
  return score !== null && score >= Number(min || 0) && score <= Number(max || 100);
}

const negative = (value) => (value === null ? null : -value);

/** In the order of a value, rows without one last; as they are without `valueOf`. */
function sorted(rows, valueOf) {
  if (!valueOf) return rows;
  const ascending = (a, b) => (a === null || b === null ? (a === null) - (b === null) : a - b);
  return [...rows].sort((a, b) => ascending(valueOf(a), valueOf(b)));
}

function paged(rows, after, limit) {
  const from = Math.trunc(Number(after) || 0);
  const end = Math.min(from + Number(limit), rows.length);
  return { rows: rows.slice(from, end), next: end < rows.length ? String(end) : null, total: rows.length };
}

// --- Instances by runs

/** A page of the table of runs over the same data: the runs named, or those over `data`. */
async function matrix(answer, { data, runs, all, judge: asked, show = "score", text, after, limit, ...query }) {
  const { known, chosen, versions } = await columnsOf(answer, data, named(runs ?? ""), all);
  const names = chosen.map((run) => run.name);
  const judges = judgesOf(await Promise.all(names.map((run) => answer("instances", { run }))));
  const judge = asked || judges[0] || "";
  const lists = await Promise.all(names.map((run) => listBy(answer, run, judge)));
  const cells = SCORES.includes(show) ? [] : await Promise.all(names.map((run) => answer("cells", { run, show })));
  const searches = await Promise.all(names.map((run) => searchOf(answer, run, text)));
  const baselines = baselinesOf(chosen, Boolean(runs) && chosen.length === 2);
  const origs = [...new Set(baselines)].filter((column) => column !== null);
  const every = joinedRows(lists, searches, cells).map((one) => withValues(one, show, baselines));
  const fitting = every.filter((one) => fitsTable(one, names, query));
  const common = fitting.filter((one) => !one.values.includes(null));
  const mean = (column) => common.reduce((sum, one) => sum + one.values[column], 0) / common.length;
  const found = sorted(fitting.filter((one) => one.has), tableOrder(names, query));
  const page = paged(found, after, limit);
  return {
    ...page,
    rows: page.rows.map(({ cells, has, ...row }) => row),
    runs: chosen, known, versions, judges, judge, show, baseline: origs.length === 1 ? names[origs[0]] : null,
    shows: (lists[0]?.shows ?? []).filter((name) => name !== "gain" || origs.length > 0),
    means: common.length ? names.map((_, column) => mean(column)) : null,
    n_common: common.length, n: every.length, ready: 1,
  };
}

/** The runs over the data, those that are columns, and the versions of these; older versions with `all` only. */
async function columnsOf(answer, data, asked, all) {
  const every = (await answer("runs")).runs;
  const sha = asked.length ? every.find((run) => run.name === asked[0])?.data_sha : data;
  const rank = (run) => (run.system === BASELINE ? 0 : 1);
  const over = every.filter((run) => (sha ? run.data_sha === sha : asked.includes(run.name)))
    .sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
  const newest = over.filter((run) => !run.older);
  // All are older after a change of the gold: then each lineage's newest over these data.
  const isFirst = (run) => run.versions.find((name) => over.some((other) => other.name === name)) === run.name;
  const shown = newest.length ? newest : over.filter(isFirst);
  const known = over.filter((run) => all || shown.includes(run) || asked.includes(run.name));
  const chosen = asked.length ? [...new Set(asked)].map((name) => every.find((run) => run.name === name))
    : known.filter((run) => run.kind !== "talk").slice(0, MAX_COLUMNS);
  const versions = {};
  for (const run of chosen.filter(Boolean).filter((run) => run.versions.length > 1)) {
    versions[run.name] = run.versions.map((name) => every.find((version) => version.name === name));
  }
  return { known, chosen: chosen.filter(Boolean), versions };
}

/** The judges of the lists: those of most of them first, of these the one that scores most of them. */
function judgesOf(lists) {
  const n = (test) => lists.filter(test).length;
  const rank = (judge) => [-n(({ judges }) => judges.includes(judge)), -n(({ judges }) => judges[0] === judge)];
  return [...new Set(lists.flatMap(({ judges }) => judges))].sort((a, b) => {
    const [left, right] = [rank(a), rank(b)];
    return left[0] - right[0] || left[1] - right[1] || (a < b ? -1 : 1);
  });
}

/** Each instance with its cell in each list, null where it has none; `has` is whether one of them has the text. */
function joinedRows(lists, searches, cells) {
  const found = new Map();
  lists.forEach(({ rows }, column) => rows.forEach((row, at) => {
    const { id, blurred_query, fused_query } = row;
    if (!found.has(id)) found.set(id, { id, blurred_query, fused_query, cells: lists.map(() => null), has: false });
    const one = found.get(id);
    one.cells[column] = { ...row, value: cells[column]?.[at] ?? null };
    one.has ||= searches[column](at);
  }));
  return [...found.values()];
}

/**
 * For each run the column of the orig that its gain is over, null for none: of those that it can be compared with the
 * newest. Whoever names two runs compares them, whatever their agents.
 */
function baselinesOf(runs, isNamedPair) {
  const columns = new Map(runs.map(({ name }, column) => [name, column]));
  const newest = (origs) => origs.map((name) => columns.get(name)).find((column) => column !== undefined) ?? null;
  const any = isNamedPair ? newest(runs.filter(({ system }) => system === BASELINE).flatMap(({ origs }) => origs)) : null;
  return runs.map(({ origs }) => any ?? newest(origs));
}

function withValues(one, show, baselines) {
  const scores = one.cells.map((cell) => cell?.score ?? null);
  const values = show === "gain" ? scores.map((score, column) => difference(score, scores[baselines[column]]))
    : show === "score" ? scores : one.cells.map((cell) => cell?.value ?? null);
  const known = values.filter((value) => value !== null);
  return {
    ...one,
    values,
    states: one.cells.map((cell) => (cell === null ? "missing" : cell.failed ? "failed" : "")),
    spread: known.length > 1 ? Math.max(...known) - Math.min(...known) : null,
    gap: values.length > 1 ? difference(values[0], values[1]) : null,
  };
}

const difference = (a, b) => (a === null || (b ?? null) === null ? null : a - b);

function fitsTable({ cells }, names, { of, failed, min, max }) {
  const seen = of ? [cells[names.indexOf(of)] ?? null] : cells;
  if (failed && seen.some((cell) => Boolean(cell?.failed)) !== (failed === "1")) return false;
  return seen.some((cell) => within(cell?.score ?? null, min, max));
}

function tableOrder(names, { sort, by }) {
  if (!sort || sort === "file") return null;
  const column = by ? names.indexOf(by) : 0;
  const value = { value: (one) => one.values[column], spread: (one) => one.spread, gap: (one) => one.gap };
  const valueOf = value[sort.replace("-", "")];
  return sort.startsWith("-") ? (one) => negative(valueOf(one)) : valueOf;
}
