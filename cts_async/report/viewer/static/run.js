// One run: how it comes along, what it found, its instances, and what determined it.

import { get, watch } from "./api.js";
import { fill, h } from "./dom.js";
import { count, dollars, duration, moment, NONE, rate, score, size } from "./format.js";
import { crumbs } from "./header.js";
import { instanceBrowser } from "./instances.js";
import { done, facts, field, frame, later, section, select, smokeBadge, table, tableRow } from "./parts.js";
import { liveView, progressWords } from "./progress.js";
import { go, href } from "./route.js";
import { kindBadge, state } from "./run_list.js";
import { untrusted, visible } from "./untrusted.js";
import { t } from "./words.js";

/** The run named in the address; its list of instances follows the filters there. */
export function runPage({ main, heading, query, signal }) {
  const head = fill(heading(query.run ?? ""), untrusted(query.run ?? ""));
  const page = frame(crumbs([[t("runs"), "#/"], [untrusted(query.run ?? "")]]), head);
  const browser = instanceBrowser(query, signal);
  fill(main, page.element);
  later(page.body, async () => {
    const found = await get("run", { run: query.run }, signal);
    browser.begin(found.row.scores.map((one) => one.judge));
    fill(head, untrusted(found.row.system || found.row.name));
    return layout(found, page.marks, browser, signal);
  }, signal);
  return {
    update: browser.update,
    keys: { "/": browser.focus, j: () => browser.step(1), k: () => browser.step(-1), u: () => go("#/") },
  };
}
runPage.identity = (query) => query.run;

function layout(page, marks, browser, signal) {
  const live = h("div", { class: "live" });
  const summary = h("div", {});
  const announced = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
  let tenth = -1;
  const draw = (row) => {
    fill(marks, state(row), kindBadge(row), smokeBadge(row.smoke_test));
    fill(live, liveView(row));
    fill(summary, overview(row, page.summary));
    const now = row.live ? Math.floor((10 * row.live.n_done) / (row.live.n_expected || 1)) : tenth;
    if (now > tenth) announced.textContent = progressWords(row);
    tenth = Math.max(now, tenth);
  };
  draw(page.row);
  let seen = page.row.n_done;
  const changed = (row) => {
    draw(row);
    if (row.n_done !== seen) browser.grown();
    seen = row.n_done;
  };
  watch(page.row.name, { changed }, signal);
  return [
    page.row.smoke_test ? h("p", { class: "notice" }, t("smokeWhy")) : null,
    live, announced, summary, beside(page),
    section("instances", t("instances"), browser.element),
    section("settings", t("settings"), settings(page)),
  ];
}

function overview(row, summary) {
  const [first] = row.scores;
  // While the process runs, its own numbers are shown above; each number is shown once.
  const atRest = !row.live;
  return [
    facts([
      atRest && first ? [t("mean"), score(first.mean), untrusted(first.judge)] : null,
      first
        ? ["p50 · p90", `${score(first.p50)} · ${score(first.p90)}`, atRest ? null : untrusted(first.judge)]
        : null,
      atRest ? [t("done"), done(row)] : null,
      [t("failed"), h("span", { class: row.n_failed ? "bad" : "" }, count(row.n_failed))],
      [t("unknownRate"), rate(row.unknown_rate)],
      atRest ? [t("cost"), dollars(row.cost_usd)] : null,
      [t("time"), duration(row.wall_s)],
    ], "facts large"),
    row.scores.length > 1 ? judges(row.scores) : null,
    Object.keys(summary?.tokens ?? {}).length ? tokens(summary.tokens) : null,
  ];
}

function judges(scores) {
  const heads = [
    [t("judge"), "name"], [t("mean"), "number"], ["p50", "number"], ["p90", "number"], [t("scored"), "number"],
  ];
  const cells = (one) => [untrusted(one.judge), score(one.mean), score(one.p50), score(one.p90), count(one.n_scored)];
  return table(t("byJudge"), heads, scores.map((one) => tableRow(heads, cells(one))), { class: "stack narrow" });
}

function tokens(byModel) {
  const usage = ([model, used], index) => {
    const [input, output] = [used?.input, used?.output].map((amount) => size(Number(amount) || 0, ""));
    return [index ? " · " : "", untrusted(model), ` ${t("inOut", { input, output })}`];
  };
  return h("p", { class: "muted small" }, t("tokensBy"), Object.entries(byModel).map(usage));
}

/** Where this run can be seen beside another one. */
function beside({ row, beside: others }) {
  if (others.length === 0) return null;
  const options = [["", t("choose")], ...others.map((name) => [name, visible(name)])];
  const compare = (name) => name && go(href("/compare", { a: row.name, b: name }));
  return h("div", { class: "beside" }, field(t("compareWith"), select(options, "", compare)),
    row.scores.length ? h("a", { href: href("/leaderboard", { data: row.data_sha }) }, t("leaderboard")) : null);
}

function settings({ row, manifest }) {
  return [
    facts([
      [t("data"), untrusted(row.data || NONE)],
      row.k === null ? null : ["k", count(row.k)],
      row.scheme ? [t("scheme"), untrusted(row.scheme)] : null,
      row.mode ? [t("mode"), untrusted(row.mode)] : null,
      [t("started"), moment(row.started)],
      [t("ended"), moment(row.ended)],
    ]),
    h("details", {}, h("summary", {}, t("manifest")),
      untrusted(JSON.stringify(manifest, null, 2), "pre", { lang: "", tabindex: "0" })),
  ];
}
