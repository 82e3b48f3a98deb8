// Lists of runs: a table for each data set.

import { h } from "./dom.js";
import { count, dollars, duration, moment, NONE, rate, score } from "./format.js";
import { badge, done, empty, smokeBadge, table, tableRow } from "./parts.js";
import { href } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { t } from "./words.js";

/** The runs by data, both the newest first; what to do where there are none. */
export function runGroups(runs, anyAtAll) {
  if (runs.length === 0) return anyAtAll ? empty(t("noRunFits")) : beginning();
  const newest = [...runs].sort((a, b) => (b.started ?? "").localeCompare(a.started ?? ""));
  const groups = new Map();
  for (const row of newest) {
    const key = row.data_sha || row.data;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()].map(group);
}

/** Folders without a run that can be read; nothing where there are none. */
export function damagedNotice(reasons) {
  if (reasons.length === 0) return null;
  return h("section", { class: "notice" },
    h("h2", {}, t("damaged")), h("ul", {}, reasons.map((reason) => untrusted(reason, "li"))));
}

/** Running, or not finished; nothing where a run is over. */
export function state(row) {
  if (row.running) return badge("running", t("running"));
  return row.n_expected && row.n_done >= row.n_expected ? null : badge("quiet", t("stopped"));
}

/** What it is where it is not a run of the benchmark. */
export function kindBadge(row) {
  return row.kind === "run" ? null : badge("quiet", t(`kind_${row.kind}`));
}

function beginning() {
  return [empty(t("noRuns")), h("p", { class: "empty" }, h("code", {}, "cts run --help"))];
}

function group(rows) {
  // Who judged somebody's answers may know the gold only; a run knows what its data are called.
  const { data, data_sha: sha } = rows.find((row) => row.kind !== "judged") ?? rows[0];
  const name = data || t("unknownData");
  const ranked = sha && rows.filter((row) => row.scores.length).length > 1;
  const heads = [
    [t("run"), "name"], [t("progress")], [t("mean"), "number"], [t("unknownRate"), "number"], [t("failed"), "number"],
    [t("cost"), "number"], [t("time"), "number"], [t("started")],
  ];
  const body = rows.map((row) => tableRow(heads, cells(row), { class: "link-row" }));
  return h("section", { class: "group" },
    h("div", { class: "group-head" },
      untrusted(name, "h2"), h("span", { class: "muted" }, t("nRuns", { n: rows.length })),
      ranked ? h("a", { href: href("/leaderboard", { data: sha }) }, t("leaderboard")) : null),
    table(t("runsOver", { data: visible(name) }), heads, body, { class: "stack quiet-caption runs" }));
}

function cells(row) {
  return [
    nameCell(row),
    progress(row),
    mean(row),
    rate(row.unknown_rate),
    row.n_failed ? h("span", { class: "bad" }, count(row.n_failed)) : count(0),
    dollars(row.cost_usd),
    duration(row.wall_s),
    row.started ? h("time", { datetime: row.started }, moment(row.started)) : NONE,
  ];
}

function nameCell(row) {
  const link = untrusted(row.system || row.name, "a", { class: "row-link", href: href("/run", { run: row.name }) });
  return h("span", { class: "run-name" }, link,
    row.name === row.system ? null : untrusted(row.name, "small"),
    h("span", { class: "badges" }, state(row), kindBadge(row), smokeBadge(row.smoke_test)));
}

function progress(row) {
  const share = Math.min(row.n_done / Math.max(row.n_expected, 1), 1);
  return h("span", { class: "progress", vars: { "--share": share } }, done(row),
    row.ready < 1 ? h("small", {}, t("indexing", { share: rate(row.ready) })) : null);
}

function mean(row) {
  const [first] = row.scores;
  if (!first || first.mean === null) return h("span", { class: "muted" }, NONE);
  return h("span", {}, h("strong", {}, score(first.mean)), " ", untrusted(first.judge, "small"));
}
