// Versions of a run: the button that lists them, the switch that shows all, and what changed between two.

import { get, SERVED } from "./api.js";
import { fill, h, untrusted, visible } from "./dom.js";
import { age, count, moment, NONE, score } from "./format.js";
import { badge, later, table, tableRow } from "./parts.js";
import { t } from "./words.js";

const DIGEST = /^[0-9a-f]{64}$/;
const DIGEST_LENGTH = 12;
const MAX_VALUE = 300;

/** "version 2" of a run among others; null for the only version of one. */
export function versionBadge({ version, versions = [], older }) {
  if (version === 1 && versions.length < 2) return null;
  return [badge("quiet", t("versionN", { n: count(version) })), older ? badge("caveat", t("olderVersion")) : null];
}

/**
 * A button that lists the versions of a run's lineage, [{name, version, ...}, ...] with the newest first, in a dialog.
 * `address(row)` is where choosing one leads. Null where there is no other version.
 */
export function versionButton(name, versions, address) {
  if (!versions || versions.length < 2) return null;
  const chosen = versions.find((row) => row.name === name);
  const key = `versions ${name}`;
  const words = t("versionOf", { n: count(chosen?.version ?? 1), all: count(versions.length) });
  const on = { click: () => showVersions(name, versions, address, key) };
  const hidden = h("span", { class: "hidden" }, ` ${visible(name)}`);
  return h("button", { type: "button", class: "plain versions", "aria-haspopup": "dialog", "data-key": key, on },
    h("span", {}, words), hidden, h("span", { "aria-hidden": "true" }, "▾"));
}

/** The versions as a table in a dialog, which Escape closes. */
function showVersions(name, versions, address, key) {
  const dialog = h("dialog", { class: "version-list", "aria-labelledby": "versions-title" });
  const close = () => dialog.close();
  const heads = [[t("versionHead"), "name"], [t("lastWorkedOn")], [t("changedHead")], [t("mean"), "number"]];
  const body = versions.map((row) => tableRow(heads, cells(row, name, address(row), close)));
  fill(dialog,
    h("h2", { id: "versions-title" }, t("versionsOf"), " ", untrusted(versions[0].series)),
    table(t("versionsOf"), heads, body, { class: "stack quiet-caption" }),
    h("button", { type: "button", on: { click: close } }, t("close")));
  dialog.addEventListener("close", () => {
    dialog.remove();
    // The page may have been drawn anew meanwhile: the button is another one then.
    [...document.querySelectorAll("button.versions")].find((button) => button.dataset.key === key)?.focus();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("a[aria-current], a")?.focus();
}

function cells(row, name, href, close) {
  const current = row.name === name ? "true" : null;
  const newest = row.older ? null : [" ", badge("accent", t("newestVersion"))];
  const [first] = row.scores;
  return [
    [h("a", { href, "aria-current": current, on: { click: close } }, t("versionN", { n: count(row.version) })), newest,
      untrusted(row.name, "small")],
    row.worked_on ? h("time", { datetime: row.worked_on, title: moment(row.worked_on) }, age(row.worked_on)) : NONE,
    changedWords(row.changed),
    first ? [score(first.mean), untrusted(first.judge, "small")] : NONE,
  ];
}

/** What changed, in a few words each. */
function changedWords(changed) {
  if (changed.length === 0) return NONE;
  // One element: on a narrow screen a cell's parts stand under each other.
  return h("span", {}, changed.map((words, index) => [index ? t("comma") : null, untrusted(words)]));
}

/** A switch for all versions, where there is one to show; `change(all)` is told of it. */
export function allSwitch(all, hasOlder, change) {
  if (!all && !hasOlder) return null;
  const on = { change: (event) => change(event.target.checked) };
  const box = h("input", { type: "checkbox", checked: all, "data-key": "all versions", on });
  return h("label", { class: "switch" }, box, t("allVersions"));
}

/** That a page is of an older version, with the way to the newest; nothing on the page of that. */
export function olderNotice({ name, version, older }, versions, address) {
  if (!older || !versions?.length) return null;
  const [newest] = versions;
  return h("p", { class: "notice" }, t("olderNotice", { n: count(version) }), " ", untrusted(name, "code"), ". ",
    h("a", { href: address(newest) }, t("toNewest", { n: count(newest.version) })));
}

// --- What changed

/** What a version differs in from the one that it was made from. */
export function changesView(run, signal) {
  const place = h("div", {});
  later(place, async () => drawn(await get("changes", { run }, signal)), signal);
  return place;
}

function drawn({ before, changed, settings, texts, problem }) {
  const words = h("p", {}, t("changedFrom"), " ", untrusted(before || NONE, "code"), ": ", changedWords(changed));
  const none = settings.length + texts.length === 0 && !problem;
  return [
    words, problem ? untrusted(problem, "p", { class: "notice" }) : null,
    none ? h("p", { class: "muted" }, t("noDifferences")) : null,
    settings.length ? settingsTable(settings) : null,
    texts.map(textView),
    SERVED || texts.length === 0 ? null : h("p", { class: "muted small" }, t("linesNotExported")),
  ];
}

function settingsTable(settings) {
  const heads = [[t("setting"), "name"], [t("before")], [t("after")]];
  const body = settings.map(({ name, before, after }) =>
    tableRow(heads, [untrusted(name, "code"), valueView(before), valueView(after)]));
  return table(t("changedSettings"), heads, body, { class: "stack" });
}

function valueView(value) {
  if (value === null) return h("span", { class: "muted" }, NONE);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (DIGEST.test(text)) return untrusted(`${text.slice(0, DIGEST_LENGTH)}…`, "code");
  return untrusted(text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text);
}

const STATUS = { "only before": "onlyBefore", "only after": "onlyAfter" };
const KINDS = { "+": "plus", "-": "minus", "@": "hunk" };

/** A text's difference, line by line; signs say what colours say. */
function textView({ file, status, lines, n_lines: all }) {
  const known = Object.hasOwn(STATUS, status) ? badge("quiet", t(STATUS[status])) : null;
  const line = (text) => untrusted(text || " ", "span", { class: `line ${KINDS[text[0]] ?? ""}`.trim(), lang: "" });
  const left = all - lines.length;
  return h("figure", { class: "changed-text" },
    h("figcaption", {}, untrusted(file, "code"), " ", known),
    lines.length ? h("div", { class: "changed-lines", role: "region", tabindex: "0", "aria-label": visible(file) },
      lines.map(line)) : null,
    left > 0 && lines.length ? h("p", { class: "muted small" }, t("moreLines", { n: count(left) })) : null);
}
