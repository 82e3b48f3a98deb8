// What an answer had to hold, and how much of it each judge found there.

import { h, webAddress } from "./dom.js";
import { count, NONE, weight } from "./format.js";
import { hasLosses, where } from "./losses.js";
import { beginning, passage } from "./longtext.js";
import { table, tableRow } from "./parts.js";
import { untrusted, visible } from "./untrusted.js";
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
