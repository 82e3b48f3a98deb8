// Two runs on the same instance: what each asked, searched, answered, and where their nuggets differ.

import { get } from "./api.js";
import { conversation } from "./conversation.js";
import { fill, h } from "./dom.js";
import { NONE, signed, weight } from "./format.js";
import { crumbs } from "./header.js";
import { answer, failure, queries, rewritten, titleOf, verdicts } from "./instance_parts.js";
import { beginning } from "./longtext.js";
import { coverage, nuggetText, worth } from "./nuggets.js";
import { empty, field, frame, later, section, select, smokeBadge, table, tableRow } from "./parts.js";
import { remember, remembered } from "./prefs.js";
import { go, href } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { traceView } from "./trace.js";
import { neighbours, wayLinks } from "./walk.js";
import { t } from "./words.js";

const SIDES = ["side side-a", "side side-b"];

/** Runs `a` and `b` of the address on its instance; on the first instance of `a` without one. */
export function comparePage({ main, heading, query: asked, signal }) {
  const query = { a: "", b: "", ...asked };
  const steps = h("div", { class: "steps-way" });
  const head = fill(heading(`${query.a} ↔ ${query.b}`), untrusted(beginning(query.id ?? "")));
  const page = frame(h("div", { class: "way" }, trail(query), steps), head);
  const way = { previous: null, next: null };
  const to = (id) => href("/compare", { ...query, id });
  const step = (id) => id !== null && go(to(id));
  fill(main, page.element);
  later(page.body, async () => {
    if (!query.id) return first(query, signal);
    const [a, b] = await Promise.all([query.a, query.b].map((run) => opened(run, query.id, signal)));
    const known = a.page ?? b.page;
    if (!known) throw a.error;
    neighbours(query.a, query.id, known, signal).then((found) => {
      Object.assign(way, found);
      fill(steps, wayLinks(found, to));
    }, () => {});
    fill(head, untrusted(beginning(titleOf(known))));
    return layout(query, [a, b], signal);
  }, signal);
  const up = () => go(href("/run", { run: query.a }));
  return { keys: { j: () => step(way.next), k: () => step(way.previous), u: up } };
}
comparePage.identity = (query) => JSON.stringify(query);

/** What a run has of the instance: {run, page, error}, one of the latter null. */
async function opened(run, id, signal) {
  try {
    return { run, page: await get("instance", { run, id }, signal), error: null };
  } catch (error) {
    if (!error.status) throw error;
    return { run, page: null, error };
  }
}

async function first(query, signal) {
  const { rows } = await get("instances", { run: query.a, limit: 1 }, signal);
  if (rows.length === 0) return empty(t("noInstances"));
  go(href("/compare", { ...query, id: rows[0].id }), { replace: true });
  return null;
}

function trail({ a, b, id }) {
  const to = (run) => [untrusted(run), href("/run", { run })];
  return crumbs([[t("runs"), "#/"], to(a), to(b), [untrusted(beginning(id ?? ""))]]);
}

function layout(query, both, signal) {
  const known = both[0].page ?? both[1].page;
  const side = remembered("side") ?? "both";
  const body = h("div", { class: "sides", "data-side": side });
  const choose = (value) => {
    remember("side", value);
    body.dataset.side = value;
  };
  const searched = (page) => page.trace_turns || page.search;
  const search = (page) => h("details", {}, h("summary", {}, t("showSearch")), traceView(page, signal));
  fill(body,
    row(both, "scores", "scores", (page) => page.scores.length || page.error, outcome),
    row(both, "questions", "conversation", (page) => page.turns.length, conversation),
    row(both, "rewrite", "searched", (page) => page.rewritten_query !== null, rewritten),
    row(both, "search", "search", searched, search),
    row(both, "answer", "answer", (page) => page.answer !== null, answer),
    nuggetsBeside(query, both));
  return [
    both.filter(({ error }) => error).map(missing),
    section("queries", t("queries"), queries(known)), sideChoice(side, choose), body,
  ];
}

