// How a run that is going on comes along: its progress, and each provider's account.

import { h } from "./dom.js";
import { count, dollars, duration, score, size } from "./format.js";
import { facts, table, tableRow } from "./parts.js";
import { said } from "./said.js";
import { t } from "./words.js";

/** The run's process as it is just now; nothing where none is at work. */
export function liveView(row) {
  const { live } = row;
  if (!row.running) return null;
  if (!live) return h("p", { class: "notice" }, t("runningSilently"));
  return [
    h("progress", { class: "bar", value: live.n_done, max: live.n_expected || 1, "aria-label": t("progress") }),
    facts([
      [t("done"), t("of", { n: count(live.n_done), all: count(live.n_expected) }), live.n_failed ? t("nFailed", { n: count(live.n_failed) }) : null],
      [t("eta"), live.eta_s === null ? "–" : duration(live.eta_s)],
      [t("meanSoFar"), score(live.mean), live.mean_low === null ? null : `[${score(live.mean_low)}, ${score(live.mean_high)}]`],
      [t("spent"), dollars(live.spent_usd), live.max_usd === null ? null : t("ofBudget", { all: dollars(live.max_usd) })],
      [t("calls"), count(live.calls), live.max_calls === null ? null : t("ofBudget", { all: count(live.max_calls) })],
      [t("tokens"), size(live.tokens, ""), live.max_tokens === null ? null : t("ofBudget", { all: size(live.max_tokens, "") })],
    ]),
    live.note ? said(live.note, "p", { class: "notice" }) : null,
    live.lanes.length ? lanes(live.lanes) : null,
  ];
}

/** The sentence that is read out when a tenth more is done. */
export function progressWords(row) {
  const { live } = row;
  if (!live) return "";
  return t("progressWords", { n: count(live.n_done), all: count(live.n_expected), failed: count(live.n_failed) });
}

function lanes(all) {
  const heads = [[t("provider"), "name"], [t("inFlight"), "number"], [t("waiting"), "number"], [t("callsPerMin"), "number"],
    [t("tokensPerMin"), "number"], ["429", "number"], [t("state")]];
  return table(t("providers"), heads, all.map((lane) => tableRow(heads, [
    said(lane.name),
    lane.places === null ? count(lane.in_flight) : t("of", { n: count(lane.in_flight), all: count(lane.places) }),
    count(lane.waiting),
    ofAllowed(lane.calls_per_min, lane.calls_allowed, count),
    ofAllowed(lane.tokens_per_min, lane.tokens_allowed, (tokens) => size(tokens, "")),
    count(lane.answers_429),
    laneState(lane),
  ])), { class: "stack" });
}

const ofAllowed = (now, allowed, say) => (allowed === null ? say(now) : t("of", { n: say(now), all: say(allowed) }));

function laneState(lane) {
  if (lane.open_s !== null) return [h("span", { class: "bad" }, t("laneDown", { time: duration(lane.open_s) })), said(lane.reason, "small")];
  if (lane.paused_s > 0) return [t("lanePaused", { time: duration(lane.paused_s) }), said(lane.reason, "small")];
  return lane.reason ? said(lane.reason) : t("laneWell");
}
