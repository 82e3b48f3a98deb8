// Runs over the same data side by side: mean scores, and gains over the baseline with their intervals.

import { address, get, SERVED } from "./api.js";
import { fill, h, svg, untrusted, visible } from "./dom.js";
import { count, NONE, score, signed } from "./format.js";
import { crumbs } from "./header.js";
import { caveatBadge, caveatNotes, contradictionNotes, empty, later, stepRow, table, tableRow } from "./parts.js";
import { go, href } from "./route.js";
import { t } from "./words.js";

const AGAIN_MS = 1500;

/** One board for each judge. A server that is still computing is asked again. */
export function leaderboardPage({ main, heading, query, signal }) {
  const place = h("div", {});
  const over = h("p", { class: "lead" });
  const way = crumbs([[t("runs"), "#/"], [t("leaderboard")]]);
  const matrix = h("a", { href: href("/matrix", { data: query.data }) }, t("toMatrix"));
  fill(main, h("div", { class: "page" }, way, fill(heading(t("leaderboard")), t("leaderboard")), over,
    h("p", {}, matrix), place));
  const fetched = async () => {
    const found = await get("leaderboard", { data: query.data }, signal);
    // Without data it is the only board of the folder, whose full address may be kept and passed on.
    if (!query.data) {
      query.data = found.data_sha;
      matrix.setAttribute("href", href("/matrix", { data: query.data }));
      history.replaceState(history.state, "", href("/leaderboard", { data: query.data }));
    }
    if (found.data) fill(over, t("dataIs"), " ", untrusted(found.data, "strong"));
    if (found.computing) setTimeout(() => again().catch(() => {}), AGAIN_MS);
    return boards(found);
  };
  const again = async () => {
    if (signal.aborted) return;
    const shown = await fetched();
    if (!signal.aborted) fill(place, shown);
  };
  later(place, fetched, signal);
  return { keys: { u: () => go("#/"), j: () => stepRow(place, 1), k: () => stepRow(place, -1) } };
}

function boards(found) {
  const problem = found.problem ? untrusted(found.problem, "p", { class: "notice" }) : null;
  const computing = found.computing ? h("p", { class: "muted", role: "status" }, t("computing")) : null;
  if (found.boards.length === 0) return [computing ?? problem ?? empty(t("noBoard"))];
  const caveats = found.boards.flatMap(({ standings }) => standings.map((row) => row.caveat));
  const gained = found.boards.some(({ standings }) => standings.some((row) => row.gain !== null));
  const note = h("p", { class: "muted small" }, t(gained ? "boardNote" : "boardFailed"));
  const byAgent = found.boards.some(({ agent }) => agent) ? h("p", { class: "notice" }, t("byAgent")) : null;
  const csv = address("csv", { data: found.data_sha });
  const saved = SERVED ? h("p", { class: "small" }, h("a", { href: csv, download: true }, t("downloadCsv"))) : null;
  return [computing, problem, byAgent, caveatNotes(caveats), contradictionNotes(found.contradictions), found.boards.map(board), note, saved];
}

function board({ agent, judge, baseline, best, untestable, standings }) {
  const by = agent ? `${t("comma")}${t("agent")} ${visible(agent)}` : "";
  const gained = standings.some((row) => row.gain !== null);
  const gain = baseline ? t("gainOver", { baseline: visible(baseline) }) : t("gain");
  const differ = standings.some((row) => row.n_common < row.n_scored);
  const bold = standings.some((row) => row.best_or_tied === false);
  const heads = [
    [t("system"), "name"], [t("mean"), "number"], ...(differ ? [[t("commonMean"), "number"]] : []),
    ["p50", "number"], ["p90", "number"],
    ...(gained ? [[gain, "number"], [t("interval"), "drawn"]] : [[t("onScale"), "drawn"]]),
    [t("scored"), "number"], [t("failed"), "number"],
  ];
  const place = gained ? axis(standings.flatMap(ends), { low: 0, high: 0 }) : axis([], { low: 0, high: 100 });
  const height = (row) => row.common_mean ?? row.mean ?? -1;
  const ranked = [...standings].sort((a, b) => height(b) - height(a));
  const body = ranked.map((row) => tableRow(heads, cells(row, place, { gained, differ, bold }), { class: "link-row" }));
  return h("section", { class: "group" },
    h("div", { class: "group-head" }, h("h2", {}, t("judge"), " ", untrusted(judge),
      agent ? [t("comma"), t("agent"), " ", untrusted(agent)] : null)),
    table(t("judgedBy", { judge: visible(judge) }) + by, heads, body, { class: "stack quiet-caption" }),
    differ ? h("p", { class: "muted small" }, t("commonNote", { n: count(standings[0].n_common) })) : null,
    bold ? h("p", { class: "muted small" }, t("boldMeans")) : null,
    verdict(best, untestable ?? [], standings),
    standings.some((row) => row.judge_is) ? h("p", { class: "muted small" }, t("ownText")) : null);
}

