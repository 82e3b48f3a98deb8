// The processes that share the work of a run that is going on, where there are any.

import { h } from "./dom.js";
import { count, duration } from "./format.js";
import { table, tableRow } from "./parts.js";
import { said, visible } from "./said.js";
import { t } from "./words.js";

// So long without a word is too long; so many have no row each; of those that are not well only a few have one.
const SILENT_S = 5;
const MANY = 16;
const FEW = 3;

const isLost = (worker) => worker.state === "lost";
const isSilent = (worker) => ["working", "idle"].includes(worker.state) && worker.heard_s > SILENT_S;

/** How many there are, as a name with its value; null where there are none. */
export function workersFact({ workers = [], workers_wanted: wanted = 0 }) {
  if (!workers.length) return null;
  const there = workers.filter((worker) => !isLost(worker) && worker.state !== "starting");
  const hosts = new Set(there.map((worker) => worker.host)).size;
  const lost = workers.filter(isLost).length;
  const n = there.length < wanted ? t("of", { n: count(there.length), all: count(wanted) }) : count(there.length);
  return [t("workers"), n, t("workersWhere", { hosts: count(hosts), lost: count(lost) })];
}

/** A row each; of very many, and of those that were lost, only some. */
export function workersTable({ workers = [] }) {
  const there = workers.filter((worker) => !isLost(worker));
  const told = there.length < MANY ? there : there.filter(isSilent).slice(0, FEW);
  const rows = [...told, ...workers.filter(isLost).slice(-FEW)];
  if (!rows.length) return null;
  const heads = [
    [t("worker"), "name"], [t("host"), "name"], [t("inHand"), "number"], [t("done"), "number"],
    [t("callsPerMin"), "number"], [t("state")],
  ];
  return table(t("workers"), heads, rows.map((worker) => tableRow(heads, [
    said(worker.name),
    said(worker.host),
    count(worker.in_hand),
    count(worker.done),
    count(worker.calls_per_min),
    state(worker),
  ])), { class: "stack" });
}

function state(worker) {
  const silent = isSilent(worker);
  const words = silent ? t("workerSilent", { time: duration(worker.heard_s) }) : visible(t(`worker_${worker.state}`));
  return [
    h("span", { class: silent || isLost(worker) ? "bad" : null }, words),
    worker.note ? said(worker.note, "small") : null,
  ];
}
