// Runs over the same data side by side: mean scores, and gains over the baseline with their intervals.

import { address, get, SERVED } from "./api.js";
import { askingSection } from "./asking.js";
import { fill, h, svg, untrusted, visible } from "./dom.js";
import { count, NONE, score, signed } from "./format.js";
import { crumbs } from "./header.js";
import {
  caveatBadge, caveatNotes, contradictionNotes, empty, keepFocus, later, stepRow, table, tableRow, trouble,
} from "./parts.js";
import { go, href, joined, named } from "./route.js";
import { allSwitch, versionButton } from "./versions.js";
import { t } from "./words.js";

const AGAIN_MS = 1500;

/** One board for each group of comparable runs and judge. A server that is still computing is asked again. */
export function leaderboardPage({ main, heading, query, signal }) {
  const place = h("div", {});
  const over = h("p", { class: "lead" });
  const toMatrix = h("p", {});
  const way = crumbs([[t("runs"), "#/"], [t("leaderboard")]]);
  let [wanted, asked] = [query, 0];
  fill(main, h("div", { class: "page" }, way, fill(heading(t("leaderboard")), t("leaderboard")), over, toMatrix, place));
  const fetched = async () => {
    asked += 1;
    const mine = asked;
    const { data, versions, all } = wanted;
    const found = await get("leaderboard", { data, versions, all }, signal);
    // Links and the downloaded file need the digests: the short address is replaced by the full one.
    if (!data && found.data_sha) go(href("/leaderboard", { ...wanted, data: found.data_sha }), { replace: true });
    fill(over, found.data ? [t("dataIs"), " ", untrusted(found.data, "strong")] : null);
    fill(toMatrix, found.data_sha ? h("a", { href: href("/matrix", { data: found.data_sha, all }) }, t("toMatrix")) : null);
    // An answer to what is no longer asked for draws nothing, and asks no more.
    if (found.computing) setTimeout(() => mine === asked && again().catch(() => {}), AGAIN_MS);
    return boards(found, wanted);
  };
  const again = async () => {
    if (signal.aborted) return;
    const shown = await fetched();
    if (!signal.aborted) keepFocus(place, () => fill(place, shown));
  };
  later(place, fetched, signal);
  return {
    update(next) {
      const unchanged = ["versions", "all"].every((name) => (next[name] ?? "") === (wanted[name] ?? ""));
      const sameData = next.data === wanted.data || !wanted.data;
      wanted = next;
      // The full address of what is shown already.
      if (unchanged && sameData) return;
      again().catch((error) => signal.aborted || fill(place, trouble(error, () => later(place, fetched, signal))));
    },
    keys: { u: () => go("#/"), j: () => stepRow(place, 1), k: () => stepRow(place, -1) },
  };
}

/** The address of a leaderboard in which a version takes the place of the others of its lineage. */
function withVersion(query, { name, older }, versions) {
  const others = new Set(versions.map((row) => row.name));
  // An export has a leaderboard for each older version, not for several of them.
  const kept = SERVED ? named(query.versions ?? "").filter((other) => !others.has(other)) : [];
  return href("/leaderboard", { ...query, all: "", versions: joined(older ? [...kept, name] : kept) });
}

/** Which older versions are shown, and the way back to the newest; nothing where these are shown. */
function chosenNotice(found, query) {
  const chosen = named(query.versions ?? "");
  if (chosen.length === 0) return null;
  const words = chosen.map((name) => {
    const row = (found.versions[name] ?? []).find((version) => version.name === name);
    return h("li", {}, row ? t("versionN", { n: count(row.version) }) : null, " ", untrusted(name, "code"));
  });
  return h("div", { class: "notice" }, h("p", {}, t("olderOnBoard")), h("ul", {}, words),
    h("p", {}, h("a", { href: href("/leaderboard", { ...query, versions: "" }) }, t("showNewest"))));
}

