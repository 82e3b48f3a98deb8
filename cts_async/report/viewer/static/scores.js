// The scores of a run: how they are spread, and what it gained over the baseline.

import { get } from "./api.js";
import { h } from "./dom.js";
import { count, rate, signed } from "./format.js";
import { table, tableRow } from "./parts.js";
import { visible } from "./untrusted.js";
import { t } from "./words.js";

/** The number of instances in each bin of scores from 0 to 100, as a drawing and as a table; nothing without scores. */
export function histogram(counts, judge) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  const bins = counts.map((n, i) => ({ n, from: (100 * i) / counts.length, to: (100 * (i + 1)) / counts.length }));
  const caption = t("histogram", { judge: visible(judge) });
  const heads = [[t("score"), "name"], [t("instances"), "number"], [t("share"), "number"]];
  const rows = bins.filter(({ n }) => n > 0).map(({ n, from, to }) =>
    tableRow(heads, [t("range", { from, to }), count(n), rate(n / total)]));
  return h("figure", { class: "histogram" },
    h("figcaption", {}, caption), bars(bins, total),
    h("details", {}, h("summary", {}, t("showData")), table(caption, heads, rows, { class: "quiet-caption" })));
}

function bars(bins, total) {
  const most = bins.reduce((best, bin) => (bin.n > best.n ? bin : best));
  const label = t("histogramWords", { n: count(total), most: count(most.n), from: most.from, to: most.to });
  const bar = ({ n, from, to }) =>
    h("span", { vars: { "--share": n / most.n }, title: `${t("range", { from, to })}: ${count(n)}` });
  return [
    h("div", { class: "bars", role: "img", "aria-label": label }, bins.map(bar)),
    h("div", { class: "ticks", "aria-hidden": "true" }, [0, 25, 50, 75, 100].map((at) => h("span", {}, String(at)))),
  ];
}

/** What the run gained over the baseline by its scoring judge, as one of `facts`; null where the leaderboard has none. */
export async function gain(row, signal) {
  let found;
  do found = await get("leaderboard", { data: row.data_sha }, signal);
  while (found.computing && found.boards.length === 0);
  const board = found.boards.find((one) => one.judge === row.scores[0]?.judge);
  const own = board?.standings.find((one) => one.run === row.name);
  if (!own || own.delta === null) return null;
  const words = own.delta_low === null ? t("noInterval")
    : t("intervalIs", { low: signed(own.delta_low), high: signed(own.delta_high) });
  const pairs = t("pairs", { n: count(own.delta_pairs) });
  return [t("gainOver", { baseline: visible(board.baseline) }), signed(own.delta), words + t("comma") + pairs];
}
