// Lists of instances, fifty at a time: of a run, and of several runs as a table. The address holds filter and order.

import { address, get, SERVED } from "./api.js";
import { fill, h } from "./dom.js";
import { count, rate } from "./format.js";
import { empty, field, held, keepFocus, select, stepRow, trouble } from "./parts.js";
import { go, href } from "./route.js";
import { t } from "./words.js";
import { remember, startOf } from "./walk.js";

const PAGE = 50;
const INDEXING_MS = 800;
const GROWN_MS = 2000;
const TYPING_MS = 250;
const SCORE = { type: "number", min: "0", max: "100", step: "any", inputmode: "decimal" };

/**
 * The answers to `name` under their filters, for the page at `path`. Of each answer `draw(found, query, to, redraw)` makes
 * what is shown where there are rows, `choices(found, query)` are those of the form, and `chosen(found, choose)` what else
 * belongs there; `seen(found, query)` is told of it. `key(found)` names the list; `order` is that of an address without one.
 * `update(query)` follows the address; `grown()` is called when there are more instances.
 */
export function listBrowser({ name, path, query, signal, draw, choices, key, chosen = null, seen = null, order = "" }) {
  const list = h("div", { class: "list", "aria-busy": "true" });
  const status = h("p", { class: "muted small", role: "status", "aria-live": "polite", tabindex: "-1" });
  const saved = h("span", { class: "small" });
  const pages = h("nav", { class: "pager", "aria-label": t("pages") });
  const to = (changes) => href(path, { ...now, after: "", p: "", ...changes });
  const choose = (changes) => go(to(changes), { replace: true });
  const form = filterForm(choose, () => status.focus({ preventScroll: true }));
  let [now, asking, timer, growing, drawn] = [query, new AbortController(), null, null, ""];
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
      const { p, ...asked } = { ...now, sort: now.sort ?? order };
      const found = await gather(name, asked, mine, (n) => { status.textContent = t("searching", { n }); });
      if (mine.aborted) return;
      show(found, asked);
      if (found.ready < 1) timer = setTimeout(() => load({ quietly: true }), INDEXING_MS);
    } catch (error) {
      if (mine.aborted) return;
      list.removeAttribute("aria-busy");
      drawn = status.textContent = "";
      fill(list, trouble(error, () => load()));
    }
  }

  function show(found, asked) {
    list.removeAttribute("aria-busy");
    status.textContent = statusWords(found);
    const csv = address("csv", { ...asked, ...(found.runs ? { runs: key(found) } : {}), after: "" });
    fill(saved, SERVED && found.n > 0 ? h("a", { href: csv, download: true }, t("downloadCsv")) : null);
    form.show(now, choices(found, now), chosen?.(found, choose, now));
    seen?.(found, now);
    remember(key(found), name, asked, Number(now.p ?? 1), found);
    fill(pages, pager(name, asked, now, found, to));
    const redraw = () => keepFocus(list, () =>
      fill(list, found.rows.length ? draw(found, now, to, redraw) : empty(t(found.n ? "nothingFits" : "noInstances"))));
    // What stays the same is left alone: somebody may be marking a text in it.
    const drawing = JSON.stringify([now, found.rows, found.means, found.n > 0]);
    if (drawing !== drawn) redraw();
    drawn = drawing;
  }

  function again() {
    growing = held(list) ? setTimeout(again, GROWN_MS) : null;
    if (growing === null) load({ quietly: true });
  }

  function toBeginning() {
    status.focus({ preventScroll: true });
    status.scrollIntoView({ block: "start" });
  }

  load();
  return {
    element: h("div", {}, form.element, h("div", { class: "list-head" }, status, saved), list, pages),
    update(next) {
      const turned = (next.after ?? "") !== (now.after ?? "");
      now = next;
      form.follow(next);
      load().then(() => turned && toBeginning());
    },
    grown() { growing ??= setTimeout(again, GROWN_MS); },
    keys: { "/": form.focus, j: () => stepRow(list, 1), k: () => stepRow(list, -1) },
  };
}

