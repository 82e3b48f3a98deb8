// A run's instances, as a list.

import { h, untrusted, visible } from "./dom.js";
import { NONE } from "./format.js";
import { failures, listBrowser } from "./lists.js";
import { beginning } from "./longtext.js";
import { scoreBar, table, tableRow } from "./parts.js";
import { href } from "./route.js";
import { t } from "./words.js";

/** The list of the run in the address; `seen(found, query)` is called with each page that was fetched. */
export function instanceBrowser(query, signal, seen) {
  return listBrowser({ name: "instances", path: "/run", query, signal, choices, draw, key: () => query.run, seen });
}

function choices({ judges }) {
  const others = judges.slice(1).map((name) => [name, visible(name)]);
  return {
    judge: [t("judge"), [["", t("scoringJudge")], ...others]],
    unknown: [t("unknownAnswers"), [["", t("any")], ["none", t("unknownNone")], ["some", t("unknownSome")],
      ["all", t("unknownAll")]]],
    failed: failures(),
    sort: [t("sort"), [["", t("sortFile")], ["score", t("sortLow")], ["-score", t("sortHigh")],
      ["-unknown", t("sortUnknown")]]],
  };
}

function draw({ rows }, { run }) {
  const heads = [
    [t("instance"), "name"], ["ID"], [t("score"), "number"], [t("unknownCount"), "number"], [t("failure")],
  ];
  const body = rows.map((row) => tableRow(heads, cells(run, row), { class: "link-row", "data-id": row.id }));
  const caption = t("instancesOf", { run: visible(run) });
  return table(caption, heads, body, { class: "stack quiet-caption instances" });
}

function cells(run, row) {
  const title = row.blurred_query || row.fused_query || beginning(row.id);
  const intent = title === row.fused_query ? null : untrusted(row.fused_query, "small");
  return [
    [untrusted(title, "a", { class: "row-link", href: href("/instance", { run, id: row.id }) }), intent],
    untrusted(beginning(row.id, 100), "code"),
    row.failed ? NONE : scoreBar(row.score),
    row.asked ? t("of", { n: row.unknown, all: row.asked }) : NONE,
    row.failed ? h("span", { class: "bad" }, "✕ ", untrusted(row.failed)) : "",
  ];
}
