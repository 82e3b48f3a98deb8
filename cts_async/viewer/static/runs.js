// All runs there are, by the data they are over, the newest first.

import { get, onConnection, watch } from "./api.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { cost, count, duration, moment, NONE, rate, score } from "./format.js";
import {
  badge, caveatBadge, copyButton, done, empty, facts, field, held, keepFocus, later, select, stepRow, table, tableRow,
} from "./parts.js";
import { go, href } from "./route.js";
import { allSwitch, versionBadge, versionButton } from "./versions.js";
import { t } from "./words.js";

const DRAW_MS = 1000;
const MANY = 8;

/** Names and mean scores side by side; what is running goes on by itself. */
export function runsPage({ main, heading, query, signal }) {
  const place = h("div", {});
  const folder = h("p", { class: "lead" });
  const search = searchField(query.text ?? "", () => wanted, () => stepRow(place, 1));
  const known = new Map();
  const order = orderChoice(query, (sort) => go(href("/", { ...wanted, sort }), { replace: true }));
  const versions = h("div", {});
  const chooseAll = (all) => go(href("/", { ...wanted, all: all ? "1" : "" }), { replace: true });
  let [damaged, wanted] = [[], query];

  const draw = () => {
    search.element.hidden = known.size < MANY;
    const hasOlder = [...known.values()].some((row) => row.older);
    const listed = [...known.values()].filter((row) => wanted.all || !row.older);
    const runs = listed.filter((row) => fits(row, wanted.text ?? ""));
    order.element.hidden = runs.length < 2;
    versions.hidden = !hasOlder;
    keepFocus(versions, () => fill(versions, allSwitch(Boolean(wanted.all), hasOlder, chooseAll)));
    keepFocus(place, () => fill(place, runGroups(runs, known, wanted), damagedNotice(damaged)));
  };
  const fetched = async () => {
    const found = await get("runs", {}, signal);
    known.clear();
    found.runs.forEach((row) => known.set(row.name, row));
    damaged = found.damaged;
    fill(folder, found.folder ? [t("folder"), " ", untrusted(found.folder, "code")]
      : t("exported", { time: moment(found.exported), version: found.version }));
    draw();
  };

  const again = () => fetched().catch(() => {});
  fill(main, h("div", { class: "page" }, fill(heading(t("runs")), t("runs")), folder, search.element, order.element, versions, place));
  later(place, async () => {
    await fetched();
    watch(null, {
      changed: soon((row) => known.set(row.name, row), draw, place, signal),
      gone: soon(({ name }) => known.delete(name), draw, place, signal),
    }, signal, again);
    onConnection((gone) => gone || again(), signal);
    return [...place.childNodes];
  }, signal);
  return {
    update: (next) => {
      wanted = next;
      search.follow(next.text ?? "");
      order.follow(next);
      draw();
    },
    keys: { "/": search.focus, j: () => stepRow(place, 1), k: () => stepRow(place, -1) },
  };
}

/** A field that has the address follow what is typed; Enter goes on to what was found. */
function searchField(text, wanted, leave) {
  const keydown = (event) => {
    if (event.key === "Enter" && !event.isComposing) leave();
  };
  const tell = () => go(href("/", { ...wanted(), text: input.value.trim() }), { replace: true });
  const kind = { type: "search", autocomplete: "off", placeholder: t("runsHint") };
  const input = h("input", { ...kind, value: text, on: { input: tell, keydown } });
  const element = h("label", { class: "field wide", hidden: true }, h("span", {}, t("findRuns")), input);
  return {
    element,
    follow(now) { if (now !== input.value.trim()) input.value = now; },
    focus() { input.focus(); input.select(); },
  };
}

function fits(row, text) {
  const within = visible([row.name, row.system, row.data, row.scheme, row.mode].join("\n")).toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => within.includes(word));
}

