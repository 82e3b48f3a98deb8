// Systems that ask during the search, beside those that never ask, ask before it, or are told everything.

import { h, svg, untrusted, visible } from "./dom.js";
import { count, NONE, pValue, rate, score, signed } from "./format.js";
import { table, tableRow } from "./parts.js";
import { t } from "./words.js";

/** What `cts diagnose` says about asking: a figure, and its tables; nothing where no agent asks. */
export function askingSection(asking) {
  if (!asking) return null;
  const { orig, tables } = asking;
  return h("section", { class: "asking" },
    h("h3", {}, t("asking")),
    figure(tables),
    worth(tables, orig),
    h("details", {}, h("summary", {}, t("askMore")),
      care(tables), timing(tables), counts(tables), tests(tables), givenLater(tables)),
    h("p", { class: "muted small" }, t("askingNote", { orig: visible(orig || "orig") })));
}

// --- Tables

/** A table of rows that have a system; columns are [words, cell of a row, class?]. Nothing without rows. */
function systemTable(caption, rows, columns) {
  if (rows.length === 0) return null;
  const heads = [[t("system"), "name"], ...columns.map(([words, , classes = "number"]) => [words, classes])];
  const body = rows.map((row) => tableRow(heads, [untrusted(row.system), ...columns.map(([, cell]) => cell(row))]));
  return table(caption, heads, body, { class: "stack" });
}

/** A number with its interval in brackets; a dash where there is none. */
function interval(row, key, write) {
  if (row === undefined || row[key] === null) return NONE;
  if (row[`${key}_low`] === null) return write(row[key]);
  const mark = row[`${key}_too_short`] ? "†" : "";
  return [write(row[key]), " ", h("small", {}, `[${write(row[`${key}_low`])}, ${write(row[`${key}_high`])}]${mark}`)];
}

const part = (row, key, whole) => (row[whole] ? t("of", { n: count(row[key]), all: count(row[whole]) }) : NONE);
const bySystem = (rows) => new Map(rows.map((row) => [row.system, row]));

function worth({ asking, asking_worth }, orig) {
  const worths = bySystem(asking_worth);
  const gain = (key, write) => (row) => interval(worths.get(row.system), key, write);
  const whole = (value) => signed(Math.round(value)).replace(/[.,]0$/, "");
  return systemTable(t("askWorth", { orig: visible(orig || "orig") }), asking, [
    [t("askedWhen"), (row) => t(`asked_${row.asked}`), "words"],
    [t("askQuestions"), (row) => score(row.questions_per_instance)],
    [t("askTokens"), (row) => score(row.tokens_per_instance)],
    [t("notCounted"), (row) => count(row.failed + row.missing + row.unscored + (row.without_orig ?? 0))],
    [t("askGain"), gain("gain", signed)],
    [t("perQuestion"), gain("gain_per_question", signed)],
    [t("perTokens"), gain("gain_per_1000_tokens", whole)],
  ]);
}

function care({ asking_care, asking_regret }) {
  const regrets = bySystem(asking_regret);
  return systemTable(t("askCare"), asking_care, [
    [t("repeatedQuestions"), (row) => part(row, "repeated", "questions")],
    [t("inQuery"), (row) => part(row, "in_query", "with_words")],
    [t("needless"), (row) => part(row, "needless", "decided")],
    [t("wronglyNot"), (row) => part(row, "not_asked", "to_ask")],
    ["Ask-F1", (row) => rate(row.ask_f1)],
    [t("regret"), (row) => interval(regrets.get(row.system), "regret", (value) => score(value).replace("-", "\u2212"))],
  ]);
}

function timing({ asking_timing }) {
  return systemTable(t("askTiming"), asking_timing, [
    [t("askedIn"), (row) => count(row.n)],
    [t("allAt"), (row) => rate(row.mean_share)],
    [t("firstAt"), (row) => rate(row.mean_first_share)],
    [t("rho"), (row) => (row.rho === null ? NONE : row.rho.toFixed(2).replace("-", "\u2212"))],
  ]);
}

function counts({ asking_counts }) {
  return systemTable(t("askCounts"), asking_counts, [
    [t("asks"), (row) => count(row.asks)],
    [t("instancesN"), (row) => count(row.n)],
    [t("mean"), (row) => interval(row, "score", score)],
    [t("askGain"), (row) => interval(row, "gain", signed)],
  ]);
}

function tests({ asking_tests }) {
  const rows = asking_tests.map((test) => ({ ...test, system: `${test.system} − ${test.other}` }));
  return systemTable(t("askTests"), rows, [
    [t("instancesN"), (row) => count(row.n)],
    [t("difference"), (row) => signed(row.difference)],
    [t("pHolm"), (row) => pValue(row.p_holm)],
  ]);
}

function givenLater({ given_later }) {
  return systemTable(t("givenLater"), given_later, [
    [t("givenAt"), (row) => (row.share === null ? t("givenRewritten") : rate(row.share))],
    [t("notGiven"), (row) => (row.not_delivered === null ? NONE : part(row, "not_delivered", "answered"))],
    [t("askGain"), (row) => interval(row, "gain", signed)],
    [t("overRewriting"), (row) => interval(row, "over_rewriting", signed)],
  ]);
}

