// Instances by runs: a row for each instance, a column for each run, so that one sees where systems differ.

import { fill, h } from "./dom.js";
import { count, dollars, duration, NONE, score, signed } from "./format.js";
import { crumbs } from "./header.js";
import { gather, statusWords } from "./instances.js";
import { beginning } from "./longtext.js";
import { caveatBadge, caveatNotes, empty, field, select, stepRow, table, tableRow, trouble } from "./parts.js";
import { go, href, joined } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { rememberMatrix } from "./walk.js";
import { t } from "./words.js";

const LARGEST = "-spread"; // the order without any in the address
const INDEXING_MS = 800;
const TYPING_MS = 250;
const FORMATS = { score, gain: signed, turns: count, seconds: duration, cost: dollars };
const SCORE = { type: "number", min: "0", max: "100", step: "any", inputmode: "decimal" };

/** All runs over the data of the address. */
export function matrixPage({ main, heading, query, signal }) {
  const board = href("/leaderboard", { data: query.data });
  const way = crumbs([[t("runs"), "#/"], ...(query.data ? [[t("leaderboard"), board]] : []), [t("matrix")]]);
  const matrix = matrixBrowser("/matrix", query, signal);
  fill(main, h("div", { class: "page" }, way, fill(heading(t("matrix")), t("matrix")), matrix.element));
  return { update: matrix.update, keys: { ...matrix.keys, u: () => go(query.data ? board : "#/") } };
}
matrixPage.identity = ({ data, runs }) => JSON.stringify([data, runs]);

/** The table under its filters, for the page at `path`; `update(query)` follows the address. */
export function matrixBrowser(path, query, signal) {
  const list = h("div", { class: "list", "aria-busy": "true" });
  const status = h("p", { class: "muted small", role: "status", "aria-live": "polite", tabindex: "-1" });
  const pages = h("nav", { class: "pager", "aria-label": t("pages") });
  const chosen = new Set();
  const to = (changes) => href(path, { ...now, after: "", p: "", ...changes });
  const form = matrixForm((changes) => go(to(changes), { replace: true }), () => status.focus({ preventScroll: true }));
  let [now, asking, timer] = [query, new AbortController(), null];
  signal.addEventListener("abort", () => { asking.abort(); clearTimeout(timer); });

  async function load() {
    asking.abort();
    clearTimeout(timer);
    asking = new AbortController();
    const mine = asking.signal;
    list.setAttribute("aria-busy", "true");
    try {
      const asked = { ...now, sort: now.sort ?? LARGEST };
      const found = await gather("matrix", asked, mine, (n) => { status.textContent = t("searching", { n }); });
      if (mine.aborted) return;
      list.removeAttribute("aria-busy");
      form.show(now, found);
      draw(found);
      if (found.ready < 1) timer = setTimeout(load, INDEXING_MS);
    } catch (error) {
      if (mine.aborted) return;
      list.removeAttribute("aria-busy");
      status.textContent = "";
      fill(list, trouble(error, load));
    }
  }

  function draw(found) {
    status.textContent = statusWords(found);
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.sort : undefined;
    const shown = found.rows.length
      ? [comparison(chosen, found, now), matrixTable(found, { now, to, chosen, redraw: () => draw(found) }),
        legend(found)]
      : empty(t(found.n ? "nothingFits" : "noInstances"));
    fill(list, shown);
    fill(pages, pager(now, found, to));
    rememberMatrix(joined(found.runs.map(({ name }) => name)), { ...now, sort: now.sort ?? LARGEST }, found);
    const again = focused && [...list.querySelectorAll("[data-sort]")].find((one) => one.dataset.sort === focused);
    if (again) again.focus({ preventScroll: true });
  }

  load();
  return {
    element: h("div", { class: "matrix-browser" }, form.element, status, list, pages),
    update(next) {
      const turned = (next.after ?? "") !== (now.after ?? "");
      now = next;
      load().then(() => turned && status.focus());
    },
    keys: { "/": form.focus, j: () => stepRow(list, 1), k: () => stepRow(list, -1) },
  };
}

// --- The filters

