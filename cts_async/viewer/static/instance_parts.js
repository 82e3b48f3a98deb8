// What the page of one instance and that of two have in common.

import { fill, h, untrusted, visible } from "./dom.js";
import { isLong, longText, passage } from "./longtext.js";
import { coverageStrip } from "./nuggets.js";
import { caveatNotes, contradictionNotes, copyButton, facts, restrictionNotes, scoreBar } from "./parts.js";
import { eventAt, href } from "./route.js";
import { t } from "./words.js";

/** What an instance is called: its underspecified query, or what there is instead. */
export const titleOf = (page) => page.blurred_query || page.fused_query || page.id;

/** q and q*, side by side; one of them where there is only one. */
export function queries(page) {
  return [restrictionNotes([page.restriction]), h("div", { class: "pair" },
    query(t("blurred"), page.blurred_query, t("blurredNote")), query(t("fused"), page.fused_query, t("fusedNote")))];
}

function query(title, text, note) {
  if (!text) return null;
  return h("div", { class: "card" },
    h("div", { class: "card-head" }, h("h3", {}, title), copyButton(title, text)), passage(text, "p", { class: "query" }), h("p", { class: "muted small" }, note));
}

/** The query that was searched, the words that q does not have marked, unless it is no query any more. */
export function rewritten(page) {
  const copied = (text) => h("div", { class: "card-head" }, text, copyButton(t("rewritten"), page.rewritten_query));
  if (isLong(page.rewritten_query)) return h("div", { class: "card" }, copied(longText(page.rewritten_query, {})));
  const parts = page.rewritten.length ? page.rewritten : [{ text: page.rewritten_query, added: false }];
  const line = fill(untrusted(page.rewritten_query, "p", { class: "query" }),
    parts.map((part) => (part.added ? h("mark", {}, visible(part.text)) : visible(part.text))));
  const note = h("p", { class: "muted small" }, h("mark", {}, t("added")), " ", t("addedNote"));
  return h("div", { class: "card" }, copied(line), parts.some((part) => part.added) ? note : null);
}

/** The answer, and where in the agent's words it stood. */
export function answer(page) {
  const origin = page.answer_from ? h("p", { class: "muted small" }, visible(t(`from_${page.answer_from}`))) : null;
  const text = h("div", { class: "card-head" }, longText(page.answer, {}), copyButton(t("answer"), page.answer));
  return h("div", { class: "card" }, text, origin, stated(page));
}

/** How sure the agent said it was; nothing where it was not asked. */
function stated(page) {
  if (page.confidence === undefined || !page.answer) return null;
  const words = page.confidence === null ? t("sureUnsaid") : t("sure", { percent: page.confidence });
  return h("p", { class: "muted small" }, visible(words));
}

/** Each judge's score over the strip of what was covered. */
export function verdicts(page) {
  if (page.scores.length === 0) return null;
  const verdict = (one) => h("div", { class: "verdict" },
    h("span", { class: "verdict-judge" }, t("score"), " · ", untrusted(one.judge)),
    scoreBar(one.score), coverageStrip(page.nuggets, one.judge));
  return [h("div", { class: "verdicts" }, page.scores.map(verdict)), caveatNotes([page.caveat]),
    contradictionNotes(page.contradictions)];
}

/** An instance that failed: where, and why. */
export function failure(error) {
  return h("div", { class: "trouble" }, h("strong", {}, "✕ ", t("failedAt"), " ", untrusted(error.step, "code")),
    facts([[t("kind"), untrusted(error.kind)], [t("message"), passage(error.message, "span")]]));
}

// --- Questions and answers

// However the user put it, a line of results has these words for it.
const UNKNOWN = { unknown: "unknown", "i don't know": "dontKnow" };

/** Whether the user was asked, or could have been: `asks` are questions of an agent that may ask in its search. */
export const couldAsk = ({ turns, asks }) => turns.length > 0 || asks !== undefined;