// --- The figure: gains over the share of the agent's turns

const WIDEST = 640;
const AROUND = 40; // of a page, beside what it holds
const LINE = 17;
const [LEFT, RIGHT, TOP, HEIGHT] = [52, 24, 10, 260];

/** Answers given later as filled dots, joined; own questions as open marks; other systems as lines; a legend below. */
function figure({ asking, asking_worth, asking_first, given_later }) {
  const worths = bySystem(asking_worth);
  const later = given_later.filter((row) => row.share !== null && row.gain !== null);
  if (later.length + asking_first.length === 0) return null;
  // As wide as the page, so that its words are as large as those around it on a phone, too.
  const width = Math.min(WIDEST, document.documentElement.clientWidth - AROUND);
  const lines = asking.filter((row) => ["before", "told"].includes(row.asked) && worths.has(row.system))
    .map((row) => ({ name: row.system, asked: row.asked, gain: worths.get(row.system).gain }));
  const groups = [...grouped(later, "asked_before", "share", ["given"]),
    ...grouped(asking_first, "system", "mean_share", ["asks", "asks second"])];
  const rows = groups.flatMap((group) => group.rows);
  const values = [0, ...lines.map((line) => line.gain), ...rows.flatMap((row) => [row.gain, row.gain_low, row.gain_high])];
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const y = (value) => TOP + HEIGHT - ((value - low) / (high - low || 1)) * HEIGHT;
  const x = (share) => LEFT + share * (width - LEFT - RIGHT);
  const label = groups.flatMap((group) => group.rows.map((row) => told(group, row))).join("; ");
  const bottom = TOP + HEIGHT;
  const across = (value, name) => svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: name });
  const shape = { viewBox: `0 0 ${width} ${bottom + 44}`, role: "img", "aria-label": label };
  return h("figure", {},
    h("figcaption", {}, h("strong", {}, t("askingFigure")), " ", h("span", { class: "muted small" }, t("askingFigureNote"))),
    svg("svg", { class: "chart worth", ...shape },
      ticks(low, high).map((value) => [across(value, "rule"),
        svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, signed(value).replace(/[.,]0$/, ""))]),
      [0, 0.25, 0.5, 0.75, 1].map((share) =>
        svg("text", { x: x(share), y: bottom + LINE + 4, "text-anchor": "middle" }, rate(share).replace(/[.,]0/, ""))),
      svg("text", { x: x(0.5), y: bottom + 2 * LINE + 4, "text-anchor": "middle" }, t("shareOfTurns")),
      across(0, "zero"),
      lines.map((line) => across(line.gain, `reference ${line.asked}`)),
      groups.map((group) => series(group, x, y))),
    h("ul", { class: "worth-legend small" },
      lines.map(({ name, asked }) => entry(`reference ${asked}`, [untrusted(name), ` (${t(`asked_${asked}`)})`])),
      groups.map(({ name, kind }) => entry(kind, [untrusted(name),
        kind === "given" ? ` (${t("asked_later")})` : null]))));
}

/** Rows with the same value of a field, each group with its kind: the kinds take turns. */
function grouped(rows, field, at, kinds) {
  const names = [...new Set(rows.map((row) => row[field]))];
  return names.map((name, place) =>
    ({ name, at, kind: kinds[place % kinds.length], rows: rows.filter((row) => row[field] === name) }));
}

const told = ({ name, at }, row) => `${visible(name)} ${rate(row[at])}: ${signed(row.gain)}`;

function series(group, x, y) {
  const { rows, at, kind } = group;
  const points = rows.map((row) => `${x(row[at])},${y(row.gain)}`).join(" ");
  return svg("g", { class: kind },
    kind === "given" ? svg("polyline", { points, class: "joined" }) : null,
    rows.map((row) => svg("g", {}, svg("title", {}, told(group, row)),
      row.gain_low === null ? null
        : svg("line", { x1: x(row[at]), x2: x(row[at]), y1: y(row.gain_low), y2: y(row.gain_high), class: "whisker" }),
      mark(kind, x(row[at]), y(row.gain)))));
}

/** A mark by the kind of its series: shapes say what colours say. */
function mark(kind, x, y) {
  return kind.includes("second") ? svg("rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: "dot" })
    : svg("circle", { cx: x, cy: y, r: 5, class: "dot" });
}

/** An entry of the legend: a mark or a line, and words. */
function entry(kind, words) {
  const [middle, width] = [8, 36];
  const line = (name) => svg("line", { x1: 0, x2: width, y1: middle, y2: middle, class: name });
  const drawn = kind.startsWith("reference") ? line(kind)
    : svg("g", { class: kind }, kind === "given" ? line("joined") : null, mark(kind, width / 2, middle));
  const shape = { viewBox: `0 0 ${width} ${2 * middle}`, width, height: 2 * middle, "aria-hidden": "true" };
  return h("li", {}, svg("svg", { class: "chart worth", ...shape }, drawn), h("span", {}, words));
}

/** About five round values between two. */
function ticks(low, high) {
  const step = [1, 2, 5, 10, 20, 50, 100].find((size) => (high - low) / size <= 6) ?? 200;
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) values.push(value);
  return values;
}
