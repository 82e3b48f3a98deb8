// A run's instances: filtered, sorted, fifty at a time. The address holds the filter.

import { address, get, SERVED } from "./api.js";
import { fill, h } from "./dom.js";
import { filterForm } from "./filters.js";
import { count, NONE, rate } from "./format.js";
import { beginning } from "./longtext.js";
import { empty, held, scoreBar, stepRow, table, tableRow, trouble } from "./parts.js";
import { go, href } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { remember, startOf } from "./walk.js";
import { t } from "./words.js";

const PAGE = 50;
const INDEXING_MS = 800;
const GROWN_MS = 2000;

/** What of an address asks for instances. */
export function filterOf({ judge, sort, min, max, unknown, failed, text }) {
  return { judge, sort, min, max, unknown, failed, text };
}

/**
 * The list under its filters. `update(query)` follows the address; `grown()` is called when the run has more instances;
 * `seen(found, judge)` is called with each page that was fetched.
 */
export function instanceBrowser(query, signal, seen) {
  const list = h("div", { class: "list", "aria-busy": "true" });
  const status = h("p", { class: "muted small", role: "status", "aria-live": "polite", tabindex: "-1" });
  const saved = h("span", { class: "small" });
  const pages = h("nav", { class: "pager", "aria-label": t("pages") });
  const asked = (filter) => go(href("/run", { run: query.run, ...filter }), { replace: true });
  const form = filterForm(asked, () => status.focus({ preventScroll: true }));
  let now = query;
  let asking = new AbortController();
  let [timer, growing, drawn] = [null, null, ""];
  signal.addEventListener("abort", () => {
    asking.abort();
    clearTimeout(timer);
    clearTimeout(growing);
  });

  async function load({ quietly = false } = {}) {
    asking.abort();
    clearTimeout(timer);
    asking = new AbortController();
    const mine = asking.signal;
    list.setAttribute("aria-busy", "true");
    if (!quietly) status.textContent = t("loading");
    try {
      const asked = { run: now.run, ...filterOf(now), after: now.after };
      const found = await gather("instances", asked, mine, (n) => { status.textContent = t("searching", { n }); });
      if (mine.aborted) return;
      draw(found);
      if (found.ready < 1) timer = setTimeout(() => load({ quietly: true }), INDEXING_MS);
    } catch (error) {
      if (mine.aborted) return;
      list.removeAttribute("aria-busy");
      drawn = "";
      fill(list, trouble(error, () => load()));
      status.textContent = "";
    }
  }

  function again() {
    growing = held(list) ? setTimeout(again, GROWN_MS) : null;
    if (growing === null) load({ quietly: true });
  }

  function draw(found) {
    list.removeAttribute("aria-busy");
    status.textContent = statusWords(found);
    const csv = address("csv", { run: now.run, ...filterOf(now) });
    fill(saved, SERVED && found.n > 0 ? h("a", { href: csv, download: true }, t("downloadCsv")) : null);
    seen(found, now.judge);
    const place = Number(now.p ?? 1);
    remember(now.run, filterOf(now), place, now.after, found);
    fill(pages, pager(now, place, found));
    const rows = JSON.stringify([found.rows, found.n > 0]);
    if (rows === drawn) return;
    drawn = rows;
    const chosen = list.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.id : undefined;
    fill(list, found.rows.length ? rowsTable(now, found.rows) : empty(t(found.n ? "nothingFits" : "noInstances")));
    if (chosen !== undefined) focusRow(list, chosen);
  }

  function toBeginning() {
    status.focus({ preventScroll: true });
    status.scrollIntoView({ block: "start" });
  }

  return {
    element: h("div", {}, form.element, h("div", { class: "list-head" }, status, saved), list, pages),
    begin(judges) { form.show(now, judges); load(); },
    update(next) {
      const turned = (next.after ?? "") !== (now.after ?? "");
      now = next;
      form.follow(next);
      load().then(() => turned && toBeginning());
    },
    grown() { growing ??= setTimeout(again, GROWN_MS); },
    focus: form.focus,
    step: (by) => stepRow(list, by),
  };
}

/** A page of rows. A search for text answers in slices, so it is asked until the page is full. */
export async function gather(name, asked, signal, along) {
  const rows = [];
  let { after } = asked;
  for (;;) {
    const part = await get(name, { ...asked, after, limit: PAGE - rows.length }, signal);
    rows.push(...part.rows);
    if (rows.length >= PAGE || part.next === null) return { ...part, rows };
    after = part.next;
    along(rows.length);
  }
}

/** How many instances there are, and how many of them fit. */
export function statusWords(found) {
  const words = found.total === null ? t("ofInstances", { n: count(found.rows.length), all: count(found.n) })
    : found.total === found.n ? t("nInstances", { n: count(found.n) })
      : t("fitting", { n: count(found.total), all: count(found.n) });
  return found.ready < 1 ? `${words} · ${t("indexing", { share: rate(found.ready) })}` : words;
}

function rowsTable(query, rows) {
  const heads = [
    [t("instance"), "name"], ["ID"], [t("score"), "number"], [t("unknownCount"), "number"], [t("failure")],
  ];
  const body = rows.map((row) => tableRow(heads, cells(query, row), { class: "link-row", "data-id": row.id }));
  const caption = t("instancesOf", { run: visible(query.run) });
  return table(caption, heads, body, { class: "stack quiet-caption instances" });
}

function cells(query, row) {
  const address = href("/instance", { run: query.run, id: row.id });
  const title = row.blurred_query || row.fused_query || beginning(row.id);
  const intent = title === row.fused_query ? null : untrusted(row.fused_query, "small");
  return [
    [untrusted(title, "a", { class: "row-link", href: address }), intent],
    untrusted(beginning(row.id, 100), "code"),
    row.failed ? NONE : scoreBar(row.score),
    row.asked ? t("of", { n: row.unknown, all: row.asked }) : NONE,
    row.failed ? h("span", { class: "bad" }, "✕ ", untrusted(row.failed)) : "",
  ];
}

function pager(query, place, found) {
  const filter = filterOf(query);
  const to = (words, page, after) => {
    const address = href("/run", { run: query.run, ...filter, p: page > 1 ? page : "", after });
    return h("a", { class: "button", href: address }, words);
  };
  const before = place > 1 ? startOf(query.run, filter, place - 1) : null;
  return [
    place > 1 ? to(t("firstPage"), 1, "") : null,
    before !== null ? to(t("previousPage"), place - 1, before) : null,
    place > 1 || found.next !== null ? h("span", { class: "muted" }, t("pageN", { n: place })) : null,
    found.next !== null ? to(t("nextPage"), place + 1, found.next) : null,
  ];
}

function focusRow(list, id) {
  const row = [...list.querySelectorAll("tr")].find((one) => one.dataset.id === id);
  row?.querySelector("a").focus({ preventScroll: true });
}