/** What was asked before the search and during it; of an agent that may not ask the former alone. */
export function conversation(page) {
  const before = page.turns.length ? turnsBefore(page) : null;
  if (page.asks === undefined) return [before, givenLater(page)];
  const during = page.asks.length ? turnsDuring(page) : h("p", { class: "muted" }, t("nothingAsked"));
  return [
    before ? [h("h3", { class: "when" }, t("beforeSearch")), before] : null,
    h("h3", { class: "when" }, t("duringSearch")), during,
  ];
}

/** When the agent was given these answers, where they were not rewritten into its query. */
function givenLater({ injected_turn }) {
  if (injected_turn === undefined) return null;
  const words = injected_turn ? t("givenBefore", { n: injected_turn }) : t("givenNever");
  return h("p", { class: "muted" }, words);
}

/** The questions of the agent with the replies, by turn; the turn leads to its place in the search. */
function turnsDuring({ run, id, asks, agent_turns }) {
  const byTurn = new Map();
  for (const ask of asks) byTurn.set(ask.turn, [...(byTurn.get(ask.turn) ?? []), ask]);
  const place = (turn, event) => {
    const words = agent_turns ? t("turnOf", { n: turn, all: agent_turns }) : t("turn", { n: turn });
    return event === null ? words : h("a", { href: href("/instance", { run, id, at: eventAt(event) }) }, words);
  };
  return h("ol", { class: "talk" }, [...byTurn].map(([turn, asked]) => h("li", { class: "turn" },
    h("h4", {}, place(turn, asked[0].event)),
    asked.map((ask) => [bubble("asks", t("agent"), ask.question), reply(ask.reply)]))));
}

function turnsBefore({ turns, mode }) {
  const byTurns = mode !== "at-once";
  return h("ol", { class: "talk" }, turns.map((turn) => h("li", { class: "turn" },
    byTurns ? h("h3", {}, t("turn", { n: turn.n })) : null,
    turn.types.length || turn.reasoning ? aside(turn) : null,
    mode === "select" ? offered(turn) : exchanged(turn),
    byTurns && turn.query ? after(turn.query) : null)));
}

/** What replies had beyond their forms, by step and under its own name. */
export function further(page) {
  return facts(page.further.map((field) =>
    [[untrusted(field.step, "code"), " ", untrusted(field.name)], longText(field.text, {})]));
}

function after(query) {
  return h("div", { class: "turn-query" }, h("span", { class: "muted" }, t("turnQuery")), " ", passage(query, "span"));
}

function aside(turn) {
  return h("div", { class: "aside" },
    turn.types.map((type) => untrusted(type, "span", { class: "badge quiet" })),
    turn.reasoning ? h("details", {}, h("summary", {}, t("reasoning")), passage(turn.reasoning)) : null);
}

function exchanged(turn) {
  const pairs = Math.max(turn.offered.length, turn.answers.length);
  return Array.from({ length: pairs }, (_, index) => [
    turn.offered[index] === undefined ? null : bubble("asks", t("clarifier"), turn.offered[index]),
    turn.answers[index] === undefined ? null : reply(turn.answers[index]),
  ]);
}

function reply(answer) {
  if (!Object.hasOwn(UNKNOWN, answer)) return bubble("replies", t("user"), answer);
  return h("div", { class: "bubble replies unknown" },
    h("span", { class: "who" }, t("user")), h("p", {}, h("span", { "aria-hidden": "true" }, "∅ "), t(UNKNOWN[answer])));
}

function bubble(side, who, text) {
  return h("div", { class: `bubble ${side}` }, h("span", { class: "who" }, who), passage(text));
}

function offered(turn) {
  return h("ul", { class: "offered" }, turn.offered.map((query, index) => {
    const chosen = index === turn.chosen;
    return h("li", { class: chosen ? "chosen" : "" },
      h("span", { class: "mark", "aria-hidden": "true" }, chosen ? "●" : "○"), passage(query, "span"),
      chosen ? h("span", { class: "badge accent" }, t("chosen")) : null);
  }));
}
