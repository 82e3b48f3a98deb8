// Two runs on the same instance: what each asked, searched, answered, and where their nuggets differ.

import { get } from "./api.js";
import { conversation } from "./conversation.js";
import { fill, h } from "./dom.js";
import { signed, weight } from "./format.js";
import { crumbs } from "./header.js";
import { answer, failure, queries, rewritten, verdicts } from "./instance.js";
import { coverage, nuggetText, worth } from "./nuggets.js";
import { empty, field, frame, later, section, select, smokeBadge, table, tableRow } from "./parts.js";
import { remember, remembered } from "./prefs.js";
import { go, href } from "./route.js";
import { said, visible } from "./said.js";
import { traceView } from "./trace.js";
import { neighbours } from "./walk.js";
import { t } from "./words.js";

const SIDES = ["side side-a", "side side-b"];

/** Runs `a` and `b` of the address on its instance; on the first instance of `a` without one. */
export function comparePage({ main, heading, query, signal }) {
  const steps = h("div", { class: "steps-way" });
  const head = fill(heading(`${query.a} ↔ ${query.b}`), said(query.id ?? ""));
  const frameOf = frame(h("div", { class: "way" }, trail(query), steps), head);
  const way = { previous: null, next: null };
  const to = (id) => href("/compare", { ...query, id });
  const step = (id) => id !== null && go(to(id));
  fill(main, frameOf.element);
  later(frameOf.body, async () => {
    if (!query.id) return first(query, signal);
    const [a, b] = await Promise.all([query.a, query.b].map((run) => opened(run, query.id, signal)));
    const known = a.page ?? b.page;
    if (!known) throw a.error;
    neighbours(query.a, query.id, known, signal).then((found) => {
      Object.assign(way, found);
      fill(steps, wayLinks(found, to));
    }, () => {});
    fill(head, said(known.blurred_query || known.id));
    return layout(query, a, b, signal);
  }, signal);
  return { keys: { j: () => step(way.next), k: () => step(way.previous), u: () => go(href("/run", { run: query.a })) } };
}
comparePage.identity = (query) => JSON.stringify(query);

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
  return crumbs([[t("runs"), "#/"], [said(a), href("/run", { run: a })], [said(b), href("/run", { run: b })], [said(id ?? "")]]);
}

function wayLinks({ previous, next }, to) {
  return [[previous, "←", t("previousInstance")], [next, "→", t("nextInstance")]].map(([id, mark, words]) => (id === null
    ? h("span", { class: "button off", "aria-disabled": "true" }, mark)
    : h("a", { class: "button", href: to(id), "aria-label": words }, mark)));
}

function layout(query, a, b, signal) {
  const both = [a, b];
  const known = a.page ?? b.page;
  const side = remembered("side") ?? "both";
  const body = h("div", { class: "sides", "data-side": side });
  const choice = h("fieldset", { class: "side-choice" }, h("legend", { class: "hidden" }, t("sides")), [["both", t("both")], ["a", "A"], ["b", "B"]].map(([value, words]) =>
    h("label", {}, h("input", { type: "radio", name: "side", value, checked: value === side,
      on: { change: () => { remember("side", value); body.dataset.side = value; } } }), words)));
  const row = (id, title, has, make) => (both.some(({ page }) => page && has(page)) ? section(id, title, h("div", { class: "two" }, both.map((one, index) =>
    h("div", { class: SIDES[index] }, sideName(one, index), one.page && has(one.page) ? make(one.page) : h("p", { class: "empty" }, t("nothingHere")))))) : null);
  fill(body,
    row("scores", t("scores"), (page) => page.scores.length || page.error, (page) => [page.error ? failure(page.error) : null, verdicts(page)]),
    row("questions", t("conversation"), (page) => page.turns.length, conversation),
    row("rewrite", t("rewritten"), (page) => page.rewritten_query !== null, rewritten),
    row("search", t("search"), (page) => page.trace_turns || page.search, (page) => h("details", {}, h("summary", {}, t("showSearch")), traceView(page, signal))),
    row("answer", t("answer"), (page) => page.answer !== null, answer),
    nuggetsOf(query, a, b),
  );
  return [
    both.filter(({ error }) => error).map(({ run, error }) => h("p", { class: "notice" }, said(run), ": ", said(error.message))),
    section("queries", t("queries"), queries(known)), choice, body,
  ];
}

function sideName({ run, page }, index) {
  return h("p", { class: "side-name" }, h("span", { class: "badge accent" }, "AB"[index]), " ",
    h("a", { href: href("/instance", { run, id: page?.id }) }, said(run)), " ", smokeBadge(page?.scores.some((one) => one.smoke_test)));
}

function nuggetsOf(query, a, b) {
  if (!a.page?.nuggets.length || !b.page?.nuggets.length) return null;
  const judges = a.page.scores.map((one) => one.judge).filter((judge) => b.page.scores.some((other) => other.judge === judge));
  const judge = judges.includes(query.judge) ? query.judge : judges[0];
  if (judge === undefined) return null;
  const heads = [[t("nugget"), "name"], [t("weight"), "number"], [`A · ${visible(a.run)}`], [`B · ${visible(b.run)}`], [t("difference")]];
  const theirs = new Map(b.page.nuggets.map((nugget) => [nugget.id, nugget]));
  const rows = a.page.nuggets.map((nugget) => {
    const [inA, inB] = [nugget.coverage[judge], theirs.get(nugget.id)?.coverage[judge]];
    const gain = worth(inA) === null || worth(inB) === null ? null : worth(inB) - worth(inA);
    return tableRow(heads, [nuggetText(nugget), weight(nugget.weight), coverage(inA), coverage(inB), difference(gain)], { class: gain ? "differs" : "" });
  });
  return section("nuggets", t("nuggets"),
    judges.length > 1 ? field(t("judge"), select(judges.map((name) => [name, visible(name)]), judge, (name) => go(href("/compare", { ...query, judge: name })))) : null,
    total(a.page, b.page, judge),
    table(t("nuggetsCaption"), heads, rows, { class: "stack quiet-caption nuggets" }));
}

function total(a, b, judge) {
  const [inA, inB] = [a, b].map((page) => page.scores.find((one) => one.judge === judge)?.score ?? null);
  return inA === null || inB === null ? null : h("p", {}, t("scoreDifference"), " ", h("strong", {}, signed(inB - inA)));
}

function difference(gain) {
  if (gain === null) return "–";
  if (gain === 0) return h("span", { class: "muted" }, "= ", t("same"));
  return h("span", { class: gain > 0 ? "coverage full" : "bad" }, gain > 0 ? `▲ ${t("moreInB")}` : `▼ ${t("moreInA")}`);
}
