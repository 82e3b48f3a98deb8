// One run: how it comes along, what it found, its instances, and what determined it.

import { get, watch } from "./api.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { cost, count, duration, moment, NONE, rate, score, signed, size } from "./format.js";
import { crumbs } from "./header.js";
import { instanceBrowser } from "./instances.js";
import {
  caveatBadge, caveatNotes, contradictionNotes, copyButton, done, facts, field, frame, keepFocus, later, restrictionNotes, section, select, table, tableRow,
} from "./parts.js";
import { liveView, progressWords } from "./progress.js";
import { go, href, joined } from "./route.js";
import { kindBadge, state } from "./runs.js";
import { changesView, olderNotice, versionBadge, versionButton } from "./versions.js";
import { t } from "./words.js";

const FEWEST = 5; // scores that an interval is given for, as in the leaderboard (analysis/stats.py)
const MOST_NOTICES = 5;

/** The run named in the address; its list of instances follows the filters there. */
export function runPage({ main, heading, query, signal }) {
  const head = fill(heading(query.run ?? ""), untrusted(query.run ?? ""));
  const page = frame(crumbs([[t("runs"), "#/"], [untrusted(query.run ?? "")]]), head);
  const spread = h("div", { class: "spread" });
  const browser = instanceBrowser(query, signal, (found, { judge }) =>
    fill(spread, histogram(found.histogram, judge || (found.judges[0] ?? ""))));
  fill(main, page.element);
  later(page.body, async () => {
    const found = await get("run", { run: query.run }, signal);
    fill(head, untrusted(found.row.system || found.row.name));
    return layout(found, page.marks, spread, browser, signal);
  }, signal);
  return {
    update: browser.update,
    keys: { ...browser.keys, u: () => go("#/") },
  };
}
runPage.identity = (query) => query.run;

function layout(page, marks, spread, browser, signal) {
  const live = h("div", { class: "live" });
  const [summary, byJudge] = [h("div", {}), h("div", { class: "by-judge" })];
  const announced = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
  const older = h("div", {});
  let versions = page.versions;
  let [tenth, gained, shown] = [-1, null, page.row];
  const gainAgain = (row) => {
    if (page.beside.length === 0 || row.scores.length === 0) return;
    gain(row, signal).then((fact) => {
      gained = fact;
      draw(shown);
    }, () => {});
  };
  const draw = (row) => {
    if (shown.running && !row.running) gainAgain(row);
    shown = row;
    const button = versionButton(row.name, versions, toRun);
    keepFocus(marks, () => fill(marks, state(row), kindBadge(row), caveatBadge(row.caveat), button ?? versionBadge(row)));
    fill(older, olderNotice(row, versions, toRun));
    older.hidden = !row.older;
    fill(live, liveView(row));
    fill(summary, figures(row, gained, page.summary?.reused), isOver(row) || row.running ? null : command("commandResumes", page.command));
    fill(byJudge, row.scores.length > 1 ? judges(row.live ? row.scores.slice(1) : row.scores) : null);
    const now = row.live ? Math.floor((10 * row.live.n_done) / (row.live.n_expected || 1)) : tenth;
    if (now > tenth) announced.textContent = progressWords(row);
    tenth = Math.max(now, tenth);
  };
  draw(page.row);
  let seen = page.row.n_done;
  const changed = (row) => {
    // Another version came, or went.
    if (row.versions.join("\n") !== shown.versions.join("\n")) {
      get("run", { run: row.name }, signal).then((found) => {
        versions = found.versions;
        draw(found.row);
      }, () => {});
    }
    draw(row);
    if (row.n_done !== seen) browser.grown();
    seen = row.n_done;
  };
  watch(page.row.name, { changed }, signal);
  if (!page.row.running) gainAgain(page.row);
  const { changed: texts, changed_from: origin } = page.row;
  return [
    older, restrictionNotes([page.row.restriction]), caveatNotes([page.row.caveat]),
    contradictionNotes(page.row.contradictions), toolNotices(page.summary),
    live, announced, summary, h("div", { class: "pair" }, byJudge, spread), tokens(page.summary?.tokens), beside(page),
    texts.length || origin ? section("changes", t("whatChanged"), changesView(page.row.name, signal)) : null,
    section("instances", t("instances"), browser.element),
    section("settings", t("settings"), settings(page)),
  ];
}

/** That hardly a search or visit worked: what has to be read before the scores. */
function toolNotices(summary) {
  const notices = Array.isArray(summary?.notices) ? summary.notices.slice(0, MOST_NOTICES) : [];
  return notices.map((notice) => untrusted(String(notice), "p", { class: "notice" }));
}

const toRun = ({ name }) => href("/run", { run: name });

const isOver = (row) => row.n_expected > 0 && row.n_done + row.n_absent >= row.n_expected;

/** The command that made the run; nothing where it is not known. */
function command(why, words) {
  if (!words) return null;
  return h("div", { class: "command-line" }, h("p", { class: "muted small" }, t(why)),
    h("span", { class: "command" }, untrusted(words, "code"), copyButton(t("command"), words)));
}

/** The steps that were taken from other runs, and what they cost there; nothing without any. */
function reusedFact(reused) {
  if (typeof reused?.steps !== "number" || typeof reused.of_steps !== "number") return null;
  const [paid] = cost(reused.priced_usd ?? null, Number(reused.unpriced_models) || 0);
  return [t("reusedSteps"), t("of", { n: count(reused.steps), all: count(reused.of_steps) }), t("paidThere", { cost: paid })];
}

