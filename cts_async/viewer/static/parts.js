// Small things that every page uses.

import { fill, h, untrusted } from "./dom.js";
import { count, NONE, score } from "./format.js";
import { t } from "./words.js";

/** A short mark: "caveat", "running", "failed", "quiet". Its words say what its colour says. */
export function badge(kind, words) {
  return h("span", { class: `badge ${kind}` }, words);
}

const CAVEATS = { "smoke test": ["smoke", "smokeWhy"], "made up": ["madeUp", "madeUpWhy"] };

/** What stands beside every score that says nothing about a model. */
export function caveatBadge(caveat) {
  return caveat ? badge("caveat", t(CAVEATS[caveat][0])) : null;
}

/** The same in a sentence for each caveat. */
export function caveatNotes(caveats) {
  const distinct = [...new Set(caveats)].filter(Boolean);
  return distinct.map((caveat) => h("p", { class: "notice" }, t(CAVEATS[caveat][1])));
}

/** Why what is shown must not be published, once for each reason. */
export function restrictionNotes(sentences) {
  const distinct = [...new Set(sentences)].filter(Boolean);
  return distinct.map((sentence) => untrusted(sentence, "p", { class: "notice", role: "note" }));
}

/** A sentence on each file whose stored scores contradict their labels: what is shown are the recomputed ones. */
export function contradictionNotes(sentences) {
  return (sentences ?? []).map((sentence) => untrusted(sentence, "p", { class: "notice" }));
}

/** That a step was taken from another run; nothing for "". */
export function reusedBadge(run) {
  return run ? [" ", h("span", { class: "badge quiet" }, "↺ ", t("reusedFrom"), " ", untrusted(run))] : null;
}

/** Names with their values: [[name, value, note?], ...]; a value is words or an element. */
export function facts(rows, classes = "facts") {
  const shown = rows.filter((row) => row !== null);
  return h("dl", { class: classes }, shown.map(([name, value, note]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null))));
}

/**
 * A table: its caption, heads ([words, class?, {href, key, order}?]) and rows (arrays of cells; the first one heads its
 * row). The third part of a head makes it a link that sorts by its column; `order` is "ascending", "descending" or null.
 */
export function table(caption, heads, rows, attributes = {}) {
  const frame = h("div", { class: "scroll", role: "region", "aria-label": caption },
    h("table", { role: "table", ...attributes },
      h("caption", {}, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map(columnHead))),
      h("tbody", { role: "rowgroup" }, rows)));
  scrollers.observe(frame);
  return frame;
}

// What scrolls sideways can be reached with the keyboard; what does not is no stop on the way.
const scrollers = new ResizeObserver((entries) => entries.forEach(({ target }) => {
  if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
  else target.removeAttribute("tabindex");
}));

const ARROWS = { ascending: " ▲", descending: " ▼" };

function columnHead([words, classes, sorted = null]) {
  const given = { scope: "col", role: "columnheader", class: classes, "aria-sort": sorted?.order };
  if (sorted === null) return h("th", given, h("span", { class: "head" }, words));
  const arrow = sorted.order ? h("span", { "aria-hidden": "true" }, ARROWS[sorted.order]) : null;
  return h("th", given, h("a", { class: "head", href: sorted.href, "data-key": sorted.key }, words, arrow));
}

/** A row of such a table; on a narrow screen each cell says which column it is in. */
export function tableRow(heads, cells, attributes = {}) {
  return h("tr", { role: "row", ...attributes }, cells.map((cell, column) => {
    const [words, classes] = heads[column];
    return column === 0
      ? h("th", { scope: "row", role: "rowheader", class: classes }, cell)
      : h("td", { role: "cell", class: classes, "data-label": words }, cell);
  }));
}

/** Give the focus to the link of the row `by` rows further on, of the first where none has it. */
export function stepRow(list, by) {
  const links = [...list.querySelectorAll(".row-link")];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** A score of 0 to 100 as a number over a bar. */
export function scoreBar(value) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, NONE);
  return h("span", { class: "score-bar", vars: { "--share": value / 100 } }, score(value));
}

/** "What is being fetched" as words that appear when it takes a while. */
const loading = () => h("p", { class: "loading", role: "status" }, t("loading"));

export const empty = (words) => h("p", { class: "empty" }, words);

/** What went wrong, and how to try again. */
export function trouble(error, again) {
  return h("div", { class: "trouble", role: "alert" },
    h("strong", {}, t("trouble")), untrusted(error.message, "p"),
    again ? h("button", { type: "button", on: { click: again } }, t("again")) : null);
}

/** Fill `place` with what `make` promises: words while it waits, and the error should it fail. */
export async function later(place, make, signal) {
  fill(place, loading());
  try {
    const made = await make();
    if (!signal?.aborted) fill(place, made);
  } catch (error) {
    if (signal?.aborted) return;
    fill(place, trouble(error, () => later(place, make, signal)));
    if (!error.status) console.error(error);
  }
}

/** Whether the reader is just pressing something within: what is replaced then is never clicked. */
export const held = (place) => place.matches(":active");

/** Change what `place` holds; whatever had the focus has it again, known by its `data-key` or its address. */
export function keepFocus(place, change) {
  const nameOf = (element) => element.dataset.key ?? element.getAttribute("href");
  const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  change();
  if (!focused) return;
  const again = [...place.querySelectorAll("a, button, input")].find((element) => nameOf(element) === focused);
  again?.focus({ preventScroll: true });
}

/** A heading with its section, that the page's contents lead to. */
export function section(id, title, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title`, tabindex: "-1" }, title), children);
}

/** The frame of a page: the way to it, its heading with marks beside, and a place for all else that is fetched. */
export function frame(way, heading) {
  const [marks, body] = [h("span", { class: "badges" }), h("div", { class: "body" })];
  const element = h("div", { class: "page" }, way, h("div", { class: "title" }, heading, marks), body);
  return { element, marks, body };
}

/** A label with its control. */
export function field(words, control, classes = "") {
  return h("label", { class: `field ${classes}`.trim() }, h("span", {}, words), control);
}

/** A choice: [[value, words], ...]. */
export function select(options, chosen, change, attributes = {}) {
  return h("select", { ...attributes, on: { change: (event) => change(event.target.value) } },
    options.map(([value, words]) => h("option", { value, selected: value === chosen }, words)));
}

/** "12 of 518", with what failed. */
export function done(row) {
  return row.n_expected ? t("of", { n: count(row.n_done), all: count(row.n_expected) }) : count(row.n_done);
}

// --- Buttons that copy

const SHOWN_MS = 2000;

/** A button "Copy" for `what`, e.g. "answer"; `text` is the text, or a function that returns it. */
export function copyButton(what, text) {
  const words = h("span", {}, t("copy"));
  const status = h("span", { class: "hidden", role: "status" });
  let timer = null;
  const click = async () => {
    const done = await copied(typeof text === "function" ? text() : text);
    button.focus({ preventScroll: true });
    status.textContent = t(done ? "copied" : "notCopied");
    words.textContent = t(done ? "copied" : "notCopied");
    clearTimeout(timer);
    timer = setTimeout(() => {
      status.textContent = "";
      words.textContent = t("copy");
    }, SHOWN_MS);
  };
  const button = h("button", { type: "button", class: "plain copy", on: { click } },
    words, h("span", { class: "hidden" }, ` ${what}`));
  return h("span", { class: "copy-way" }, button, status);
}

/** Whether the text is on the clipboard now. Browsers that refuse the clipboard may still copy a selection. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "hidden", "aria-hidden": "true", tabindex: "-1" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
