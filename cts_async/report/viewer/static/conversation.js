// Questions and answers as a conversation; in a conversation by turns each turn with what was thought and offered.

import { h } from "./dom.js";
import { passage } from "./longtext.js";
import { untrusted } from "./untrusted.js";
import { t } from "./words.js";

// However the user put it, a line of results has this for it.
const UNKNOWN = "unknown";

/** All turns, in order. */
export function conversation({ turns, mode }) {
  const byTurns = mode !== "at-once";
  return h("ol", { class: "talk" }, turns.map((turn) => h("li", { class: "turn" },
    byTurns ? h("h3", {}, t("turn", { n: turn.n })) : null,
    turn.types.length || turn.reasoning ? aside(turn) : null,
    mode === "select" ? offered(turn) : exchanged(turn),
    byTurns && turn.query ? after(turn.query) : null)));
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
  if (answer !== UNKNOWN) return bubble("replies", t("user"), answer);
  return h("div", { class: "bubble replies unknown" },
    h("span", { class: "who" }, t("user")), h("p", {}, h("span", { "aria-hidden": "true" }, "∅ "), t("unknown")));
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