/** A listener that records each event at once, and redraws once a second at most. */
function soon(note, draw, place, signal) {
  let timer = null;
  const drawn = () => {
    timer = held(place) ? setTimeout(drawn, DRAW_MS) : null;
    if (timer === null && !signal.aborted) draw();
  };
  return (event) => {
    note(event);
    timer ??= setTimeout(drawn, DRAW_MS);
  };
}

// --- The tables

// A column's words, class, and what its rows are sorted by; names and times as texts.
const COLUMNS = {
  run: ["run", "name", (row) => row.system || row.name],
  progress: ["progress", null, (row) => row.n_done / Math.max(row.n_expected, 1)],
  mean: ["mean", "number", (row) => row.scores[0]?.mean],
  unknown: ["unknownRate", "number", (row) => row.unknown_rate],
  failed: ["failed", "number", (row) => row.n_failed],
  cost: ["cost", "number", (row) => row.cost_usd],
  time: ["commandTime", "number", (row) => row.wall_s],
  started: ["started", null, (row) => row.started],
};
const NEWEST = "-started";

/** The runs by data, the newest data first, each table sorted by `query.sort`; what to do where there are none. */
function runGroups(runs, known, query) {
  if (runs.length === 0) return known.size > 0 ? empty(t("noRunFits")) : beginning();
  const groups = new Map();
  for (const row of sorted(runs, NEWEST)) {
    const key = row.data_sha || row.data;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const by = orderOf(query);
  const ranked = [...groups.values()].filter((rows) => rows[0].data_sha && rows.some((row) => row.scores.length));
  const board = ranked.length < 2 ? null
    : h("p", {}, h("a", { href: href("/leaderboard", { all: query.all }) }, t("leaderboardOfAll")));
  return [board, ...[...groups.values()].map((rows, n) => group(sorted(rows, by), by, query, n, known))];
}

/** A choice of the order, for screens that are too narrow for the heads of the columns. */
function orderChoice(query, change) {
  const options = Object.keys(COLUMNS).map((name) => [name, t(COLUMNS[name][0])]);
  const chosen = ({ sort }) => orderOf({ sort }).replace(/^-/, "");
  const control = select(options, chosen(query), (name) => change(firstOrder(name)));
  const element = field(t("sort"), control, "narrow-only");
  return { element, follow(now) { control.value = chosen(now); } };
}

const orderOf = ({ sort = "" }) => (Object.hasOwn(COLUMNS, sort.replace(/^-/, "")) ? sort : NEWEST);

// What is read first: names from A, all others from the greatest or latest.
const firstOrder = (name) => (name === "run" ? name : `-${name}`);

/** Rows in order, by name where they are equal; those without a value last. */
function sorted(rows, by) {
  const [sign, value] = [by.startsWith("-") ? -1 : 1, COLUMNS[by.replace(/^-/, "")][2]];
  const compared = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  return [...rows].sort((a, b) => {
    const [left, right] = [value(a) ?? null, value(b) ?? null];
    if (left === null || right === null) return (left === null) - (right === null) || compared(a.name, b.name);
    return sign * compared(left, right) || compared(a.name, b.name);
  });
}

/** Folders without a run that can be read; nothing where there are none. */
function damagedNotice(reasons) {
  if (reasons.length === 0) return null;
  return h("section", { class: "notice" },
    h("h2", {}, t("damaged")), h("ul", {}, reasons.map((reason) => untrusted(reason, "li"))));
}

/** Running, or not finished; nothing where a run is over. */
export function state(row) {
  if (row.running) return badge("running", t("running"));
  return row.n_expected && row.n_done + row.n_absent >= row.n_expected ? null : badge("quiet", t("stopped"));
}

/** What it is where it is not a run of the benchmark. */
export function kindBadge(row) {
  return row.kind === "run" ? null : badge("quiet", t(`kind_${row.kind}`));
}

function beginning() {
  const ways = [["cts demo", "tryDemo"], ["cts run --all baseline", "tryBaseline"], ["cts run -m gpt -k 3", "tryRun"]];
  return h("div", { class: "empty" }, h("p", {}, t("noRuns")), facts(ways.map(([command, why]) =>
    [t(why), h("span", { class: "command" }, h("code", {}, command), copyButton(t("command"), command))]), "facts commands"),
    h("p", {}, t("appear")));
}

function group(rows, by, query, n, known) {
  // Who judged somebody's answers may know the gold only; a run knows what its data are called.
  const { data, data_sha: sha } = rows.find((row) => row.kind !== "judged") ?? rows[0];
  const name = data || t("unknownData");
  const ranked = sha && rows.filter((row) => row.scores.length).length > 1;
  const heads = Object.entries(COLUMNS).map(([name, [words, classes]]) => {
    const order = by === name ? "ascending" : by === `-${name}` ? "descending" : null;
    const first = firstOrder(name);
    const other = first.startsWith("-") ? name : `-${name}`;
    const link = { href: href("/", { ...query, sort: by === first ? other : first }), key: `${n} ${name}`, order };
    return [t(words), classes, link];
  });
  const body = rows.map((row) => tableRow(heads, cells(row, known), { class: `link-row${row.older ? " older" : ""}` }));
  const all = query.all;
  return h("section", { class: "group" },
    h("div", { class: "group-head" },
      untrusted(name, "h2"), h("span", { class: "muted" }, t("nRuns", { n: rows.length })),
      ranked ? h("a", { href: href("/leaderboard", { data: sha, all }) }, t("leaderboard")) : null,
      ranked ? h("a", { href: href("/matrix", { data: sha, all }) }, t("matrix")) : null),
    table(t("runsOver", { data: visible(name) }), heads, body, { class: "stack quiet-caption runs" }));
}

function costCell(row) {
  const [known] = cost(row.priced_usd ?? row.cost_usd, row.unpriced_models);
  return row.unpriced_models && row.priced_usd ? [known, h("small", {}, `+ ${t("unknownCost")}`)] : known;
}

function cells(row, known) {
  return [
    nameCell(row, known),
    progress(row),
    mean(row),
    rate(row.unknown_rate),
    row.n_failed ? h("span", { class: "bad" }, count(row.n_failed)) : count(0),
    costCell(row),
    duration(row.wall_s),
    row.started ? h("time", { datetime: row.started }, moment(row.started)) : NONE,
  ];
}

function nameCell(row, known) {
  const versions = row.versions.map((name) => known.get(name)).filter(Boolean);
  const button = versionButton(row.name, versions, (version) => href("/run", { run: version.name }));
  const link = untrusted(row.system || row.name, "a", { class: "row-link", href: href("/run", { run: row.name }) });
  return h("span", { class: "run-name" }, link,
    row.name === row.system ? null : untrusted(row.name, "small"),
    h("span", { class: "badges" }, state(row), button ? null : versionBadge(row), row.older && button ? badge("quiet", t("olderVersion")) : null,
      kindBadge(row), caveatBadge(row.caveat), recomputedBadge(row), button));
}

/** That stored scores of the run contradict their labels; the sentences are its title. */
function recomputedBadge(row) {
  if (row.contradictions.length === 0) return null;
  const mark = badge("caveat", t("recomputed"));
  mark.title = visible(row.contradictions.join("\n"));
  return mark;
}

function progress(row) {
  const share = Math.min(row.n_done / Math.max(row.n_expected, 1), 1);
  return h("span", { class: "progress", vars: { "--share": share } }, done(row),
    row.ready < 1 ? h("small", {}, t("indexing", { share: rate(row.ready) })) : null);
}

function mean(row) {
  const [first] = row.scores;
  if (!first || first.mean === null) return h("span", { class: "muted" }, NONE);
  return h("span", {}, h("strong", {}, score(first.mean)), " ", untrusted(first.judge, "small"));
}