function boards(found, query) {
  const hasOlder = Object.keys(found.versions).length > 0;
  const change = (all) => go(href("/leaderboard", { ...query, versions: "", all: all ? "1" : "" }));
  const above = [allSwitch(Boolean(query.all), hasOlder, change), chosenNotice(found, query)];
  const problem = found.problem ? untrusted(found.problem, "p", { class: "notice" }) : null;
  const computing = found.computing ? h("p", { class: "muted", role: "status" }, t("computing")) : null;
  if (found.boards.length === 0) return [above, computing ?? problem ?? empty(t("noBoard"))];
  const caveats = found.boards.flatMap(({ standings }) => standings.map((row) => row.caveat));
  const gained = found.boards.some(({ standings }) => standings.some((row) => row.gain !== null));
  const note = h("p", { class: "muted small" }, t(gained ? "boardNote" : "boardFailed"));
  const byGroup = found.boards.some(({ heading }) => heading) ? h("p", { class: "notice" }, t("byGroup")) : null;
  const { versions, all } = query;
  const csv = address("csv", { data: found.data_sha, versions, all });
  const saved = SERVED ? h("p", { class: "small" }, h("a", { href: csv, download: true }, t("downloadCsv"))) : null;
  const drawBoard = (one) => board(one, (row) => versionButton(row.run, found.versions[row.run],
    (version) => withVersion(query, version, found.versions[row.run])));
  return [above, computing, problem, byGroup, caveatNotes(caveats), contradictionNotes(found.contradictions),
    found.boards.map(drawBoard), note, saved];
}

/** What a group of runs has in common and others have not: words, and the text of the group. */
function groupWords({ heading, facets }) {
  if (!heading) return [];
  if (facets.length === 0) return [[t("noAgent"), ""]];
  const known = { agent: t("agent"), data: t("data"), gold: t("gold") };
  return facets.map(([name, value]) => [Object.hasOwn(known, name) ? known[name] : visible(name), value]);
}

function board({ judge, baseline, best, untestable, standings, asking, ...group }, versions) {
  const words = groupWords(group);
  const by = words.map(([name, value]) => `${t("comma")}${name} ${visible(value)}`).join("");
  const gained = standings.some((row) => row.gain !== null);
  const gain = baseline ? t("gainOver", { baseline: visible(baseline) }) : t("gain");
  const differ = standings.some((row) => row.n_common < row.n_scored);
  const bold = standings.some((row) => row.best_or_tied === false);
  const heads = [
    [t("system"), "name"], [t("mean"), "number"], ...(differ ? [[t("commonMean"), "number"]] : []),
    ["p50", "number"], ["p90", "number"],
    ...(gained ? [[gain, "number"], [t("interval"), "drawn"]] : [[t("onScale"), "drawn"]]),
    [t("scored"), "number"], [t("failed"), "number"],
  ];
  const place = gained ? axis(standings.flatMap(ends), { low: 0, high: 0 }) : axis([], { low: 0, high: 100 });
  const height = (row) => row.common_mean ?? row.mean ?? -1;
  const ranked = [...standings].sort((a, b) => height(b) - height(a));
  const body = ranked.map((row) => tableRow(heads, cells(row, place, { gained, differ, bold, versions }), { class: "link-row" }));
  return h("section", { class: "group" },
    h("div", { class: "group-head" }, h("h2", {}, t("judge"), " ", untrusted(judge),
      words.map(([name, value]) => [t("comma"), name, " ", untrusted(value)]))),
    table(t("judgedBy", { judge: visible(judge) }) + by, heads, body, { class: "stack quiet-caption" }),
    differ ? h("p", { class: "muted small" }, t("commonNote", { n: count(standings[0].n_common) })) : null,
    bold ? h("p", { class: "muted small" }, t("boldMeans")) : null,
    verdict(best, untestable ?? [], standings),
    standings.some((row) => row.judge_is) ? h("p", { class: "muted small" }, t("ownText")) : null,
    askingSection(asking));
}

