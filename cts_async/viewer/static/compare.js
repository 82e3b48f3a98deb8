// Several runs on the same instance: what each asked, searched, answered, and where their nuggets differ.

import { get } from "./api.js";
import { marked } from "./diff.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { NONE, signed, weight } from "./format.js";
import { crumbs } from "./header.js";
import { answer, conversation, couldAsk, failure, queries, rewritten, titleOf, verdicts } from "./instance_parts.js";
import { beginning } from "./longtext.js";
import { letters, matrixBrowser } from "./matrix.js";
import { coverage, nuggetText, where, worth } from "./nuggets.js";
import { caveatBadge, copyButton, field, frame, later, section, select, table, tableRow } from "./parts.js";
import { remember, remembered } from "./prefs.js";
import { go, href, joined, named } from "./route.js";
import { traceView } from "./trace.js";
import { listOf, neighbours, wayLinks } from "./walk.js";
import { t } from "./words.js";

/** The runs of the address on its instance; without one, the instances on which they differ most. */
export function comparePage(place) {
  return place.query.id ? instanceCompared(place) : overview(place);
}
comparePage.identity = ({ id, runs, a, b, ...others }) => JSON.stringify([id, runs, a, b, id ? others : null]);

/** `runs=A,B`, or `a=A&b=B`. */
const runsOf = ({ runs, a = "", b = "" }) => (runs ? named(runs) : [a, b].filter(Boolean));

function overview({ main, heading, query, signal }) {
  const runs = runsOf(query);
  const matrix = matrixBrowser("/compare", { ...query, runs: joined(runs) }, signal);
  const words = runs.join(" ↔ ");
  fill(main, h("div", { class: "page" }, trail(query), fill(heading(words), untrusted(words)), matrix.element));
  return { update: matrix.update, keys: { ...matrix.keys, u: () => go(href("/run", { run: runs[0] })) } };
}

function instanceCompared({ main, heading, query, signal }) {
  const runs = runsOf(query);
  const key = joined(runs);
  const steps = h("div", { class: "steps-way" });
  const head = fill(heading(runs.join(" ↔ ")), untrusted(beginning(query.id)));
  const page = frame(h("div", { class: "way" }, trail(query), steps), head);
  const way = { previous: null, next: null };
  const to = (id) => href("/compare", { ...query, id });
  const step = (id) => id !== null && go(to(id));
  fill(main, page.element);
  later(page.body, async () => {
    const all = await Promise.all(runs.map((run) => opened(run, query.id, signal)));
    const known = all.find((one) => one.page)?.page;
    if (!known) throw all[0].error;
    neighbours(key, query.id, known, signal).then((found) => {
      Object.assign(way, found);
      fill(steps, wayLinks(found, to));
    }, () => {});
    fill(head, untrusted(beginning(titleOf(known))));
    return layout(query, all, signal);
  }, signal);
  const up = () => go(listOf(key, href("/compare", { runs: key })));
  return { keys: { j: () => step(way.next), k: () => step(way.previous), u: up } };
}

/** What a run has of the instance: {run, page, error}, one of the latter null. */
async function opened(run, id, signal) {
  try {
    return { run, page: await get("instance", { run, id }, signal), error: null };
  } catch (error) {
    if (!error.status) throw error;
    return { run, page: null, error };
  }
}

function trail({ id, ...query }) {
  const to = (run) => [untrusted(run), href("/run", { run })];
  const list = href("/compare", { runs: joined(runsOf(query)) });
  const here = id ? [[t("comparison"), list], [untrusted(beginning(id))]] : [[t("comparison")]];
  return crumbs([[t("runs"), "#/"], ...runsOf(query).map(to), ...here]);
}

function layout(query, all, signal) {
  const known = all.find((one) => one.page).page;
  const body = h("div", { class: "sides" });
  const choose = (value) => {
    remember("side", value);
    for (const side of body.querySelectorAll(".side")) {
      side.classList.toggle("off", value !== "both" && side.dataset.side !== value);
    }
  };
  const searched = (page) => page.trace_turns || page.search;
  const search = (page) => h("details", {}, h("summary", {}, t("showSearch")), traceView(page, signal));
  const rewrites = (page) => page.rewritten_query;
  fill(body,
    row(all, "scores", "scores", (page) => page.scores.length || page.error || page.judge_errors.length, outcome),
    row(all, "questions", "conversation", couldAsk, conversation),
    row(all, "rewrite", "searched", (page) => rewrites(page) !== null, beside(all, t("rewritten"), rewrites, rewritten)),
    row(all, "search", "search", searched, search),
    row(all, "answer", "answer", (page) => page.answer !== null, beside(all, t("answer"), (page) => page.answer, answer)),
    nuggetsBeside(query, all));
  const side = letters(all).some((letter) => letter === remembered("side")) ? remembered("side") : "both";
  choose(side);
  return [
    all.filter(({ error }) => error).map(missing),
    section("queries", t("queries"), queries(known)), sideChoice(all, side, choose), body,
  ];
}

const missing = ({ run, error }) => h("p", { class: "notice" }, untrusted(run), ": ", untrusted(error.message));

const outcome = (page) => [page.error ? failure(page.error) : null, page.judge_errors.map(failure), verdicts(page)];

