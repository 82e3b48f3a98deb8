// The controls above the list of instances.

import { fill, h } from "./dom.js";
import { field, select } from "./parts.js";
import { visible } from "./untrusted.js";
import { t } from "./words.js";

const TYPING_MS = 250;
const SCORE = { type: "number", min: "0", max: "100", step: "any", inputmode: "decimal" };

/**
 * Controls that call `changed(filter)` with the filter: {text, judge, sort, min, max, unknown, failed}.
 * `leave()` is called at Enter in a field, after which single keys walk the list.
 */
export function filterForm(changed, leave) {
  const keydown = (event) => {
    // Of an input method it is the Enter that ends a word.
    if (event.key !== "Enter" || event.isComposing || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    tell();
    leave();
  };
  const element = h("form", { class: "filters", role: "search", "aria-label": t("filter"), on: { keydown } });
  const text = h("input", { type: "search", placeholder: t("searchHint"), autocomplete: "off", on: { input: typed } });
  const [min, max] = ["0", "100"].map((placeholder) => h("input", { ...SCORE, placeholder, on: { input: typed } }));
  const sort = choice({ "": "sortFile", score: "sortLow", "-score": "sortHigh", "-unknown": "sortUnknown" });
  const unknown = choice({ "": "any", none: "unknownNone", some: "unknownSome", all: "unknownAll" });
  const failed = select([["", t("any")], ["0", t("failedNot")], ["1", t("failedOnly")]], "", tell);
  const judge = select([], "", tell);
  const click = () => {
    follow({});
    tell();
    text.focus();
  };
  const clear = h("button", { type: "button", class: "plain", on: { click } }, t("clear"));
  const controls = { text, judge, sort, min, max, unknown, failed };
  let timer = null;

  function choice(keys) {
    return select(Object.entries(keys).map(([value, key]) => [value, t(key)]), "", tell);
  }
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
      const others = judges.slice(1).map((name) => h("option", { value: name }, visible(name)));
      fill(judge, h("option", { value: "" }, t("scoringJudge")), others);
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
