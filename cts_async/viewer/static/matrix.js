// Instances by runs: a row for each instance, a column for each run, so that one sees where systems differ.

import { pairDifference } from "./difference.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { count, dollars, duration, NONE, score, signed } from "./format.js";
import { crumbs } from "./header.js";
import { failures, listBrowser } from "./lists.js";
import { beginning } from "./longtext.js";
import { caveatBadge, caveatNotes, contradictionNotes, restrictionNotes, table, tableRow } from "./parts.js";
import { go, href, joined } from "./route.js";
import { allSwitch, versionButton } from "./versions.js";
import { t } from "./words.js";

const LARGEST = "-spread"; // the order without any in the address
const FORMATS = { score, gain: signed, turns: count, seconds: duration, cost: dollars };

/** All runs over the data of the address. */
export function matrixPage({ main, heading, query, signal }) {
  const board = href("/leaderboard", { data: query.data });
  const way = crumbs([[t("runs"), "#/"], ...(query.data ? [[t("leaderboard"), board]] : []), [t("matrix")]]);
  const matrix = matrixBrowser("/matrix", query, signal);
  fill(main, h("div", { class: "page" }, way, fill(heading(t("matrix")), t("matrix")), matrix.element));
  return { update: matrix.update, keys: { ...matrix.keys, u: () => go(query.data ? board : "#/") } };
}
matrixPage.identity = ({ data, runs }) => JSON.stringify([data, runs]);

/** The table under its filters, for the page at `path`. */
export function matrixBrowser(path, query, signal) {
  const picked = new Set();
  const difference = pairDifference(signal);
  const draw = (found, now, to, redraw) => [comparison(picked, found, now), difference(found),
    matrixTable(found, { now, to, picked, redraw }), legend(found)];
  const chosen = (found, choose, now) => [
    found.known.length < 2 ? null : runChoice(found, (names) => choose({ runs: joined(names), judge: "", by: "", of: "" })),
    allSwitch(Boolean(now.all), Object.keys(found.versions).length > 0, (all) => choose({ all: all ? "1" : "" })),
  ];
  return listBrowser({ name: "matrix", path, query, signal, draw, choices, chosen, key: keyOf, order: LARGEST });
}

const keyOf = ({ runs }) => joined(runs.map(({ name }) => name));

function choices({ judges, runs, shows }, query) {
  const several = runs.length > 1;
  return {
    show: [t("cells"), shows.map((name, index) => [index ? name : "", t(`show_${name}`)])],
    judge: [t("judge"), judges.map((name, index) => [index ? name : "", visible(name)])],
    failed: failures(),
    of: [t("filterOf"), several ? [["", t("anyRun")], ...runs.map(({ name }) => [name, visible(name)])] : []],
    sort: [t("sort"), several ? sorts(runs, query) : []],
  };
}

function sorts(runs, query) {
  const [a, b] = letters(runs);
  const by = query.by || runs[0].name;
  const gaps = runs.length === 2 ? [["-gap", t("sortGap", { run: a })], ["gap", t("sortGap", { run: b })]] : [];
  const values = /value$/.test(query.sort) ? [["-value", t("sortHighOf", { run: visible(by) })],
    ["value", t("sortLowOf", { run: visible(by) })]] : [];
  return [["", t("sortSpread")], ["spread", t("sortAlike")], ...gaps, ...values, ["file", t("sortFile")]];
}

/** Which runs are columns. */
function runChoice({ known, runs }, choose) {
  const shown = new Set(runs.map(({ name }) => name));
  const boxes = known.map(({ name }) => h("input", { type: "checkbox", value: name, checked: shown.has(name) }));
  const click = () => {
    const names = boxes.filter((box) => box.checked).map((box) => box.value);
    if (names.length > 0) choose(names);
  };
  return h("details", { class: "run-choice" },
    h("summary", {}, t("whichRuns", { n: count(runs.length), all: count(known.length) })),
    h("ul", {}, known.map(({ name }, index) =>
      h("li", {}, h("label", { class: "switch" }, boxes[index], untrusted(name))))),
    h("button", { type: "button", on: { click } }, t("showRuns")));
}

// --- The table

/** What columns are called: A, B, C, ... */
export const letters = (runs) => runs.map((_, index) => String.fromCharCode(65 + index));