/** A section of all runs beside each other; nothing where none has it. */
function row(all, id, name, has, make) {
  if (!all.some(({ page }) => page && has(page))) return null;
  const names = letters(all);
  const sides = all.map((one, index) => h("div", { class: "side", "data-side": names[index] },
    sideName(one, names[index]),
    one.page && has(one.page) ? make(one.page) : h("p", { class: "empty" }, t("nothingHere"))));
  return section(id, t(name), h("div", { class: "two" }, sides));
}

/** A text of a run, `what`, the words marked that A does not have, in A itself those that B has not if there are two. */
function beside(all, what, textOf, alone) {
  const [a, b] = all.map(({ page }) => (page ? textOf(page) : null));
  return (page) => {
    const isA = page === all[0].page;
    const other = isA ? (all.length === 2 ? b : null) : a;
    if (other === null || other === undefined) return alone(page);
    const text = textOf(page);
    const note = text === other ? t("sameText") : t("onlyHere", { run: isA ? "B" : "A" });
    return h("div", { class: "card" },
      h("div", { class: "card-head" }, marked(text, other), copyButton(what, text)), h("p", { class: "muted small" }, note));
  };
}

function sideName({ run, page }, letter) {
  return h("p", { class: "side-name" }, h("span", { class: "badge accent" }, letter), " ",
    h("a", { href: href("/instance", { run, id: page?.id }) }, untrusted(run)), " ", caveatBadge(page?.caveat));
}

/** Which of the runs a narrow screen shows. */
function sideChoice(all, side, choose) {
  const options = [["both", t(all.length === 2 ? "both" : "every")], ...letters(all).map((letter) => [letter, letter])];
  return h("fieldset", { class: "side-choice" }, h("legend", { class: "hidden" }, t("sides")),
    options.map(([value, words]) => {
      const on = { change: () => choose(value) };
      return h("label", {}, h("input", { type: "radio", name: "side", value, checked: value === side, on }), words);
    }));
}

// --- The nuggets of all runs in one table

/** By a judge of all runs that did not fail; nothing where there is none, or fewer than two runs have nuggets. */
function nuggetsBeside(query, all) {
  if (all.filter(({ page }) => page?.nuggets.length).length < 2) return null;
  // An instance that only one judge failed to label has the other judges' scores.
  const counted = all.filter(({ page }) => page && (page.scores.length || !page.error));
  const judged = counted.map(({ page }) => page.scores.map((one) => one.judge));
  const judges = (judged[0] ?? []).filter((judge) => judged.every((names) => names.includes(judge)));
  const judge = judges.includes(query.judge) ? query.judge : judges[0];
  if (judge === undefined) return null;
  const columns = all.map(({ run }, index) => [`${letters(all)[index]} · ${visible(run)}`]);
  const heads = [[t("nugget"), "name"], [t("weight"), "number"], ...columns, [t("difference")]];
  return section("nuggets", t("nuggets"), judgeChoice(query, judges, judge), totals(all, judge),
    table(t("nuggetsCaption"), heads, rows(heads, all, judge), { class: "stack quiet-caption nuggets" }));
}

function judgeChoice(query, judges, judge) {
  if (judges.length < 2) return null;
  const change = (name) => go(href("/compare", { ...query, judge: name }));
  return field(t("judge"), select(judges.map((name) => [name, visible(name)]), judge, change));
}

function rows(heads, all, judge) {
  const known = all.map(({ page }) => new Map((page?.nuggets ?? []).map((nugget) => [nugget.id, nugget])));
  const every = new Map(known.toReversed().flatMap((nuggets) => [...nuggets]));
  // Where points were lost goes by the first judge of each run.
  const verdict = ({ page }, nugget) => [
    coverage(nugget?.coverage[judge]), nugget && page.scores[0]?.judge === judge ? where(page, nugget) : null,
  ];
  return [...every.values()].map((nugget) => {
    const own = known.map((nuggets) => nuggets.get(nugget.id));
    const worths = own.map((one) => worth(one?.coverage[judge]));
    const difference = all.length === 2 ? differenceOfTwo(worths) : differenceOfMany(worths);
    const labels = all.map((one, at) => verdict(one, own[at]));
    const cells = [nuggetText(nugget), weight(nugget.weight), ...labels, difference];
    const differs = new Set(worths.filter((value) => value !== null)).size > 1;
    return tableRow(heads, cells, { class: differs ? "differs" : "" });
  });
}

/** "Score of A − score of B", for each run but the first. */
function totals(all, judge) {
  const scores = all.map(({ page }) => page?.scores.find((one) => one.judge === judge)?.score ?? null);
  return scores.slice(1).map((score, index) => (score === null || scores[0] === null ? null
    : h("p", {}, t("scoreDifference", { run: letters(all)[index + 1] }), " ",
      h("strong", {}, signed(scores[0] - score)))));
}

function differenceOfTwo([inA, inB]) {
  if (inA === null || inB === null) return NONE;
  if (inA === inB) return h("span", { class: "muted" }, "= ", t("same"));
  return h("span", { class: "coverage accent" }, inA > inB ? `▲ ${t("moreInA")}` : `▼ ${t("moreInB")}`);
}

/** Which runs have most of it. */
function differenceOfMany(worths) {
  const known = worths.filter((value) => value !== null);
  if (known.length < 2) return NONE;
  if (new Set(known).size === 1) return h("span", { class: "muted" }, "= ", t("same"));
  const best = letters(worths).filter((_, index) => worths[index] === Math.max(...known));
  return h("span", { class: "coverage accent" }, t("mostIn", { runs: best.join(", ") }));
}
