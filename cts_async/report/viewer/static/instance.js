// One instance, from the blurred query to each nugget.

import { address, get, SERVED } from "./api.js";
import { conversation } from "./conversation.js";
import { fill, h } from "./dom.js";
import { crumbs } from "./header.js";
import { answer, failure, queries, rewritten, titleOf, verdicts } from "./instance_parts.js";
import { beginning } from "./longtext.js";
import { lossSummary } from "./losses.js";
import { nuggetTable } from "./nuggets.js";
import { caveatBadge, empty, field, frame, later, section, select } from "./parts.js";
import { go, href } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { rawSteps } from "./steps.js";
import { traceView } from "./trace.js";
import { listOf, neighbours, wayLinks } from "./walk.js";
import { t } from "./words.js";

/** The instance named in the address; `at` there is the section to go to. */
export function instancePage({ main, heading, query, signal }) {
  const { run = "", id = "" } = query;
  const steps = h("div", { class: "steps-way" });
  const trail = crumbs([[t("runs"), "#/"], [untrusted(run), listOf(run)], [untrusted(beginning(id))]]);
  const head = fill(heading(`${beginning(id)} · ${run}`), untrusted(beginning(id)));
  const page = frame(h("div", { class: "way" }, trail, steps), head);
  const way = { previous: null, next: null };
  const to = (other) => href("/instance", { run, id: other });
  const step = (other) => other !== null && go(to(other));
  fill(main, page.element);
  later(page.body, async () => {
    const found = await get("instance", { run, id }, signal);
    neighbours(run, id, found, signal).then((around) => {
      Object.assign(way, around);
      fill(steps, wayLinks(around, to));
    }, () => {});
    fill(head, untrusted(beginning(titleOf(found))));
    fill(page.marks, caveatBadge(found.caveat));
    requestAnimationFrame(() => toSection(query.at, false));
    return layout(found, signal);
  }, signal);
  return {
    update: (next) => toSection(next.at, true),
    keys: { j: () => step(way.next), k: () => step(way.previous), u: () => go(listOf(run)) },
  };
}
instancePage.identity = (query) => `${query.run} ${query.id}`;

function toSection(id, focus) {
  // An event of the search may not be fetched yet: its section fetches it when it comes into sight.
  const title = id && document.getElementById(`${id}-title`);
  if (!title) return id?.startsWith("event-") ? toSection("search", false) : null;
  title.scrollIntoView({ block: "start" });
  if (focus) title.focus({ preventScroll: true });
}

function layout(page, signal) {
  const sections = sectionsOf(page, signal);
  const to = (id) => href("/instance", { run: page.run, id: page.id, at: id });
  return [
    page.error ? failure(page.error) : null,
    verdicts(page),
    lossSummary(page),
    h("div", { class: "columns" },
      contents(sections, to, compareChoice(page)),
      h("div", { class: "sections" }, sections.map(([id, title, content]) => section(id, title, content)))),
  ];
}

/** [id, title, content] of each section there is. */
function sectionsOf(page, signal) {
  const picks = page.mode === "select";
  const asked = t(picks ? "offeredQueries" : "conversation");
  const searched = t(page.turns.length && !picks ? "rewritten" : "searched");
  return [
    ["queries", t("queries"), queries(page)],
    page.turns.length ? ["questions", asked, conversation(page)] : null,
    page.rewritten_query !== null ? ["rewrite", searched, rewritten(page)] : null,
    page.trace_turns || page.search ? ["search", t("search"), traceView(page, signal)] : null,
    page.answer !== null ? ["answer", t("answer"), answer(page)] : null,
    page.nuggets.length ? ["nuggets", t("nuggets"), nuggetTable(page)] : null,
    SERVED ? ["steps", t("steps"), page.steps === 0 ? empty(t("noSteps")) : [download(page), rawSteps(page, signal)]] : null,
  ].filter((one) => one !== null);
}

function compareChoice(page) {
  if (page.beside.length === 0) return null;
  const options = [["", t("choose")], ...page.beside.map((name) => [name, visible(name)])];
  const compare = (name) => name && go(href("/compare", { a: page.run, b: name, id: page.id }));
  return field(t("compareWith"), select(options, "", compare), "compare-choice");
}

function download(page) {
  const lines = address("download", { run: page.run, id: page.id });
  return h("p", {}, h("a", { class: "button", href: lines, download: true }, t("download")));
}

// --- Contents

/** Links to sections, [[id, words], ...] by `address(id)`; what else belongs there follows. */
function contents(sections, address, ...more) {
  const links = sections.map(([id, words]) => h("li", {}, h("a", { href: address(id) }, words)));
  return h("nav", { class: "contents", "aria-label": t("contents") },
    h("ul", {}, links), more);
}