/** Controls that call `changed({show, judge, text, of, min, max, failed, runs})` with what was changed. */
function matrixForm(changed, leave) {
  const typed = () => {
    clearTimeout(timer);
    timer = setTimeout(tell, TYPING_MS);
  };
  const tell = () => {
    clearTimeout(timer);
    if (min.checkValidity() && max.checkValidity()) changed(values(["text", "min", "max"]));
  };
  const text = h("input", { type: "search", placeholder: t("searchHint"), autocomplete: "off", on: { input: typed } });
  const [min, max] = ["0", "100"].map((placeholder) => h("input", { ...SCORE, placeholder, on: { input: typed } }));
  const choices = Object.fromEntries(["show", "judge", "of", "failed", "sort"].map((name) =>
    [name, select([], "", () => changed(values([name])))]));
  const controls = { text, min, max, ...choices };
  const values = (names) => Object.fromEntries(names.map((name) => [name, controls[name].value.trim()]));
  const keydown = (event) => {
    if (event.key !== "Enter" || event.isComposing || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    tell();
    leave();
  };
  const element = h("form", { class: "filters", role: "search", "aria-label": t("filter"), on: { keydown } });
  let [timer, drawn] = [null, false];

  function fillForm(found) {
    const { judges, runs, known } = found;
    const several = runs.length > 1;
    fill(element, field(t("find"), text, "wide"),
      field(t("cells"), choices.show), judges.length > 1 ? field(t("judge"), choices.judge) : null,
      h("fieldset", { class: "range" }, h("legend", {}, t("score")), field(t("from"), min), field(t("to"), max)),
      field(t("failures"), choices.failed), several ? field(t("filterOf"), choices.of) : null,
      several ? field(t("sort"), choices.sort) : null,
      known.length > 1 ? runChoice(found, (names) => changed({ runs: joined(names), judge: "", by: "", of: "" })) : null);
  }
  return {
    element,
    /** Put the controls there once it is known what there is to choose from, and let them follow the address. */
    show(query, found) {
      const { judges, runs, shows } = found;
      options(choices.show, shows.map((name, index) => [index ? name : "", t(`show_${name}`)]));
      options(choices.judge, judges.map((name, index) => [index ? name : "", visible(name)]));
      options(choices.of, [["", t("anyRun")], ...runs.map(({ name }) => [name, visible(name)])]);
      options(choices.failed, [["", t("any")], ["0", t("failedNot")], ["1", t("failedOnly")]]);
      options(choices.sort, sorts(found, query));
      for (const [name, control] of Object.entries(controls)) {
        if (control !== document.activeElement) control.value = query[name] ?? "";
      }
      if (!drawn) fillForm(found);
      drawn = true;
    },
    focus() { text.focus(); text.select(); },
  };
}

function options(control, choices) {
  const { value } = control;
  fill(control, choices.map(([one, words]) => h("option", { value: one }, words)));
  control.value = value;
}

function sorts({ runs, runs: { length } }, query) {
  const [a, b] = letters(runs);
  const by = query.by || runs[0].name;
  const gaps = length === 2 ? [["-gap", t("sortGap", { run: a })], ["gap", t("sortGap", { run: b })]] : [];
  const values = /value$/.test(query.sort) ? [["-value", t("sortHighOf", { run: visible(by) })],
    ["value", t("sortLowOf", { run: visible(by) })]] : [];
  return [["", t("sortSpread")], ["spread", t("sortAlike")], ...gaps, ...values, ["file", t("sortFile")]];
}

/** Which runs are columns. */
function runChoice({ known, runs }, choose) {
  const shown = new Set(runs.map(({ name }) => name));
  const boxes = known.map(({ name }) => h("input", { type: "checkbox", value: name, checked: shown.has(name) }));
  const click = () => {
    const names = boxes.filter((box) => box.checked).map((box) => box.value);
    if (names.length > 0) choose(names);
  };
  return h("details", { class: "run-choice" },
    h("summary", {}, t("whichRuns", { n: count(runs.length), all: count(known.length) })),
    h("ul", {}, known.map(({ name }, index) =>
      h("li", {}, h("label", { class: "switch" }, boxes[index], untrusted(name))))),
    h("button", { type: "button", on: { click } }, t("showRuns")));
}

// --- The table

/** What columns are called: A, B, C, ... */
export const letters = (runs) => runs.map((_, index) => String.fromCharCode(65 + index));

function matrixTable(found, { now, to, chosen, redraw }) {
  const { runs, rows, means, show, n_common: common } = found;
  const sorted = (key, by = "") => (now.sort ?? LARGEST) === key && (by === "" || (now.by || runs[0].name) === by);
  const sortBy = (words, keys, by) => {
    const at = keys.findIndex((key) => sorted(key, by));
    const next = keys[(at + 1) % keys.length];
    const on = { click: () => go(to({ sort: next, by })) };
    const mark = at < 0 ? "" : keys[at].startsWith("-") ? " ▼" : " ▲";
    return h("button", { type: "button", class: "plain sort", "data-sort": `${keys[0]} ${by ?? ""}`, on }, words, mark);
  };
  const head = (run, index) => h("span", { class: "column-head" },
    sortBy([h("span", { class: "badge accent" }, letters(runs)[index]), " ", untrusted(labelOf(run, runs))],
      ["-value", "value"], run.name),
    caveatBadge(run.caveat), runs.length > 2 ? pick(run, chosen, redraw) : null);
  const two = runs.length === 2;
  const last = two ? sortBy(t("gapOf", { a: "A", b: "B" }), ["-spread", "-gap", "gap"])
    : sortBy(t("spread"), ["-spread", "spread"]);
  const heads = [[t("instance"), "name"], ...runs.map((run, index) => [head(run, index), "number"]),
    ...(runs.length > 1 ? [[last, "number"]] : [])];
  const number = FORMATS[show === "gain" ? "score" : show];
  const ofMeans = show === "turns" ? score : number;
  const difference = (row, written = number) => (two ? gap(row.gap, written) : written(row.spread));
  const between = (values) => ({ gap: values[0] - values[1], spread: Math.max(...values) - Math.min(...values) });
  const most = Math.max(Number.MIN_VALUE, ...rows.flatMap((row) => row.values));
  const body = rows.map((row) => withShades(tableRow(heads, [
    rowHead(row, runs), ...runs.map((run, index) => cell(run, row, index, found)),
    ...(runs.length > 1 ? [difference(row)] : []),
  ], { class: "matrix-row" }), row, show, most));
  const meanRow = means === null || now.text ? null : tableRow(heads, [
    t("meanOf", { n: count(common) }), ...means.map(show === "gain" ? signed : ofMeans),
    ...(runs.length > 1 ? [difference(between(means), ofMeans)] : []),
  ], { class: "means" });
  const made = table(t("matrixCaption", { show: t(`show_${show}`) }), heads, [meanRow, ...body].filter(Boolean),
    { class: "matrix quiet-caption" });
  made.querySelectorAll("thead th").forEach((one) => {
    const mark = one.querySelector(".sort")?.textContent.slice(-1);
    if (mark === "▼" || mark === "▲") one.setAttribute("aria-sort", mark === "▼" ? "descending" : "ascending");
  });
  return made;
}

/** A run by its system, or by its own name where two columns have the same system. */
function labelOf(run, runs) {
  return runs.filter(({ system }) => system === run.system).length > 1 ? run.name : run.system;
}

function pick(run, chosen, redraw) {
  const change = (event) => {
    if (event.target.checked) chosen.add(run.name);
    else chosen.delete(run.name);
    redraw();
  };
  const name = visible(run.name);
  return h("input", { type: "checkbox", checked: chosen.has(run.name), "data-sort": `pick ${name}`,
    "aria-label": t("pick", { run: name }), title: t("pick", { run: name }), on: { change } });
}

function rowHead(row, runs) {
  const title = row.blurred_query || row.fused_query || beginning(row.id);
  const address = href("/compare", { runs: joined(runs.map(({ name }) => name)), id: row.id });
  return [untrusted(title, "a", { class: "row-link", href: address, title: visible(row.fused_query) || null }),
    untrusted(beginning(row.id, 100), "small")];
}

function cell(run, row, index, { show }) {
  const [value, state] = [row.values[index], row.states[index]];
  if (state === "missing") return h("span", { class: "muted", title: t("cellMissing") }, NONE);
  const [text, words] = state === "failed" ? ["✕", t("cellFailed")]
    : value === null ? ["?", t("cellUnscored")] : [FORMATS[show](value), null];
  const address = href("/instance", { run: run.name, id: row.id });
  return h("a", { class: `cell-link ${state}`, href: address, title: words, "aria-label": words }, text);
}

/** The cells with as much colour as they have of what is shown; their numbers say the same. */
function withShades(element, row, show, most) {
  [...element.children].slice(1, row.values.length + 1).forEach((td, index) => {
    const value = row.values[index];
    if (value === null) return;
    td.classList.add("shaded", show === "gain" ? (value < 0 ? "behind" : "ahead") : "amount");
    td.style.setProperty("--share", String(Math.min(1, Math.abs(value) / (/score|gain/.test(show) ? 100 : most))));
  });
  return element;
}

/** A less B: its sign, and in words which of them has more. */
function gap(value, number) {
  if (value === null) return NONE;
  if (value === 0) return h("span", { class: "muted" }, "= ", t("same"));
  const sign = value > 0 ? "+" : "\u2212";
  return [sign, number(Math.abs(value)), h("small", {}, t(value > 0 ? "moreInA" : "moreInB"))];
}

function legend({ show, baseline, runs }) {
  const gain = show === "gain" && baseline !== null;
  const words = [t("legend"), gain ? t("legendGain", { baseline: visible(baseline) }) : null,
    runs.length === 2 ? t("legendGap") : runs.length > 2 ? t("legendSpread") : null];
  return [h("p", { class: "muted small" }, words.filter(Boolean).join(" ")), caveatNotes(runs.map((run) => run.caveat))];
}

/** A link to the comparison of the chosen columns, once there are two. */
function comparison(chosen, { runs }, { judge }) {
  const names = runs.map(({ name }) => name).filter((name) => chosen.has(name));
  if (names.length < 2) return runs.length > 2 ? h("p", { class: "muted small" }, t("pickHint")) : null;
  const address = href("/compare", { runs: joined(names), judge });
  return h("p", {}, h("a", { class: "button", href: address }, t("comparePicked", { n: names.length })));
}

function pager(now, found, to) {
  const page = Number(now.p ?? 1);
  const link = (words, changes) => h("a", { class: "button", href: to(changes) }, words);
  return [
    page > 1 ? link(t("firstPage"), {}) : null,
    page > 1 || found.next !== null ? h("span", { class: "muted" }, t("pageN", { n: page })) : null,
    found.next !== null ? link(t("nextPage"), { p: page + 1, after: found.next }) : null,
  ];
}
