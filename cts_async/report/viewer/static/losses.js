// Where an instance lost its points: how far each nugget came on its way into the answer.

import { h } from "./dom.js";
import { count, score } from "./format.js";
import { beginning } from "./longtext.js";
import { href } from "./route.js";
import { untrusted, visible } from "./untrusted.js";
import { t } from "./words.js";

const STAGES = ["not_asked", "not_found", "found", "read", "unknown"];
const TITLE = 80;

/** Whether anything is known of the way of a nugget. */
export const hasLosses = ({ nuggets }) => nuggets.some((nugget) => nugget.loss);

/** "27.0 points lost: 15.0 never found, 12.0 read, not said", and how that is known. */
export function lossSummary(page) {
  if (!hasLosses(page)) return null;
  const lost = (stage) => page.nuggets.reduce((sum, { loss }) => sum + (loss?.stage === stage ? loss.points : 0), 0);
  const parts = STAGES.map((stage) => [stage, lost(stage)]).filter(([, points]) => points > 0);
  if (parts.length === 0) return null;
  const points = score(parts.reduce((sum, [, part]) => sum + part, 0));
  const words = parts.map(([stage, part]) => t("lossPart", { points: score(part), stage: t(`loss_${stage}`) }));
  return h("div", { class: "losses" },
    h("p", {}, h("strong", {}, t("lossTotal", { points })), " ", words.join(t("lossComma"))),
    h("p", { class: "muted small" }, t("lossNote", { judge: visible(page.scores[0]?.judge ?? "") })));
}

/** How far a nugget came, and the result or page that shows it. */
export function where({ run, id }, { loss }) {
  if (!loss) return null;
  const { document } = loss;
  return h("div", { class: "where" },
    h("span", {}, t(`loss_${loss.stage}`), loss.points > 0 ? ` (−${score(loss.points)})` : null),
    document ? h("a", { href: href("/instance", { run, id, at: `event-${document.event}` }) }, place(document)) : null,
    document?.title ? untrusted(beginning(document.title, TITLE), "small", { class: "muted" }) : null);
}

function place({ kind, event, rank }) {
  return t(kind === "snippet" ? "lossResult" : "lossPage", { n: count(event), rank: count(rank) });
}
