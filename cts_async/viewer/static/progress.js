// How a run that is going on comes along: its progress, each provider's account, and who shares its work.

import { h, untrusted, visible } from "./dom.js";
import { cost, count, dollars, duration, size } from "./format.js";
import { facts, table, tableRow } from "./parts.js";
import { t } from "./words.js";

/** The run's process as it is just now; nothing where none is at work. The run's own numbers are shown elsewhere. */
export function liveView(row) {
  const { live } = row;
  if (!row.running) return null;
  if (!live) return h("p", { class: "notice" }, t("runningSilently"));
  return [
    h("progress", { class: "bar", value: live.n_done, max: live.n_expected || 1, "aria-label": t("progress") }),
    facts(figures(row)),
    live.note ? untrusted(live.note, "p", { class: "notice" }) : null,
    live.lanes.length ? lanes(live.lanes) : null,
    batchesTable(live),
    workersTable(live),
  ];
}

function figures({ live, n_expected: instances }) {
  const budget = (all, say) => (all === null ? null : t("ofBudget", { all: say(all) }));
  // A process that judges or repeats some of the instances counts other failures than the run.
  const failed = live.n_expected !== instances && live.n_failed ? t("nFailed", { n: count(live.n_failed) }) : null;
  const [spent, unpriced] = cost(live.spent_usd, live.unpriced_models);
  return [
    [t("done"), ofAll(live.n_done, live.n_expected, count), failed],
    [t("eta"), duration(live.eta_s)],
    [t("spent"), spent, unpriced ?? budget(live.max_usd, dollars)],
    [t("calls"), count(live.calls), budget(live.max_calls, count)],
    [t("tokens"), amount(live.tokens), budget(live.max_tokens, amount)],
    workersFact(live),
  ];
}

const amount = (tokens) => size(tokens, "");
const ofAll = (now, all, say) => (all === null ? say(now) : t("of", { n: say(now), all: say(all) }));

/** The sentence that is read out when a tenth more is done. */
export function progressWords(row) {
  const { live } = row;
  if (!live) return "";
  return t("progressWords", { n: count(live.n_done), all: count(live.n_expected), failed: count(live.n_failed) });
}

function lanes(all) {
  const heads = [
    [t("provider"), "name"], [t("inFlight"), "number"], [t("waiting"), "number"],
    [t("callsPerMin"), "number"], [t("tokensPerMin"), "number"], ["429", "number"], [t("state")],
  ];
  return table(t("providers"), heads, all.map((lane) => tableRow(heads, [
    untrusted(lane.name),
    ofAll(lane.in_flight, lane.places, count),
    count(lane.waiting),
    ofAll(lane.calls_per_min, lane.calls_allowed, count),
    ofAll(lane.tokens_per_min, lane.tokens_allowed, amount),
    count(lane.answers_429),
    laneState(lane),
  ])), { class: "stack" });
}

function laneState(lane) {
  const why = untrusted(lane.reason, "small");
  if (lane.open_s !== null) return [h("span", { class: "bad" }, t("laneDown", { time: duration(lane.open_s) })), why];
  if (lane.paused_s > 0) return [t("lanePaused", { time: duration(lane.paused_s) }), why];
  return lane.reason ? untrusted(lane.reason) : t("laneWell");
}

/** A row for each batch that has not ended, with its requests as the provider counts them. */
function batchesTable({ batches = [], time }) {
  if (!batches.length) return null;
  const heads = [
    [t("batch"), "name"], [t("state"), "name"], [t("done"), "number"], [t("failed"), "number"], [t("since"), "number"],
  ];
  return table(t("batches"), heads, batches.map((batch) => tableRow(heads, [
    untrusted(batch.id ? `${batch.model} ${batch.id}` : batch.model),
    untrusted(batch.state),
    ofAll(batch.n_done, batch.n_requests, count),
    count(batch.n_failed),
    duration(Math.max(0, time - batch.since)),
  ])), { class: "stack" });
}

// --- Workers

// So long without a word is too long; so many have no row each; of those that are not well only a few have one.
const SILENT_S = 5;
const MANY = 16;
const FEW = 3;

const isLost = (worker) => worker.state === "lost";
const isSilent = (worker) => ["working", "idle"].includes(worker.state) && worker.heard_s > SILENT_S;

/** How many there are, as a name with its value; null where there are none. */
function workersFact({ workers = [], workers_wanted: wanted = 0 }) {
  if (!workers.length) return null;
  const there = workers.filter((worker) => !isLost(worker) && worker.state !== "starting");
  const hosts = new Set(there.map((worker) => worker.host)).size;
  const lost = workers.filter(isLost).length;
  const n = there.length < wanted ? t("of", { n: count(there.length), all: count(wanted) }) : count(there.length);
  return [t("workers"), n, t("workersWhere", { hosts: count(hosts), lost: count(lost) })];
}

/** A row each; of very many, and of those that were lost, only some. */
function workersTable({ workers = [] }) {
  const there = workers.filter((worker) => !isLost(worker));
  const listed = there.length < MANY ? there : there.filter(isSilent).slice(0, FEW);
  const rows = [...listed, ...workers.filter(isLost).slice(-FEW)];
  if (!rows.length) return null;
  const heads = [
    [t("worker"), "name"], [t("host"), "name"], [t("inHand"), "number"], [t("done"), "number"],
    [t("callsPerMin"), "number"], [t("state")],
  ];
  return table(t("workers"), heads, rows.map((worker) => tableRow(heads, [
    untrusted(worker.name),
    untrusted(worker.host),
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
    worker.note ? untrusted(worker.note, "small") : null,
  ];
}