function figures(row, gained, reused) {
  const [first] = row.scores;
  // While the process runs, what it has done and spent is shown above; each number is shown once.
  const atRest = !row.live;
  const note = first && [untrusted(first.judge), atRest ? null : soFar(row.live, first.n_scored)];
  return facts([
    first ? [t(atRest ? "mean" : "meanSoFar"), score(first.mean), note] : null,
    first ? ["p50 · p90", `${score(first.p50)} · ${score(first.p90)}`] : null,
    atRest ? gained : null,
    atRest ? [t("done"), done(row)] : null,
    [t("failed"), h("span", { class: row.n_failed ? "bad" : "" }, count(row.n_failed))],
    [t("unknownRate"), rate(row.unknown_rate)],
    atRest ? [t("cost"), ...cost(row.priced_usd ?? row.cost_usd, row.unpriced_models)] : null,
    [t("commandTime"), duration(row.wall_s)],
    atRest ? reusedFact(reused) : null,
  ], "facts large");
}

function soFar({ mean_low: low, mean_high: high }, scored) {
  const ends = low === null || scored < FEWEST ? "" : `[${score(low)}, ${score(high)}] `;
  return t("comma") + ends + t("overScored", { n: count(scored) });
}

function judges(scores) {
  const heads = [
    [t("judge"), "name"], [t("mean"), "number"], ["p50", "number"], ["p90", "number"], [t("scored"), "number"],
  ];
  const cells = (one) => [untrusted(one.judge), score(one.mean), score(one.p50), score(one.p90), count(one.n_scored)];
  return table(t("byJudge"), heads, scores.map((one) => tableRow(heads, cells(one))), { class: "stack narrow" });
}

function tokens(byModel = {}) {
  if (Object.keys(byModel).length === 0) return null;
  const usage = ([model, used], index) => {
    const [input, output] = [used?.input, used?.output].map((amount) => size(Number(amount) || 0, ""));
    return [index ? " · " : "", untrusted(model), ` ${t("inOut", { input, output })}`];
  };
  return h("p", { class: "muted small" }, t("tokensBy"), Object.entries(byModel).map(usage));
}

/** Where this run can be seen beside another one. */
function beside({ row, beside: others }) {
  if (others.length === 0) return null;
  const options = [["", t("choose")], ...others.map((name) => [name, visible(name)])];
  const compare = (name) => name && go(href("/compare", { a: row.name, b: name }));
  return h("div", { class: "beside" }, field(t("compareWith"), select(options, "", compare)),
    row.scores.length ? h("a", { href: href("/leaderboard", { data: row.data_sha }) }, t("leaderboard")) : null);
}

function settings({ row, manifest, command: words }) {
  return [
    facts([
      [t("data"), untrusted(row.data || NONE)],
      row.k === null ? null : ["k", count(row.k)],
      row.scheme ? [t("scheme"), untrusted(row.scheme)] : null,
      row.mode ? [t("mode"), untrusted(row.mode)] : null,
      [t("started"), moment(row.started)],
      [t("ended"), moment(row.ended)],
    ]),
    isOver(row) || row.running ? command("commandIs", words) : null,
    h("details", {}, h("summary", {}, t("manifest")),
      untrusted(JSON.stringify(manifest, null, 2), "pre", { lang: "", tabindex: "0" })),
  ];
}

// --- Scores

/** The number of instances in each bin of scores from 0 to 100, as a drawing and as a table; nothing without scores. */
function histogram(counts, judge) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  const bins = counts.map((n, i) => ({ n, from: (100 * i) / counts.length, to: (100 * (i + 1)) / counts.length }));
  const caption = t("histogram", { judge: visible(judge) });
  const heads = [[t("score"), "name"], [t("instances"), "number"], [t("share"), "number"]];
  const rows = bins.filter(({ n }) => n > 0).map(({ n, from, to }) =>
    tableRow(heads, [t("range", { from, to }), count(n), rate(n / total)]));
  return h("figure", { class: "histogram" },
    h("figcaption", {}, caption), bars(bins, total),
    h("details", {}, h("summary", {}, t("showData")), table(caption, heads, rows, { class: "quiet-caption" })));
}

function bars(bins, total) {
  const most = bins.reduce((best, bin) => (bin.n > best.n ? bin : best));
  const label = t("histogramWords", { n: count(total), most: count(most.n), from: most.from, to: most.to });
  const bar = ({ n, from, to }) =>
    h("span", { vars: { "--share": n / most.n }, title: `${t("range", { from, to })}: ${count(n)}` });
  return [
    h("div", { class: "bars", role: "img", "aria-label": label }, bins.map(bar)),
    h("div", { class: "ticks", "aria-hidden": "true" }, [0, 25, 50, 75, 100].map((at) => h("span", {}, String(at)))),
  ];
}

/** What the run gained over the baseline by its scoring judge, as one of `facts`; null where the leaderboard has none. */
async function gain(row, signal) {
  let found;
  const versions = row.older ? joined([row.name]) : "";
  do found = await get("leaderboard", { data: row.data_sha, versions }, signal);
  while (found.computing && found.boards.length === 0);
  const has = ({ judge, standings }) => judge === row.scores[0]?.judge && standings.some(({ run }) => run === row.name);
  const board = found.boards.find(has);
  const own = board?.standings.find((one) => one.run === row.name);
  if (!own || own.gain === null) return null;
  const words = own.no_difference ? t("noDifference") : own.gain_low === null ? t("noInterval")
    : t("intervalIs", { low: signed(own.gain_low), high: signed(own.gain_high) }) + (own.gain_too_short ? t("tooShort") : "");
  const pairs = t("pairs", { n: count(own.gain_pairs) });
  return [t("gainOver", { baseline: visible(board.baseline) }), signed(own.gain), words + t("comma") + pairs];
}
