// All runs there are, by the data they are over, the newest first.

import { get, onConnection, watch } from "./api.js";
import { fill, h } from "./dom.js";
import { moment } from "./format.js";
import { held, later, stepRow } from "./parts.js";
import { damagedNotice, orderChoice, runGroups } from "./run_list.js";
import { go, href } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { t } from "./words.js";

const DRAW_MS = 1000;
const MANY = 8;

/** Names and mean scores side by side; what is running goes on by itself. */
export function runsPage({ main, heading, query, signal }) {
  const place = h("div", {});
  const folder = h("p", { class: "lead" });
  const search = searchField(query.text ?? "", () => wanted.sort, () => stepRow(place, 1));
  const known = new Map();
  const order = orderChoice(query, (sort) => go(href("/", { ...wanted, sort }), { replace: true }));
  let [damaged, wanted] = [[], query];

  const draw = () => {
    search.element.hidden = known.size < MANY;
    const runs = [...known.values()].filter((row) => fits(row, wanted.text ?? ""));
    order.element.hidden = runs.length < 2;
    keepFocus(place, () => fill(place, runGroups(runs, known.size > 0, wanted), damagedNotice(damaged)));
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
  fill(main, h("div", { class: "page" }, fill(heading(t("runs")), t("runs")), folder, search.element, order.element, place));
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
function searchField(text, sort, leave) {
  const keydown = (event) => {
    if (event.key === "Enter" && !event.isComposing) leave();
  };
  const tell = () => go(href("/", { text: input.value.trim(), sort: sort() }), { replace: true });
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

/** Change what `place` holds; whichever link had the focus has it again. */
function keepFocus(place, change) {
  const nameOf = (link) => link.dataset.key ?? link.getAttribute("href");
  const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  change();
  if (!focused) return;
  const again = [...place.querySelectorAll("a")].find((link) => nameOf(link) === focused);
  again?.focus({ preventScroll: true });
}