/** A page of rows. A search for text answers in slices, so it is asked until the page is full. */
async function gather(name, asked, signal, along) {
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
function statusWords(found) {
  const words = found.total === null ? t("ofInstances", { n: count(found.rows.length), all: count(found.n) })
    : found.total === found.n ? t("nInstances", { n: count(found.n) })
      : t("fitting", { n: count(found.total), all: count(found.n) });
  return found.ready < 1 ? `${words} · ${t("indexing", { share: rate(found.ready) })}` : words;
}

function pager(name, asked, now, found, to) {
  const page = Number(now.p ?? 1);
  const link = (words, p, after) => h("a", { class: "button", href: to({ p: p > 1 ? p : "", after }) }, words);
  const before = page > 1 ? startOf(name, asked, page - 1) : null;
  return [
    page > 1 ? link(t("firstPage"), 1, "") : null,
    before !== null ? link(t("previousPage"), page - 1, before) : null,
    page > 1 || found.next !== null ? h("span", { class: "muted" }, t("pageN", { n: page })) : null,
    found.next !== null ? link(t("nextPage"), page + 1, found.next) : null,
  ];
}

// --- The filters

/** The choice of failures. */
export const failures = () => [t("failures"), [["", t("any")], ["0", t("failedNot")], ["1", t("failedOnly")]]];

/**
 * Controls that call `changed(filter)` with {text, min, max} and the choices. `leave()` is called at Enter in a field,
 * after which single keys walk the list.
 */
function filterForm(changed, leave) {
  const keydown = (event) => {
    // Of an input method it is the Enter that ends a word.
    if (event.key !== "Enter" || event.isComposing || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    tell();
    leave();
  };
  const typed = () => {
    clearTimeout(timer);
    timer = setTimeout(tell, TYPING_MS);
  };
  const click = () => {
    follow({});
    tell();
    text.focus();
  };
  const element = h("form", { class: "filters", role: "search", "aria-label": t("filter"), on: { keydown } });
  const text = h("input", { type: "search", placeholder: t("searchHint"), autocomplete: "off", on: { input: typed } });
  const [min, max] = ["0", "100"].map((placeholder) => h("input", { ...SCORE, placeholder, on: { input: typed } }));
  const clear = h("button", { type: "button", class: "plain", on: { click } }, t("clear"));
  const controls = { text, min, max };
  let timer = null;

  function tell() {
    clearTimeout(timer);
    if (!min.checkValidity() || !max.checkValidity()) return;
    changed(Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value.trim()])));
  }
  function follow(query) {
    for (const [name, control] of Object.entries(controls)) {
      const value = query[name] ?? "";
      if (control !== document.activeElement || value.trim() !== control.value.trim()) control.value = value;
    }
    clear.hidden = Object.values(controls).every((control) => !control.value);
  }

  return {
    element,
    /** Offer choices, {name: [words, [[value, words], ...]]}, with `more` behind them, and follow the address. */
    show(query, choices, more = null) {
      const asked = Object.keys(choices).filter((name) => choices[name][1].length > 1);
      for (const name of asked) {
        controls[name] ??= select([], "", tell);
        fill(controls[name], choices[name][1].map(([value, words]) => h("option", { value }, words)));
        controls[name].value = query[name] ?? "";
      }
      if (element.dataset.asked !== asked.join(" ")) {
        fill(element, field(t("find"), text, "wide"),
          h("fieldset", { class: "range" }, h("legend", {}, t("score")), field(t("from"), min), field(t("to"), max)),
          asked.map((name) => field(choices[name][0], controls[name])), clear, more);
        element.dataset.asked = asked.join(" ");
        follow(query);
      }
      clear.hidden = Object.values(controls).every((control) => !control.value);
    },
    follow,
    focus() { text.focus(); text.select(); },
  };
}
