// What the agent did, turn by turn, fetched as one scrolls.

import { get } from "./api.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { count } from "./format.js";
import { beginning, longText, passage } from "./longtext.js";
import { link } from "./nuggets.js";
import { facts, reusedBadge, trouble } from "./parts.js";
import { eventAt, href, readRoute, resultAt } from "./route.js";
import { language, t } from "./words.js";

const SYMBOLS = {
  think: "…", invalid: "!",
  repeated: "↻", made_up: "✂", invented: "✎", dropped: "−", cut: "✄", unanswered: "∅", forced: "▸", answer: "✓",
  injected: "⊕", model: "✦", reported: "›", source: "▤",
};
const FOLDED = 600;
const LONG = 12;
const INDEXING_MS = 1000;

/** The search: its figures, and its turns in order. */
export function traceView(page, signal) {
  const list = h("ol", { class: "trace" });
  const end = h("div", { class: "trace-end" });
  const begin = () => more(page, list, end, 0, signal);
  whenSeen(end, begin, signal);
  const long = page.trace_turns > LONG && page.answer !== null;
  return [page.search ? figures(page) : null, long ? pastIt(page) : null, list, end];
}

function pastIt({ run, id }) {
  return h("p", {}, h("a", { href: href("/instance", { run, id, at: "answer" }) }, t("toAnswer")));
}

/** What a tool's file calls an event of this kind; the kind itself without such a tool. */
function labelOf(tools, kind) {
  const label = Object.hasOwn(tools, kind) ? tools[kind] : null;
  return label ? label[language()] ?? label.en : visible(kind);
}

function figures({ search, tools }) {
  const shown = ["model_calls", "searches", "visits"].filter((name) => typeof search[name] === "number");
  const others = Object.entries(search.others ?? {}).filter(([, n]) => typeof n === "number");
  // Named as the events that they count are.
  const refused = [["ask_refused", search.asks_refused], ["early_answer", search.early_answers]].filter(([, n]) => n > 0);
  const forced = search.forced ? [t("forced"), t("yes")] : null;
  return facts([
    ...shown.map((name) => [t(name), count(search[name])]),
    ...[...others, ...refused].map(([tool, n]) => [labelOf(tools, tool), count(n)]),
    forced,
  ]);
}

/** Fetch turns from `after` on, and again whenever the end comes into sight. */
async function more(page, list, end, after, signal) {
  fill(end, h("p", { class: "loading", role: "status" }, t("loading")));
  try {
    const part = await get("trace", { run: page.run, id: page.id, after: after || "" }, signal);
    list.append(...part.turns.map((turn) => turnView(page, turn, signal)));
    const { at } = readRoute(location.hash).query;
    const wanted = eventNumber(at);
    if (part.turns.some((turn) => turn.n === wanted)) showEvent(at, { focus: true });
    fill(end);
    if (part.next === null && part.total === null) {
      fill(end, h("p", { class: "muted", role: "status" }, t("journalIndexing")));
      const reached = part.turns.length ? part.turns.at(-1).n : after;
      setTimeout(() => signal.aborted || more(page, list, end, reached, signal), INDEXING_MS);
      return;
    }
    if (list.childElementCount === 0) fill(end, h("p", { class: "empty" }, t("noTrace")));
    if (part.next === null) return;
    const further = () => more(page, list, end, part.next, signal);
    // The address leads further than this part.
    if (wanted > part.turns.at(-1)?.n) return void further();
    fill(end, h("button", { type: "button", on: { click: further } }, moreWords(list.childElementCount, part.total)));
    whenSeen(end, further, signal);
  } catch (error) {
    if (!signal.aborted) fill(end, trouble(error, () => more(page, list, end, after, signal)));
  }
}

// --- Links to an event and to a result of a search: "event-2", "event-2-result-9" (eventAt, resultAt)

const eventNumber = (at) => Number(/^event-(\d+)/.exec(at ?? "")?.[1] ?? 0);

/** Whether an address leads into the search. */
export const isEvent = (at) => eventNumber(at) > 0;

/** Scroll to an event or a result and mark it, and nothing else; whether it is on the page by now. */
export function showEvent(at, { focus }) {
  document.querySelectorAll(".trace .target").forEach((before) => before.classList.remove("target"));
  const event = document.getElementById(eventAt(eventNumber(at)));
  if (event === null) return false;
  // A search whose recorded results are fewer shows itself.
  const target = document.getElementById(at) ?? event;
  target.classList.add("target");
  target.scrollIntoView({ block: target === event ? "start" : "center" });
  if (focus) target.focus({ preventScroll: true });
  return true;
}

function moreWords(shown, total) {
  return total === null ? t("moreTurns") : `${t("moreTurns")} (${t("of", { n: count(shown), all: count(total) })})`;
}

/** Call `act` once, when the element is in sight or will soon be: not where it lies above. */
function whenSeen(element, act, signal) {
  const watcher = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect();
    if (!signal.aborted && element.isConnected) act();
  }, { rootMargin: "0px 0px 600px 0px" });
  watcher.observe(element);
  signal.addEventListener("abort", () => watcher.disconnect());
}

function turnView(page, turn, signal) {
  const known = Object.hasOwn(SYMBOLS, turn.kind);
  const tool = Object.hasOwn(page.tools, turn.kind) ? page.tools[turn.kind] : null;
  const cut = turn.length > turn.text.length;
  const whole = cut ? { run: page.run, id: page.id, n: turn.n } : null;
  const body = turn.text ? longText(turn.text, { whole, length: turn.length, signal }) : null;
  const found = turn.kind === "search" && turn.sources?.length > 0;
  const lengthy = turn.length > FOLDED && ["think", "page", "model", "reported", "source"].includes(turn.kind);
  return h("li", { class: `step ${known || tool ? turn.kind : "other"}${tool ? " tool" : ""}`, id: eventAt(turn.n), tabindex: "-1" },
    h("div", { class: "step-head" },
      h("span", { class: "symbol", "aria-hidden": "true" }, tool?.symbol ?? (known ? SYMBOLS[turn.kind] : "·")),
      h("h3", {}, known ? t(`turn_${turn.kind}`) : labelOf(page.tools, turn.kind)),
      h("span", { class: "muted small" }, t("stepN", { n: count(turn.n) })),
      turn.failed ? h("span", { class: "badge failed" }, "✕ ", untrusted(turn.failed)) : null,
      reusedBadge(turn.reused)),
    turn.request ? passage(turn.request, "p", { class: "request" }) : null,
    found ? hits(turn) : null,
    found ? h("details", {}, h("summary", {}, t("asRead")), body) : lengthy ? folded(turn, body) : body);
}

/** The results of a search, numbered by rank. */
function hits({ n, sources }) {
  const result = ({ url, title }, index) => {
    const id = resultAt(n, index + 1);
    return h("li", { id, tabindex: "-1" }, title ? untrusted(beginning(title)) : null, h("small", {}, link(url)));
  };
  return h("ol", { class: "hits", "aria-label": t("sources") }, sources.map(result));
}

function folded(turn, body) {
  return h("details", {}, h("summary", {}, untrusted(beginning(turn.text, 160))), body);
}
