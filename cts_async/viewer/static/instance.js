// One instance, from the blurred query to each nugget.

import { address, get, SERVED } from "./api.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { count, dollars, duration, NONE, size } from "./format.js";
import { crumbs } from "./header.js";
import { answer, conversation, couldAsk, failure, further, queries, rewritten, titleOf, verdicts } from "./instance_parts.js";
import { beginning, pieces } from "./longtext.js";
import { lossSummary, nuggetTable } from "./nuggets.js";
import {
  caveatBadge, copyButton, empty, field, frame, later, reusedBadge, section, select, table, tableRow, trouble,
} from "./parts.js";
import { go, href } from "./route.js";
import { isEvent, showEvent, traceView } from "./trace.js";
import { olderNotice, versionButton } from "./versions.js";
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
    fill(page.marks, caveatBadge(found.caveat), versionButton(run, found.versions, inVersion(id)));
    requestAnimationFrame(() => toSection(query.at, false));
    return layout(found, signal);
  }, signal);
  return {
    update: (next) => toSection(next.at, true),
    keys: { j: () => step(way.next), k: () => step(way.previous), u: () => go(listOf(run)) },
  };
}
const inVersion = (id) => ({ name }) => href("/instance", { run: name, id });
instancePage.identity = (query) => `${query.run} ${query.id}`;

function toSection(id, focus) {
  // An event of the search may not be fetched yet: its section fetches it when it comes into sight.
  if (isEvent(id)) return void (showEvent(id, { focus }) || toSection("search", false));
  const title = id && document.getElementById(`${id}-title`);
  if (!title) return;
  title.scrollIntoView({ block: "start" });
  if (focus) title.focus({ preventScroll: true });
}

function layout(page, signal) {
  const sections = sectionsOf(page, signal);
  const to = (id) => href("/instance", { run: page.run, id: page.id, at: id });
  const shown = page.versions.find(({ name }) => name === page.run) ?? {};
  return [
    olderNotice(shown, page.versions, inVersion(page.id)),
    page.error ? failure(page.error) : null,
    page.judge_errors.map(failure),
    verdicts(page),
    lossSummary(page), spending(page.spending),
    h("div", { class: "columns" },
      contents(sections, to, compareChoice(page)),
      h("div", { class: "sections" }, sections.map(([id, title, content]) => section(id, title, content)))),
  ];
}

/** [id, title, content] of each section there is. */
function sectionsOf(page, signal) {
  const picks = page.mode === "select";
  const asked = t(picks ? "offeredQueries" : "conversation");
  const isRewritten = page.turns.length && !picks && page.injected_turn === undefined;
  const searched = t(isRewritten ? "rewritten" : "searched");
  return [
    ["queries", t("queries"), queries(page)],
    couldAsk(page) ? ["questions", asked, conversation(page)] : null,
    page.further.length ? ["further", t("further"), further(page)] : null,
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

/** What the instance's model calls took in this run, and in the runs that its steps were reused from. */
function spending(took) {
  if (!took?.reused) return null;
  const amounts = ({ seconds, cost }) => ({ time: duration(seconds), cost: cost === null ? t("unknownCost") : dollars(cost) });
  const { steps, runs, ...there } = took.reused;
  return h("p", { class: "muted small" }, t("tookHere", amounts(took)), " ",
    t("tookThere", { n: count(steps), ...amounts(there) }), " ", untrusted(runs.join(", ")), ".");
}

// --- Contents

/** Links to sections, [[id, words], ...] by `address(id)`; what else belongs there follows. */
function contents(sections, address, ...more) {
  const links = sections.map(([id, words]) => h("li", {}, h("a", { href: address(id) }, words)));
  return h("nav", { class: "contents", "aria-label": t("contents") },
    h("ul", {}, links), more);
}

// --- Raw steps

const INDEXING_MS = 1000;

/** The steps, fetched when they are unfolded. */
function rawSteps(page, signal) {
  const place = h("div", {});
  let begun = false;
  const unfold = () => {
    if (begun) return;
    begun = true;
    later(place, () => steps(page, signal), signal);
  };
  const title = page.steps === null ? t("showSteps") : t("showNSteps", { n: count(page.steps) });
  const toggle = (event) => event.target.open && unfold();
  return h("details", { class: "raw", on: { toggle } }, h("summary", {}, title), place);
}

async function steps(page, signal) {
  const heads = [
    [t("step"), "name"], [t("model")], [t("tokens"), "number"], [t("time"), "number"], [t("attempts"), "number"],
    [t("bytes"), "number"], [t("record")],
  ];
  const view = table(t("stepsCaption"), heads, [], { class: "stack quiet-caption" });
  const body = view.querySelector("tbody");
  const end = h("div", {});
  const record = h("div", { class: "record", "aria-live": "polite" });
  const more = async (after) => {
    const part = await known(page, after, signal);
    body.append(...part.steps.map((step) => tableRow(heads, cells(step, () => show(page, step, record, signal)))));
    const further = () => more(part.next).catch((error) => signal.aborted || fill(end, trouble(error, further)));
    fill(end, part.next === null ? null : h("button", { type: "button", on: { click: further } }, t("moreSteps")));
  };
  await more("");
  return body.childElementCount ? [view, end, record] : empty(t("noSteps"));
}

/** The steps after one, once the journal is indexed so far that they are known. */
async function known(page, after, signal) {
  for (;;) {
    const part = await get("steps", { run: page.run, id: page.id, after }, signal);
    if (part.total !== null || part.steps.length || signal.aborted) return part;
    await new Promise((resolve) => setTimeout(resolve, INDEXING_MS));
  }
}

function cells(step, open) {
  const failed = h("span", { class: "badge failed" }, "✕ ", step.error ? untrusted(step.error) : t("failed"));
  const [input, output] = [step.input_tokens, step.output_tokens].map((tokens) => size(tokens, ""));
  const which = h("span", { class: "hidden" }, ` ${visible(step.step)}`);
  return [
    [untrusted(step.step, "code"), step.ok ? null : [" ", failed], reusedBadge(step.reused)],
    untrusted(step.model || NONE),
    step.input_tokens || step.output_tokens ? t("inOut", { input, output }) : NONE,
    duration(step.latency_s), count(step.attempts), size(step.bytes),
    h("button", { type: "button", class: "plain", on: { click: open } }, t("show"), which),
  ];
}

async function show(page, step, place, signal) {
  const title = h("h3", { tabindex: "-1" }, untrusted(step.step, "code"));
  let json = "";
  const copy = copyButton(t("record"), () => json);
  copy.hidden = true;
  const body = h("div", { class: "json", tabindex: "0", role: "region", "aria-label": t("record") });
  fill(place, h("div", { class: "card-head" }, title, copy), body);
  title.focus();
  await later(body, async () => {
    json = JSON.stringify(await get("step", { run: page.run, at: step.at }, signal), null, 2);
    copy.hidden = false;
    return pieces(json);
  }, signal);
}