const missing = ({ run, error }) => h("p", { class: "notice" }, untrusted(run), ": ", untrusted(error.message));

const outcome = (page) => [page.error ? failure(page.error) : null, verdicts(page)];

/** A section of both runs beside each other; nothing where neither has it. */
function row(both, id, name, has, make) {
  if (!both.some(({ page }) => page && has(page))) return null;
  const sides = both.map((one, index) => h("div", { class: SIDES[index] }, sideName(one, index),
    one.page && has(one.page) ? make(one.page) : h("p", { class: "empty" }, t("nothingHere"))));
  return section(id, t(name), h("div", { class: "two" }, sides));
}

function sideName({ run, page }, index) {
  const smoke = page?.scores.some((one) => one.smoke_test);
  return h("p", { class: "side-name" }, h("span", { class: "badge accent" }, "AB"[index]), " ",
    h("a", { href: href("/instance", { run, id: page?.id }) }, untrusted(run)), " ", smokeBadge(smoke));
}

/** Which of the two a narrow screen shows. */
function sideChoice(side, choose) {
  const options = [["both", t("both")], ["a", "A"], ["b", "B"]];
  return h("fieldset", { class: "side-choice" }, h("legend", { class: "hidden" }, t("sides")),
    options.map(([value, words]) => {
      const on = { change: () => choose(value) };
      return h("label", {}, h("input", { type: "radio", name: "side", value, checked: value === side, on }), words);
    }));
}

// --- The nuggets of two runs in one table

/** By a judge of both, or of one run where the other failed; nothing where there is none. */
function nuggetsBeside(query, [a, b]) {
  if (!a.page?.nuggets.length || !b.page?.nuggets.length) return null;
  const [ours, theirs] = [a, b].map(({ page }) => page.scores.map((one) => one.judge));
  const judges = a.page.error ? theirs : b.page.error ? ours : ours.filter((judge) => theirs.includes(judge));
  const judge = judges.includes(query.judge) ? query.judge : judges[0];
  if (judge === undefined) return null;
  const heads = [
    [t("nugget"), "name"], [t("weight"), "number"],
    [`A · ${visible(a.run)}`], [`B · ${visible(b.run)}`], [t("difference")],
  ];
  return section("nuggets", t("nuggets"), judgeChoice(query, judges, judge), total(a.page, b.page, judge),
    table(t("nuggetsCaption"), heads, rows(heads, a.page, b.page, judge), { class: "stack quiet-caption nuggets" }));
}

function judgeChoice(query, judges, judge) {
  if (judges.length < 2) return null;
  const change = (name) => go(href("/compare", { ...query, judge: name }));
  return field(t("judge"), select(judges.map((name) => [name, visible(name)]), judge, change));
}

function rows(heads, a, b, judge) {
  const inB = new Map(b.nuggets.map((nugget) => [nugget.id, nugget.coverage[judge]]));
  return a.nuggets.map((nugget) => {
    const [left, right] = [nugget.coverage[judge], inB.get(nugget.id)];
    const gain = worth(left) === null || worth(right) === null ? null : worth(right) - worth(left);
    const cells = [nuggetText(nugget), weight(nugget.weight), coverage(left), coverage(right), difference(gain)];
    return tableRow(heads, cells, { class: gain ? "differs" : "" });
  });
}

function total(a, b, judge) {
  const [inA, inB] = [a, b].map((page) => page.scores.find((one) => one.judge === judge)?.score ?? null);
  if (inA === null || inB === null) return null;
  return h("p", {}, t("scoreDifference"), " ", h("strong", {}, signed(inB - inA)));
}

function difference(gain) {
  if (gain === null) return NONE;
  if (gain === 0) return h("span", { class: "muted" }, "= ", t("same"));
  return h("span", { class: "coverage accent" }, gain > 0 ? `▲ ${t("moreInB")}` : `▼ ${t("moreInA")}`);
}
