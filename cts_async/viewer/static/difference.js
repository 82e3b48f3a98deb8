// Two runs over the same data: the mean of A less that of B, with its interval and its test, as `cts compare` has them.

import { get } from "./api.js";
import { fill, h, visible } from "./dom.js";
import { count, pValue, signed } from "./format.js";
import { facts, later } from "./parts.js";
import { joined } from "./route.js";
import { t } from "./words.js";

const AGAIN_MS = 1500;

/** A function of what a matrix shows: where it has two runs, an element with their difference by its judge, else null. */
export function pairDifference(signal) {
  const place = h("div", { class: "pair-difference" });
  let [shown, judge, difference] = ["", "", null];

  async function fetched(runs) {
    const found = await get("difference", { runs }, signal);
    // An answer that came late must not stand in the place of the pair that was chosen since.
    if (runs !== shown) return [...place.childNodes];
    difference = found;
    if (found.computing) setTimeout(() => again(runs), AGAIN_MS);
    return drawn(difference, judge);
  }
  function again(runs) {
    if (signal.aborted || runs !== shown) return;
    fetched(runs).then((nodes) => runs === shown && fill(place, nodes), () => {});
  }

  return (found) => {
    if (found.runs.length !== 2 || !found.judge) return null;
    const runs = joined(found.runs.map(({ name }) => name));
    judge = found.judge;
    if (runs !== shown) {
      [shown, difference] = [runs, null];
      later(place, () => fetched(runs), signal);
    } else if (difference) {
      fill(place, drawn(difference, judge));
    }
    return place;
  };
}

function drawn({ judges, problem, computing }, judge) {
  if (computing) return h("p", { class: "muted", role: "status" }, t("computing"));
  if (problem) return h("p", { class: "notice" }, visible(problem));
  const found = judges.find((one) => one.judge === judge);
  if (!found) return h("p", { class: "muted" }, t("noScoreInBoth", { judge: visible(judge) }));
  const mark = found.too_short ? "\u2020" : "";
  let interval = t("noInterval");
  if (found.no_difference) interval = t("noDifference");
  else if (found.low !== null) interval = `[${signed(found.low)}, ${signed(found.high)}]${mark}`;
  return [
    facts([
      [t("pairDifference"), h("strong", {}, signed(found.difference))],
      [t("interval"), interval],
      [t("pValue"), pValue(found.p)],
      [t("scoredInBoth"), count(found.n)],
      [t("ofThemDiffer"), count(found.n_differ)],
    ]),
    h("p", { class: "muted small" }, t("pairNote", { judge: visible(judge) }), mark ? ` ${t("shortNote")}` : null),
  ];
}
