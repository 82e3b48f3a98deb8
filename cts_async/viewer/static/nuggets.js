// What an answer had to hold, and how much of it each judge found there.

import { h, untrusted, visible, webAddress } from "./dom.js";
import { count, NONE, score, weight } from "./format.js";
import { beginning, passage } from "./longtext.js";
import { table, tableRow } from "./parts.js";
import { eventAt, href, resultAt } from "./route.js";
import { t } from "./words.js";

const SYMBOLS = { full: "●", partial: "◐", none: "○" };
const WORTH = { full: 1, partial: 0.5, none: 0 };

/** A label as a symbol and a word; a dash where the judge gave none. */
export function coverage(label) {
  if (!known(label)) return h("span", { class: "muted" }, label ? visible(label) : NONE);
  const symbol = h("span", { "aria-hidden": "true" }, `${SYMBOLS[label]} `);
  return h("span", { class: `coverage ${label}` }, symbol, t(`coverage_${label}`));
}

/** What a label counts, as `score` has it; null for none. */
export const worth = (label) => (known(label) ? WORTH[label] : null);

const known = (label) => Object.hasOwn(SYMBOLS, label ?? "");

/** Every nugget as a piece as wide as its weight, over a legend; what each piece is unfolds below. */
export function coverageStrip(nuggets, judge) {
  const judged = nuggets.filter((nugget) => known(nugget.coverage[judge]));
  if (judged.length === 0) return null;
  const n = (label) => judged.filter((nugget) => nugget.coverage[judge] === label).length;
  const words = t("stripWords", { full: n("full"), partial: n("partial"), none: n("none") });
  const told = (nugget) => [t(`coverage_${nugget.coverage[judge]}`), t("weightOf", { n: weight(nugget.weight) })].join(t("comma"));
  const piece = (nugget) => h("span", {
    class: nugget.coverage[judge], vars: { "--weight": nugget.weight }, title: `${visible(nugget.id)}: ${told(nugget)}`,
  });
  const key = (label) => h("span", { class: "key" }, swatch(label), `${t(`coverage_${label}`)} ${count(n(label))}`);
  return h("details", { class: "strip-way" },
    h("summary", {}, h("span", { class: "strip", role: "img", "aria-label": words }, judged.map(piece)),
      h("span", { class: "legend", "aria-hidden": "true" }, Object.keys(SYMBOLS).map(key))),
    h("p", { class: "muted" }, t("stripNote")),
    h("ul", {}, judged.map((nugget) => h("li", {}, swatch(nugget.coverage[judge]),
      h("span", {}, untrusted(beginning(nugget.id, 60), "code"), " ", told(nugget))))));
}

const swatch = (label) => h("span", { class: "strip swatch", "aria-hidden": "true" }, h("span", { class: label }));

/** The nuggets, with a column for each judge, and one for where points were lost if that is known. */
export function nuggetTable(page) {
  const { nuggets, scores } = page;
  const scored = scores.map((one) => one.judge);
  const judges = [...new Set([...scored, ...nuggets.flatMap((nugget) => Object.keys(nugget.coverage))])];
  const ways = hasLosses(page) ? [[t("where")]] : [];
  const heads = [[t("nugget"), "name"], [t("weight"), "number"], ...judges.map((judge) => [visible(judge)]), ...ways];
  return table(t("nuggetsCaption"), heads, nuggets.map((nugget) => tableRow(heads, [
    nuggetText(nugget), weight(nugget.weight), ...judges.map((judge) => coverage(nugget.coverage[judge])),
    ...ways.map(() => where(page, nugget)),
  ])), { class: "stack quiet-caption nuggets" });
}

/** A nugget's name, its text, and the sources that support it. */
export function nuggetText(nugget) {
  return h("div", { class: "nugget" }, untrusted(beginning(nugget.id), "code"),
    nugget.text === null ? h("p", { class: "muted" }, t("noNuggetText")) : passage(nugget.text),
    nugget.sources.length ? h("div", { class: "sources" }, h("span", { class: "muted" }, t("sources")),
      h("ul", { "aria-label": t("sources") }, nugget.sources.map((source) => h("li", {}, link(source))))) : null);
}

/** A source: an address of the web as a link without a referrer, anything else as text. */
export function link(source) {
  const address = webAddress(source);
  if (address === null) return untrusted(beginning(source));
  return untrusted(beginning(source), "a", { href: address, rel: "noreferrer noopener", target: "_blank" });
}

// --- Where points were lost

const STAGES = ["not_asked", "not_found", "found", "read", "unknown"];
const TITLE = 80;

/** Whether anything is known of the way of a nugget. */
const hasLosses = ({ nuggets }) => nuggets.some((nugget) => nugget.loss);

/** "27.0 points lost: 15.0 never found, 12.0 read, not said", and how that is known. */
export function lossSummary(page) {
  if (!hasLosses(page)) return null;
  const lost = (stage) => page.nuggets.reduce((sum, { loss }) => sum + (loss?.stage === stage ? loss.points : 0), 0);
  const parts = STAGES.map((stage) => [stage, lost(stage)]).filter(([, points]) => points > 0);
  if (parts.length === 0) return null;
  const points = score(parts.reduce((sum, [, part]) => sum + part, 0));
  // The constraints of the intent that the searched query lacks, in the words of the intent.
  const unasked = (page.unasked ?? []).map((words) => beginning(visible(words), TITLE)).join(t("listComma"));
  const named = (stage) => (stage === "not_asked" && unasked ? t("lossUnasked", { words: unasked }) : t(`loss_${stage}`));
  const words = parts.map(([stage, part]) => t("lossPart", { points: score(part), stage: named(stage) }));
  return h("div", { class: "losses" },
    h("p", {}, h("strong", {}, t("lossTotal", { points })), " ", words.join(t("lossComma"))),
    h("p", { class: "muted small" }, t("lossNote", { judge: visible(page.scores[0]?.judge ?? "") })));
}

/** How far a nugget came, and the result or page that shows it. */
export function where({ run, id }, { loss }) {
  if (!loss) return null;
  const { document } = loss;
  const at = document?.kind === "snippet" ? resultAt(document.event, document.rank) : eventAt(document?.event);
  return h("div", { class: "where" },
    h("span", {}, t(`loss_${loss.stage}`), loss.points > 0 ? ` (−${score(loss.points)})` : null),
    document ? h("a", { href: href("/instance", { run, id, at }) }, place(document)) : null,
    document?.title ? untrusted(beginning(document.title, TITLE), "small", { class: "muted" }) : null);
}

function place({ kind, event, rank }) {
  return t(kind === "snippet" ? "lossResult" : "lossPage", { n: count(event), rank: count(rank) });
}
