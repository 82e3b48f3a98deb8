// The journal's lines about an instance, and any one of them as it stands.

import { get } from "./api.js";
import { copyButton } from "./copy.js";
import { fill, h } from "./dom.js";
import { count, duration, NONE, size } from "./format.js";
import { pieces } from "./longtext.js";
import { empty, later, table, tableRow, trouble } from "./parts.js";
import { untrusted, visible } from "./untrusted.js";
import { t } from "./words.js";

const INDEXING_MS = 1000;

/** The steps, fetched when they are unfolded. */
export function rawSteps(page, signal) {
  const place = h("div", {});
  let begun = false;
  const unfold = () => {
    if (begun) return;
    begun = true;
    later(place, () => steps(page, signal), signal);
  };
  const title = page.steps === null ? t("showSteps") : t("showNSteps", { n: count(page.steps) });
  const toggle = (event) => event.target.open && unfold();
  return h("details", { class: "raw", on: { toggle } }, h("summary", {}, title), place);
}

async function steps(page, signal) {
  const heads = [
    [t("step"), "name"], [t("model")], [t("tokens"), "number"], [t("time"), "number"], [t("attempts"), "number"],
    [t("bytes"), "number"], [t("record")],
  ];
  const view = table(t("stepsCaption"), heads, [], { class: "stack quiet-caption" });
  const body = view.querySelector("tbody");
  const end = h("div", {});
  const record = h("div", { class: "record", "aria-live": "polite" });
  const more = async (after) => {
    const part = await known(page, after, signal);
    body.append(...part.steps.map((step) => tableRow(heads, cells(step, () => show(page, step, record, signal)))));
    const further = () => more(part.next).catch((error) => signal.aborted || fill(end, trouble(error, further)));
    fill(end, part.next === null ? null : h("button", { type: "button", on: { click: further } }, t("moreSteps")));
  };
  await more("");
  return body.childElementCount ? [view, end, record] : empty(t("noSteps"));
}

/** The steps after one, once the journal is indexed so far that they are known. */
async function known(page, after, signal) {
  for (;;) {
    const part = await get("steps", { run: page.run, id: page.id, after }, signal);
    if (part.total !== null || part.steps.length || signal.aborted) return part;
    await new Promise((resolve) => setTimeout(resolve, INDEXING_MS));
  }
}

function cells(step, open) {
  const failed = h("span", { class: "badge failed" }, "✕ ", step.error ? untrusted(step.error) : t("failed"));
  const [input, output] = [step.input_tokens, step.output_tokens].map((tokens) => size(tokens, ""));
  const which = h("span", { class: "hidden" }, ` ${visible(step.step)}`);
  return [
    [untrusted(step.step, "code"), step.ok ? null : [" ", failed]],
    untrusted(step.model || NONE),
    step.input_tokens || step.output_tokens ? t("inOut", { input, output }) : NONE,
    duration(step.latency_s), count(step.attempts), size(step.bytes),
    h("button", { type: "button", class: "plain", on: { click: open } }, t("show"), which),
  ];
}

async function show(page, step, place, signal) {
  const title = h("h3", { tabindex: "-1" }, untrusted(step.step, "code"));
  let json = "";
  const copy = copyButton(t("record"), () => json);
  copy.hidden = true;
  const body = h("div", { class: "json", tabindex: "0", role: "region", "aria-label": t("record") });
  fill(place, h("div", { class: "card-head" }, title, copy), body);
  title.focus();
  await later(body, async () => {
    json = JSON.stringify(await get("step", { run: page.run, at: step.at }, signal), null, 2);
    copy.hidden = false;
    return pieces(json);
  }, signal);
}
