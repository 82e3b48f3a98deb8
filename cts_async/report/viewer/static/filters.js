// The controls above the list of instances.

import { fill, h } from "./dom.js";
import { field, select } from "./parts.js";
import { visible } from "./said.js";
import { t } from "./words.js";

const TYPING_MS = 250;
const SCORE = { type: "number", min: "0", max: "100", step: "any", inputmode: "decimal" };

/** Controls that call `changed(filter)` with what is asked for: {text, judge, sort, min, max, unknown, failed}. */
export function filterForm(changed) {
  const element = h("form", { class: "filters", role: "search", "aria-label": t("filter"), on: { submit: (event) => { event.preventDefault(); tell(); } } });
  const text = h("input", { type: "search", placeholder: t("searchHint"), autocomplete: "off", on: { input: typed } });
  const [min, max] = [h("input", { ...SCORE, placeholder: "0", on: { input: typed } }), h("input", { ...SCORE, placeholder: "100", on: { input: typed } })];
  const sort = select([["", t("sortFile")], ["score", t("sortLow")], ["-score", t("sortHigh")], ["-unknown", t("sortUnknown")]], "", tell);
  const unknown = select([["", t("any")], ["none", t("unknownNone")], ["some", t("unknownSome")], ["all", t("unknownAll")]], "", tell);
  const failed = select([["", t("any")], ["0", t("failedNot")], ["1", t("failedOnly")]], "", tell);
  const judge = select([], "", tell);
  const clear = h("button", { type: "button", class: "plain", on: { click: () => { follow({}); tell(); text.focus(); } } }, t("clear"));
  const controls = { text, judge, sort, min, max, unknown, failed };
  let timer = null;

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(tell, TYPING_MS);
  }
  function tell() {
    clearTimeout(timer);
    if (!min.checkValidity() || !max.checkValidity()) return;
    changed(Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value.trim()])));
    clear.hidden = Object.values(controls).every((control) => !control.value);
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
    /** Put the controls there, as the address has them; a choice of judge only where there is one. */
    show(query, judges) {
      fill(judge, h("option", { value: "" }, t("scoringJudge")), judges.slice(1).map((name) => h("option", { value: name }, visible(name))));
      fill(element, field(t("find"), text, "wide"),
        h("fieldset", { class: "range" }, h("legend", {}, t("score")), field(t("from"), min), field(t("to"), max)),
        judges.length > 1 ? field(t("judge"), judge) : null,
        field(t("unknownAnswers"), unknown), field(t("failures"), failed), field(t("sort"), sort), clear);
      follow(query);
    },
    follow,
    focus() { text.focus(); text.select(); },
  };
}
