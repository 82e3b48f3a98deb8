// One instance, from the blurred query to each nugget.

import { address, get } from "./api.js";
import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { crumbs } from "./header.js";
import { contents } from "./contents.js";
import { conversation } from "./conversation.js";
import { longText } from "./longtext.js";
import { coverageStrip, nuggetTable } from "./nuggets.js";
import { empty, facts, field, frame, later, scoreBar, section, select, smokeBadge } from "./parts.js";
import { go, href } from "./route.js";
import { said, visible } from "./said.js";
import { rawSteps } from "./steps.js";
import { traceView } from "./trace.js";
import { neighbours } from "./walk.js";
import { t } from "./words.js";

/** The instance named in the address; `at` there is the section to go to. */
export function instancePage({ main, heading, query, signal }) {
  const { run = "", id = "" } = query;
  const steps = h("div", { class: "steps-way" });
  const trail = crumbs([[t("runs"), "#/"], [said(run), href("/run", { run })], [said(id)]]);
  const head = fill(heading(`${id} · ${run}`), said(id));
  const frameOf = frame(h("div", { class: "way" }, trail, steps), head);
  const way = { previous: null, next: null };
  const step = (to) => to !== null && go(href("/instance", { run, id: to }));
  fill(main, frameOf.element);
  later(frameOf.body, async () => {
    const page = await get("instance", { run, id }, signal);
    neighbours(run, id, page, signal).then((found) => {
      Object.assign(way, found);
      fill(steps, wayLinks(run, found));
    }, () => {});
    fill(head, said(page.blurred_query || id));
    fill(frameOf.marks, smokeBadge(page.scores.some((one) => one.smoke_test)));
    requestAnimationFrame(() => toSection(query.at, false));
    return layout(page, signal);
  }, signal);
  return {
    update: (next) => toSection(next.at, true),
    keys: { j: () => step(way.next), k: () => step(way.previous), u: () => go(href("/run", { run })) },
  };
}
instancePage.identity = (query) => `${query.run} ${query.id}`;

function toSection(id, focus) {
  const title = id && document.getElementById(`${id}-title`);
  if (!title) return;
  title.scrollIntoView({ block: "start" });
  if (focus) title.focus({ preventScroll: true });
}

function wayLinks(run, { previous, next, at, filtered }) {
  const link = (id, words, mark, rel) => id === null
    ? h("span", { class: "button off", "aria-disabled": "true" }, mark)
    : h("a", { class: "button", rel, href: href("/instance", { run, id }), title: visible(id), "aria-label": words }, mark);
  return [at === null ? null : h("span", { class: "muted small" }, t(filtered ? "nthFiltered" : "nth", { n: count(at) })),
    link(previous, t("previousInstance"), "←", "prev"), link(next, t("nextInstance"), "→", "next")];
}

function layout(page, signal) {
  const sections = sectionsOf(page, signal);
  return [
    page.error ? failure(page.error) : null,
    verdicts(page),
    h("div", { class: "columns" },
      contents(sections, (id) => href("/instance", { run: page.run, id: page.id, at: id }), signal, compareChoice(page)),
      h("div", { class: "sections" }, sections.map(([id, title, content]) => section(id, title, content)))),
  ];
}

function sectionsOf(page, signal) {
  const searched = page.trace_turns || page.search;
  return [
    ["queries", t("queries"), queries(page)],
    page.turns.length ? ["questions", t(page.mode === "select" ? "offeredQueries" : "conversation"), conversation(page)] : null,
    page.rewritten_query !== null ? ["rewrite", t("rewritten"), rewritten(page)] : null,
    searched ? ["search", t("search"), traceView(page, signal)] : null,
    page.answer !== null ? ["answer", t("answer"), answer(page)] : null,
    page.nuggets.length ? ["nuggets", t("nuggets"), nuggetTable(page)] : null,
    ["steps", t("steps"), page.steps === 0 ? empty(t("noSteps")) : [download(page), rawSteps(page, signal)]],
  ].filter((one) => one !== null);
}

/** q and q*, side by side. */
export function queries(page) {
  const card = (title, note, text) => h("div", { class: "card" }, h("h3", {}, title), said(text, "p", { class: "query" }), h("p", { class: "muted small" }, note));
  return h("div", { class: "pair" }, card(t("blurred"), t("blurredNote"), page.blurred_query), card(t("fused"), t("fusedNote"), page.fused_query));
}

/** The query that was searched, the words that q does not have marked. */
export function rewritten(page) {
  const parts = page.rewritten.length
    ? page.rewritten.map((part) => (part.added ? h("mark", {}, visible(part.text)) : visible(part.text)))
    : [visible(page.rewritten_query)];
  const line = fill(said(page.rewritten_query, "p", { class: "query" }), parts);
  return h("div", { class: "card" }, line, page.rewritten.some((part) => part.added) ? h("p", { class: "muted small" }, h("mark", {}, t("added")), " ", t("addedNote")) : null);
}

/** The answer, and where in the agent's words it stood. */
export function answer(page) {
  return h("div", { class: "card" }, longText(page.answer, {}),
    page.answer_from ? h("p", { class: "muted small" }, t(`from_${page.answer_from}`)) : null);
}

/** Each judge's score over the strip of what was covered. */
export function verdicts(page) {
  if (page.scores.length === 0) return null;
  return h("div", { class: "verdicts" }, page.scores.map((one) => h("div", { class: "verdict" },
    h("span", { class: "verdict-judge" }, said(one.judge)), scoreBar(one.score), coverageStrip(page.nuggets, one.judge))));
}

/** An instance that failed: where, and why. */
export function failure(error) {
  return h("div", { class: "trouble" }, h("strong", {}, "✕ ", t("failedAt"), " ", said(error.step, "code")),
    facts([[t("kind"), said(error.kind)], [t("message"), said(error.message)]]));
}

function compareChoice(page) {
  if (page.beside.length === 0) return null;
  return field(t("compareWith"), select([["", t("choose")], ...page.beside.map((name) => [name, visible(name)])], "",
    (name) => name && go(href("/compare", { a: page.run, b: name, id: page.id }))), "compare-choice");
}

function download(page) {
  return h("p", {}, h("a", { class: "button", href: address("download", { run: page.run, id: page.id }), download: true }, t("download")));
}