/**
 * Which system is best, which ones no paired test separates from it, and which ones no test could, since too few
 * instances differ; nothing about fewer than two systems.
 */
function verdict(best, untestable, standings) {
  const rivals = standings.filter((row) => row.best_or_tied !== null).length;
  if (rivals < 2 || standings.some((row) => row.caveat)) return null;
  const [first, ...tied] = best.map((name) => visible(name));
  const untold = untestable.map((name) => visible(name)).join(", ");
  const found = tied.length ? t("bestTied", { first, tied: tied.join(", ") })
    : t(untold ? "bestHighest" : "bestAlone", { first });
  return h("p", { class: "small" }, found, untold ? t("bestUntested", { untold }) : null);
}

const ends = (row) => [row.gain, row.gain_low, row.gain_high].filter((value) => value !== null);

function cells(row, place, { gained, differ, bold, versions }) {
  const link = untrusted(row.system, "a", { class: "row-link", href: href("/run", { run: row.run }) });
  const gain = row.gain === null ? NONE : signed(row.gain);
  const marked = (mean) => (bold && row.best_or_tied ? h("strong", {}, score(mean)) : score(mean));
  return [
    [link, " ", caveatBadge(row.caveat), row.judge_is ? " ‡" : null,
      row.run === row.system ? null : untrusted(row.run, "small"), versions(row)],
    differ ? score(row.mean) : marked(row.mean), ...(differ ? [marked(row.common_mean)] : []),
    score(row.p50), score(row.p90),
    ...(gained ? [gain, interval(row, place)] : [onScale(row, place)]),
    t("of", { n: count(row.n_scored), all: count(row.n_expected) }),
    row.n_failed ? h("span", { class: "bad" }, count(row.n_failed)) : count(0),
  ];
}

function interval(row, place) {
  if (row.gain === null) return h("span", { class: "muted" }, t("baseline"));
  const words = row.no_difference ? t("noDifference") : row.gain_low === null ? ""
    : `[${signed(row.gain_low)}, ${signed(row.gain_high)}]${row.gain_too_short ? "†" : ""}`;
  const label = `${signed(row.gain)} ${words}`;
  const drawn = whisker(place, { value: row.gain, lower: row.gain_low, upper: row.gain_high, zero: 0, label });
  return [drawn, h("small", {}, words)];
}

function onScale(row, place) {
  return row.mean === null ? NONE : whisker(place, { value: row.mean, label: score(row.mean) });
}

// --- Drawings of a value on an axis, with its interval

const WIDTH = 220;
const HEIGHT = 22;
const MARGIN = 6;

/** An axis that all rows of a table share: from `low` to `high`, with room for every value. */
function axis(values, { low = Infinity, high = -Infinity } = {}) {
  const known = values.filter((value) => Number.isFinite(value));
  const from = Math.min(low, ...known);
  const to = Math.max(high, ...known);
  const span = to - from || 1;
  return (value) => MARGIN + ((value - from) / span) * (WIDTH - 2 * MARGIN);
}

/** A dot at `value`, whiskers from `lower` to `upper` where there are any, a line at `zero` where it is given. */
function whisker(place, { value, lower = null, upper = null, zero = null, label }) {
  const middle = HEIGHT / 2;
  const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
  const ends = lower === null || upper === null ? null : [
    line(place(lower), middle, place(upper), middle, "whisker"),
    line(place(lower), middle - 4, place(lower), middle + 4, "whisker"),
    line(place(upper), middle - 4, place(upper), middle + 4, "whisker"),
  ];
  const shape = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", { class: "chart", ...shape, role: "img", "aria-label": label },
    line(MARGIN, middle, WIDTH - MARGIN, middle, "rule"),
    zero === null ? null : line(place(zero), 2, place(zero), HEIGHT - 2, "zero"),
    ends,
    value === null ? null : svg("circle", { cx: place(value), cy: middle, r: 4, class: "dot" }));
}