/**
 * Which system is best, which ones no paired test separates from it, and which ones no test could, since too few
 * instances differ; nothing about fewer than two systems.
 */
function verdict(best, untestable, standings) {
  const rivals = standings.filter((row) => row.best_or_tied !== null).length;
  if (rivals < 2 || standings.some((row) => row.caveat)) return null;
  const [first, ...tied] = best.map((name) => visible(name));
  const untold = untestable.map((name) => visible(name)).join(", ");
  const found = tied.length ? t("bestTied", { first, tied: tied.join(", ") })
    : t(untold ? "bestHighest" : "bestAlone", { first });
  return h("p", { class: "small" }, found, untold ? t("bestUntested", { untold }) : null);
}

const ends = (row) => [row.gain, row.gain_low, row.gain_high].filter((value) => value !== null);

function cells(row, place, { gained, differ, bold }) {
  const link = untrusted(row.system, "a", { class: "row-link", href: href("/run", { run: row.run }) });
  const gain = row.gain === null ? NONE : signed(row.gain);
  const marked = (mean) => (bold && row.best_or_tied ? h("strong", {}, score(mean)) : score(mean));
  return [
    [link, " ", caveatBadge(row.caveat), row.judge_is ? " ‡" : null,
      row.run === row.system ? null : untrusted(row.run, "small")],
    differ ? score(row.mean) : marked(row.mean), ...(differ ? [marked(row.common_mean)] : []),
    score(row.p50), score(row.p90),
    ...(gained ? [gain, interval(row, place)] : [onScale(row, place)]),
    t("of", { n: count(row.n_scored), all: count(row.n_expected) }),
    row.n_failed ? h("span", { class: "bad" }, count(row.n_failed)) : count(0),
  ];
}

function interval(row, place) {
  if (row.gain === null) return h("span", { class: "muted" }, t("baseline"));
  const words = row.no_difference ? t("noDifference") : row.gain_low === null ? ""
    : `[${signed(row.gain_low)}, ${signed(row.gain_high)}]${row.gain_too_short ? "†" : ""}`;
  const label = `${signed(row.gain)} ${words}`;
  const drawn = whisker(place, { value: row.gain, lower: row.gain_low, upper: row.gain_high, zero: 0, label });
  return [drawn, h("small", {}, words)];
}

function onScale(row, place) {
  return row.mean === null ? NONE : whisker(place, { value: row.mean, label: score(row.mean) });
}

// --- Drawings of a value on an axis, with its interval

const WIDTH = 220;
const HEIGHT = 22;
const MARGIN = 6;

/** An axis that all rows of a table share: from `low` to `high`, with room for every value. */
function axis(values, { low = Infinity, high = -Infinity } = {}) {
  const known = values.filter((value) => Number.isFinite(value));
  const from = Math.min(low, ...known);
  const to = Math.max(high, ...known);
  const span = to - from || 1;
  return (value) => MARGIN + ((value - from) / span) * (WIDTH - 2 * MARGIN);
}

/** A dot at `value`, whiskers from `lower` to `upper` where there are any, a line at `zero` where it is given. */
function whisker(place, { value, lower = null, upper = null, zero = null, label }) {
  const middle = HEIGHT / 2;
  const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
  const ends = lower === null || upper === null ? null : [
    line(place(lower), middle, place(upper), middle, "whisker"),
    line(place(lower), middle - 4, place(lower), middle + 4, "whisker"),
    line(place(upper), middle - 4, place(upper), middle + 4, "whisker"),
  ];
  const shape = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", { class: "chart", ...shape, role: "img", "aria-label": label },
    line(MARGIN, middle, WIDTH - MARGIN, middle, "rule"),
    zero === null ? null : line(place(zero), 2, place(zero), HEIGHT - 2, "zero"),
    ends,
    value === null ? null : svg("circle", { cx: place(value), cy: middle, r: 4, class: "dot" }));
}
