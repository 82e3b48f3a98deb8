// What the page of one instance and that of two have in common.

import { copyButton } from "./copy.js";
import { h, fill } from "./dom.js";
import { isLong, longText, passage } from "./longtext.js";
import { coverageStrip } from "./nuggets.js";
import { caveatNotes, facts, scoreBar } from "./parts.js";
import { untrusted, visible } from "./untrusted.js";
import { t } from "./words.js";

/** What an instance is called: its underspecified query, or what there is instead. */
export const titleOf = (page) => page.blurred_query || page.fused_query || page.id;

/** q and q*, side by side; one of them where there is only one. */
export function queries(page) {
  return h("div", { class: "pair" },
    query(t("blurred"), page.blurred_query, t("blurredNote")), query(t("fused"), page.fused_query, t("fusedNote")));
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
  return h("div", { class: "card" }, text, origin);
}

/** Each judge's score over the strip of what was covered. */
export function verdicts(page) {
  if (page.scores.length === 0) return null;
  const verdict = (one) => h("div", { class: "verdict" },
    h("span", { class: "verdict-judge" }, t("score"), " · ", untrusted(one.judge)),
    scoreBar(one.score), coverageStrip(page.nuggets, one.judge));
  return [h("div", { class: "verdicts" }, page.scores.map(verdict)), caveatNotes([page.caveat])];
}

/** An instance that failed: where, and why. */
export function failure(error) {
  return h("div", { class: "trouble" }, h("strong", {}, "✕ ", t("failedAt"), " ", untrusted(error.step, "code")),
    facts([[t("kind"), untrusted(error.kind)], [t("message"), passage(error.message, "span")]]));
}
