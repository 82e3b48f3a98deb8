// The nuggets of two runs in one table, with what differs.

import { h } from "./dom.js";
import { NONE, signed, weight } from "./format.js";
import { coverage, nuggetText, worth } from "./nuggets.js";
import { field, section, select, table, tableRow } from "./parts.js";
import { go, href } from "./route.js";
import { visible } from "./said.js";
import { t } from "./words.js";

/** By a judge of both, or of one run where the other failed; nothing where there is none. */
export function nuggetsBeside(query, [a, b]) {
  if (!a.page?.nuggets.length || !b.page?.nuggets.length) return null;
  const [ours, theirs] = [a, b].map(({ page }) => page.scores.map((one) => one.judge));
  const judges = a.page.error ? theirs : b.page.error ? ours : ours.filter((judge) => theirs.includes(judge));
  const judge = judges.includes(query.judge) ? query.judge : judges[0];
  if (judge === undefined) return null;
  const heads = [
    [t("nugget"), "name"], [t("weight"), "number"],
    [`A · ${visible(a.run)}`], [`B · ${visible(b.run)}`], [t("difference")],
  ];
  return section("nuggets", t("nuggets"), judgeChoice(query, judges, judge), total(a.page, b.page, judge),
    table(t("nuggetsCaption"), heads, rows(heads, a.page, b.page, judge), { class: "stack quiet-caption nuggets" }));
}

function judgeChoice(query, judges, judge) {
  if (judges.length < 2) return null;
  const change = (name) => go(href("/compare", { ...query, judge: name }));
  return field(t("judge"), select(judges.map((name) => [name, visible(name)]), judge, change));
}

function rows(heads, a, b, judge) {
  const inB = new Map(b.nuggets.map((nugget) => [nugget.id, nugget.coverage[judge]]));
  return a.nuggets.map((nugget) => {
    const [left, right] = [nugget.coverage[judge], inB.get(nugget.id)];
    const gain = worth(left) === null || worth(right) === null ? null : worth(right) - worth(left);
    const cells = [nuggetText(nugget), weight(nugget.weight), coverage(left), coverage(right), difference(gain)];
    return tableRow(heads, cells, { class: gain ? "differs" : "" });
  });
}

function total(a, b, judge) {
  const [inA, inB] = [a, b].map((page) => page.scores.find((one) => one.judge === judge)?.score ?? null);
  if (inA === null || inB === null) return null;
  return h("p", {}, t("scoreDifference"), " ", h("strong", {}, signed(inB - inA)));
}

function difference(gain) {
  if (gain === null) return NONE;
  if (gain === 0) return h("span", { class: "muted" }, "= ", t("same"));
  return h("span", { class: "coverage accent" }, gain > 0 ? `▲ ${t("moreInB")}` : `▼ ${t("moreInA")}`);
}