function matrixTable(found, { now, to, picked, redraw }) {
  const { runs, rows, means, show, n_common: common } = found;
  const sorted = (key, by = "") => (now.sort ?? LARGEST) === key && (by === "" || (now.by || runs[0].name) === by);
  const sortBy = (words, keys, by) => {
    const at = keys.findIndex((key) => sorted(key, by));
    const next = keys[(at + 1) % keys.length];
    const on = { click: () => go(to({ sort: next, by })) };
    const mark = at < 0 ? "" : keys[at].startsWith("-") ? " ▼" : " ▲";
    return h("button", { type: "button", class: "plain sort", "data-key": `${keys[0]} ${by ?? ""}`, on }, words, mark);
  };
  const head = (run, index) => h("span", { class: "column-head" },
    sortBy([h("span", { class: "badge accent" }, letters(runs)[index]), " ", untrusted(labelOf(run, runs))],
      ["-value", "value"], run.name),
    versionButton(run.name, found.versions[run.name], (version) => versionAddress(version, run, found, to)), caveatBadge(run.caveat), runs.length > 2 ? pick(run, picked, redraw) : null);
  const two = runs.length === 2;
  const last = two ? sortBy(t("gapOf", { a: "A", b: "B" }), ["-spread", "-gap", "gap"])
    : sortBy(t("spread"), ["-spread", "spread"]);
  const heads = [[t("instance"), "name"], ...runs.map((run, index) => [head(run, index), "number"]),
    ...(runs.length > 1 ? [[last, "number"]] : [])];
  const number = FORMATS[show === "gain" ? "score" : show];
  const ofMeans = show === "turns" ? score : number;
  const difference = (row, written = number) => (two ? gap(row.gap, written) : written(row.spread));
  const between = (values) => ({ gap: values[0] - values[1], spread: Math.max(...values) - Math.min(...values) });
  const most = Math.max(Number.MIN_VALUE, ...rows.flatMap((row) => row.values));
  const body = rows.map((row) => withShades(tableRow(heads, [
    rowHead(row, runs), ...runs.map((run, index) => cell(run, row, index, found)),
    ...(runs.length > 1 ? [difference(row)] : []),
  ], { class: "matrix-row" }), row, show, most));
  const meanRow = means === null || now.text ? null : tableRow(heads, [
    t("meanOf", { n: count(common) }), ...means.map(show === "gain" ? signed : ofMeans),
    ...(runs.length > 1 ? [difference(between(means), ofMeans)] : []),
  ], { class: "means" });
  const made = table(t("matrixCaption", { show: t(`show_${show}`) }), heads, [meanRow, ...body].filter(Boolean),
    { class: "matrix quiet-caption" });
  made.querySelectorAll("thead th").forEach((one) => {
    const mark = one.querySelector(".sort")?.textContent.slice(-1);
    if (mark === "▼" || mark === "▲") one.setAttribute("aria-sort", mark === "▼" ? "descending" : "ascending");
  });
  return made;
}

/** A run by its system, or by its own name where two columns have the same system. */
function labelOf(run, runs) {
  return runs.filter(({ system }) => system === run.system).length > 1 ? run.name : run.system;
}

/** The table with a version in the place of a run, unless it is over other data: then the page of that version. */
function versionAddress({ name, data_sha: data }, run, { runs, versions }, to) {
  const own = versions[run.name].find((row) => row.name === run.name);
  if (own?.data_sha !== data) return href("/run", { run: name });
  const names = runs.map((column) => (column.name === run.name ? name : column.name));
  return to({ runs: joined(names), by: "", of: "" });
}

function pick(run, picked, redraw) {
  const change = (event) => {
    if (event.target.checked) picked.add(run.name);
    else picked.delete(run.name);
    redraw();
  };
  const name = visible(run.name);
  return h("input", { type: "checkbox", checked: picked.has(run.name), "data-key": `pick ${name}`,
    "aria-label": t("pick", { run: name }), title: t("pick", { run: name }), on: { change } });
}

function rowHead(row, runs) {
  const title = row.blurred_query || row.fused_query || beginning(row.id);
  const address = href("/compare", { runs: joined(runs.map(({ name }) => name)), id: row.id });
  return [untrusted(title, "a", { class: "row-link", href: address, title: visible(row.fused_query) || null }),
    untrusted(beginning(row.id, 100), "small")];
}

function cell(run, row, index, { show }) {
  const [value, state] = [row.values[index], row.states[index]];
  if (state === "missing") return h("span", { class: "muted", title: t("cellMissing") }, NONE);
  const [text, words] = state === "failed" ? ["✕", t("cellFailed")]
    : value === null ? ["?", t("cellUnscored")] : [FORMATS[show](value), null];
  const address = href("/instance", { run: run.name, id: row.id });
  return h("a", { class: `cell-link ${state}`, href: address, title: words, "aria-label": words }, text);
}

/** The cells with as much colour as they have of what is shown; their numbers say the same. */
function withShades(element, row, show, most) {
  [...element.children].slice(1, row.values.length + 1).forEach((td, index) => {
    const value = row.values[index];
    if (value === null) return;
    td.classList.add("shaded", show === "gain" ? (value < 0 ? "behind" : "ahead") : "amount");
    td.style.setProperty("--share", String(Math.min(1, Math.abs(value) / (/score|gain/.test(show) ? 100 : most))));
  });
  return element;
}

/** A less B: its sign, and in words which of them has more. */
function gap(value, number) {
  if (value === null) return NONE;
  if (value === 0) return h("span", { class: "muted" }, "= ", t("same"));
  const sign = value > 0 ? "+" : "\u2212";
  return [sign, number(Math.abs(value)), h("small", {}, t(value > 0 ? "moreInA" : "moreInB"))];
}

function legend({ show, shows, baseline, runs, contradictions }) {
  const gain = baseline === null ? t("legendGainByAgent") : t("legendGain", { baseline: visible(baseline) });
  const words = [t("legend"), show === "gain" && shows.includes("gain") ? gain : null,
    runs.length === 2 ? t("legendGap") : runs.length > 2 ? t("legendSpread") : null];
  return [h("p", { class: "muted small" }, words.filter(Boolean).join(" ")),
    restrictionNotes(runs.map((run) => run.restriction)), caveatNotes(runs.map((run) => run.caveat)),
    contradictionNotes(contradictions)];
}

/** A link to the comparison of the chosen columns, once there are two. */
function comparison(picked, { runs }, { judge }) {
  const names = runs.map(({ name }) => name).filter((name) => picked.has(name));
  if (names.length < 2) return runs.length > 2 ? h("p", { class: "muted small" }, t("pickHint")) : null;
  const address = href("/compare", { runs: joined(names), judge });
  return h("p", {}, h("a", { class: "button", href: address }, t("comparePicked", { n: names.length })));
}
