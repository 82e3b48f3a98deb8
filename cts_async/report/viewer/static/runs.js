// All runs there are, by the data they are over, the newest first.

import { get, watch } from "./api.js";
import { fill, h } from "./dom.js";
import { count, dollars, duration, moment, rate, score } from "./format.js";
import { badge, done, empty, later, smokeBadge, table, tableRow } from "./parts.js";
import { href } from "./route.js";
import { said } from "./said.js";
import { t } from "./words.js";

const DRAW_MS = 1000;

/** Names and mean scores side by side; what is running goes on by itself. */
export function runsPage({ main, heading, signal }) {
  const place = h("div", {});
  const folder = h("p", { class: "lead" });
  fill(main, h("div", { class: "page" }, fill(heading(t("runs")), t("runs")), folder, place));
  const known = new Map();
  let damaged = [];
  const draw = () => keepFocus(place, () => fill(place, groups([...known.values()]), damagedNotice(damaged)));
  const fetched = async () => {
    const found = await get("runs", {}, signal);
    known.clear();
    found.runs.forEach((row) => known.set(row.name, row));
    damaged = found.damaged;
    fill(folder, t("folder"), " ", said(found.folder, "code"));
    draw();
  };
  later(place, async () => {
    await fetched();
    watch(null, {
      changed: soon((row) => known.set(row.name, row), draw, signal),
      gone: soon(({ name }) => known.delete(name), draw, signal),
    }, signal);
    return [...place.childNodes];
  }, signal);
}

/** A listener that notes what it hears at once, and has it drawn once a second at most. */
function soon(note, draw, signal) {
  let timer = null;
  return (heard) => {
    note(heard);
    timer ??= setTimeout(() => { timer = null; if (!signal.aborted) draw(); }, DRAW_MS);
  };
}

/** Change what `place` holds; whichever link had the focus has it again. */
function keepFocus(place, change) {
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  change();
  if (focused) [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
}

function groups(runs) {
  if (runs.length === 0) return [empty(t("noRuns")), h("p", { class: "empty" }, h("code", {}, "cts run --help"))];
  const newest = [...runs].sort((a, b) => (b.started ?? "").localeCompare(a.started ?? ""));
  const byData = Map.groupBy ? Map.groupBy(newest, dataOf) : grouped(newest);
  return [...byData.values()].map(group);
}

const dataOf = (row) => row.data_sha || row.data;

function grouped(rows) {
  const groupsByData = new Map();
  for (const row of rows) groupsByData.set(dataOf(row), [...(groupsByData.get(dataOf(row)) ?? []), row]);
  return groupsByData;
}

function group(rows) {
  const [{ data, data_sha: sha }] = rows;
  const caption = t("runsOver", { data: data || t("unknownData") });
  const heads = [[t("run"), "name"], [t("progress")], [t("mean"), "number"], [t("unknownRate"), "number"],
    [t("failed"), "number"], [t("cost"), "number"], [t("time"), "number"], [t("started")]];
  const board = sha && rows.filter((row) => row.scores.length).length > 1 ? h("a", { href: href("/leaderboard", { data: sha }) }, t("leaderboard")) : null;
  return h("section", { class: "group" },
    h("div", { class: "group-head" }, said(data || t("unknownData"), "h2"), h("span", { class: "muted" }, t("nRuns", { n: rows.length })), board),
    table(caption, heads, rows.map((row) => tableRow(heads, cells(row), { class: "link-row" })), { class: "stack quiet-caption runs" }));
}

function cells(row) {
  return [
    h("span", { class: "run-name" }, said(row.system || row.name, "a", { class: "row-link", href: href("/run", { run: row.name }) }),
      row.name === row.system ? null : said(row.name, "small"), h("span", { class: "badges" }, state(row), kindBadge(row), smokeBadge(row.smoke_test))),
    progress(row),
    mean(row),
    row.unknown_rate === null ? "–" : rate(row.unknown_rate),
    row.n_failed ? h("span", { class: "bad" }, count(row.n_failed)) : "0",
    dollars(row.cost_usd),
    duration(row.wall_s),
    row.started ? h("time", { datetime: row.started }, moment(row.started)) : "–",
  ];
}

/** Running, finished, or stopped on the way. */
export function state(row) {
  if (row.running) return badge("running", t("running"));
  return row.n_expected && row.n_done >= row.n_expected ? null : badge("quiet", t("stopped"));
}

/** What it is where it is not a run of the benchmark. */
export function kindBadge(row) {
  return row.kind === "run" ? null : badge("quiet", t(`kind_${row.kind}`));
}

function progress(row) {
  const share = row.n_expected ? row.n_done / row.n_expected : 1;
  return h("span", { class: "progress", vars: { "--share": Math.min(share, 1) } }, done(row),
    row.ready < 1 ? h("small", {}, t("indexing", { share: rate(row.ready) })) : null);
}

function mean(row) {
  const [first] = row.scores;
  if (!first || first.mean === null) return h("span", { class: "muted" }, "–");
  return h("span", {}, h("strong", {}, score(first.mean)), " ", said(first.judge, "small"));
}

function damagedNotice(reasons) {
  if (reasons.length === 0) return null;
  return h("section", { class: "notice" }, h("h2", {}, t("damaged")), h("ul", {}, reasons.map((reason) => said(reason, "li"))));
}
