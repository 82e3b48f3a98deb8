// Runs over the same data side by side: mean scores, and gains over the baseline with their intervals.

import { get } from "./api.js";
import { axis, whisker } from "./chart.js";
import { fill, h } from "./dom.js";
import { count, score, signed } from "./format.js";
import { crumbs } from "./header.js";
import { empty, later, smokeBadge, table, tableRow } from "./parts.js";
import { href } from "./route.js";
import { said, visible } from "./said.js";
import { t } from "./words.js";

const AGAIN_MS = 1500;

/** One board for each judge. A server that is still computing is asked again. */
export function leaderboardPage({ main, heading, query, signal }) {
  const place = h("div", {});
  const head = fill(heading(t("leaderboard")), t("leaderboard"));
  const over = h("p", { class: "lead" });
  fill(main, h("div", { class: "page" }, crumbs([[t("runs"), "#/"], [t("leaderboard")]]), head, over, place));
  later(place, async () => {
    const found = await get("leaderboard", { data: query.data }, signal);
    if (found.data) fill(over, t("dataIs"), " ", said(found.data, "strong"));
    if (found.computing) setTimeout(() => signal.aborted || leaderboardPage({ main, heading: () => head, query, signal }), AGAIN_MS);
    if (found.boards.length === 0) return empty(found.computing ? t("computing") : visible(found.problem) || t("noBoard"));
    return [found.problem ? said(found.problem, "p", { class: "notice" }) : null, found.boards.map(board), h("p", { class: "muted small" }, t("boardNote"))];
  }, signal);
  return { keys: { u: () => { location.hash = "#/"; } } };
}

function board({ judge, baseline, standings }) {
  const title = t("judgedBy", { judge: visible(judge) });
  const gained = standings.some((row) => row.delta !== null);
  const gain = baseline ? t("gainOver", { baseline: visible(baseline) }) : t("gain");
  const heads = [[t("system"), "name"], [t("mean"), "number"], ["p50", "number"], ["p90", "number"],
    ...(gained ? [[gain, "number"], [t("interval"), "drawn"]] : [[t("onScale"), "drawn"]]), [t("scored"), "number"], [t("failed"), "number"]];
  const place = gained
    ? axis(standings.flatMap((row) => [row.delta, row.delta_low, row.delta_high].filter((value) => value !== null)), { low: 0, high: 0 })
    : axis([], { low: 0, high: 100 });
  return h("section", { class: "group" },
    h("div", { class: "group-head" }, h("h2", {}, t("judgedBy", { judge: "" }).trim(), " ", said(judge))),
    table(title, heads, ranked(standings).map((row) => tableRow(heads, cells(row, place, gained), { class: "link-row" })), { class: "stack quiet-caption" }));
}

const ranked = (standings) => [...standings].sort((a, b) => (b.mean ?? -1) - (a.mean ?? -1));

function cells(row, place, gained) {
  const interval = row.delta_low === null ? "" : `[${signed(row.delta_low)}, ${signed(row.delta_high)}]`;
  const drawn = gained
    ? row.delta === null ? h("span", { class: "muted" }, t("baseline"))
      : [whisker(place, { value: row.delta, lower: row.delta_low, upper: row.delta_high, zero: 0, label: `${signed(row.delta)} ${interval}` }), h("small", {}, interval)]
    : row.mean === null ? "–" : whisker(place, { value: row.mean, label: score(row.mean) });
  return [
    [said(row.system, "a", { class: "row-link", href: href("/run", { run: row.run }) }), " ", smokeBadge(row.smoke_test)],
    h("strong", {}, score(row.mean)), score(row.p50), score(row.p90),
    ...(gained ? [row.delta === null ? "–" : signed(row.delta)] : []), drawn,
    t("of", { n: count(row.n_scored), all: count(row.n_expected) }),
    row.n_failed ? h("span", { class: "bad" }, count(row.n_failed)) : "0",
  ];
}
