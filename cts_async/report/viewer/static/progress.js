// How a run that is going on comes along: its progress, each provider's account, and who shares its work.

import { h } from "./dom.js";
import { count, dollars, duration, score, size } from "./format.js";
import { facts, table, tableRow } from "./parts.js";
import { said } from "./said.js";
import { t } from "./words.js";
import { workersFact, workersTable } from "./workers.js";

/** The run's process as it is just now; nothing where none is at work. */
export function liveView(row) {
  const { live } = row;
  if (!row.running) return null;
  if (!live) return h("p", { class: "notice" }, t("runningSilently"));
  return [
    h("progress", { class: "bar", value: live.n_done, max: live.n_expected || 1, "aria-label": t("progress") }),
    facts(figures(live)),
    live.note ? said(live.note, "p", { class: "notice" }) : null,
    live.lanes.length ? lanes(live.lanes) : null,
    workersTable(live),
  ];
}

function figures(live) {
  const budget = (all, say) => (all === null ? null : t("ofBudget", { all: say(all) }));
  const interval = live.mean_low === null ? null : `[${score(live.mean_low)}, ${score(live.mean_high)}]`;
  const failed = live.n_failed ? t("nFailed", { n: count(live.n_failed) }) : null;
  return [
    [t("done"), ofAll(live.n_done, live.n_expected, count), failed],
    [t("eta"), duration(live.eta_s)],
    [t("meanSoFar"), score(live.mean), interval],
    [t("spent"), dollars(live.spent_usd), budget(live.max_usd, dollars)],
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
    said(lane.name),
    ofAll(lane.in_flight, lane.places, count),
    count(lane.waiting),
    ofAll(lane.calls_per_min, lane.calls_allowed, count),
    ofAll(lane.tokens_per_min, lane.tokens_allowed, amount),
    count(lane.answers_429),
    laneState(lane),
  ])), { class: "stack" });
}

function laneState(lane) {
  const why = said(lane.reason, "small");
  if (lane.open_s !== null) return [h("span", { class: "bad" }, t("laneDown", { time: duration(lane.open_s) })), why];
  if (lane.paused_s > 0) return [t("lanePaused", { time: duration(lane.paused_s) }), why];
  return lane.reason ? said(lane.reason) : t("laneWell");
}
