// Numbers, amounts and times in the reader's language.

import { visible } from "./dom.js";
import { language, t } from "./words.js";

export const NONE = "–";

const locale = () => (language() === "zh" ? "zh-CN" : "en-GB");

// Untrusted numbers may be of any size: huge ones are written with a power of ten.
const HUGE = 1e15;

function formatted(value, options) {
  if (value === null || value === undefined) return NONE;
  const shown = Math.abs(value) < HUGE ? options : { ...options, notation: "scientific" };
  return new Intl.NumberFormat(locale(), shown).format(value);
}

export const count = (value) => formatted(value, { maximumFractionDigits: 0 });
export const score = (value) => formatted(value, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const rate = (value) =>
  formatted(value, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const weight = (value) => formatted(value, { maximumFractionDigits: 2 });

/** A difference of scores, its sign always there. */
export function signed(value) {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return formatted(value, { ...digits, signDisplay: "exceptZero" }).replace("-", "\u2212");
}

/** A p-value; one that would be written as 0 as below the smallest that is not. */
export const pValue = (value) => (value < 0.00005 ? "< 0.0001" : formatted(value, { maximumFractionDigits: 4 }));

export function dollars(value) {
  if (value === null || value === undefined) return NONE;
  const digits = value !== 0 && Math.abs(value) < 0.1 ? 4 : 2;
  return `$${formatted(value, { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** A cost and a remark on it: dollars as far as the prices of models are known, and that others are not. */
export function cost(known, unpriced) {
  if (!unpriced) return [dollars(known), null];
  const remark = `${known ? "+ " : ""}${t("unpriced", { n: count(unpriced) })}`;
  return known ? [dollars(known), remark] : [t("unknownCost"), remark];
}

/** Bytes, or with another unit or none what else is counted, in at most four digits. */
export function size(bytes, unit = "B") {
  if (bytes < 1000) return `${count(bytes)} ${unit}`.trimEnd();
  const [amount, prefix] = bytes < 999_500 ? [bytes / 1e3, "k"] : [bytes / 1e6, "M"];
  return `${formatted(amount, { maximumFractionDigits: amount < 10 ? 1 : 0 })} ${prefix}${unit}`;
}

/** Seconds as people say them: 8.3 s, 2 min 16 s, 3 h 5 min. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 60) return t("seconds", { n: formatted(seconds, { maximumFractionDigits: seconds < 10 ? 1 : 0 }) });
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (hours > 0) return `${t("hours", { n: count(hours) })} ${t("minutes", { n: minutes })}`;
  return `${t("minutes", { n: minutes })} ${t("seconds", { n: rest })}`;
}

const UNITS = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];

/** How long ago an ISO 8601 moment is: "3 days ago". */
export function age(value) {
  const seconds = (Date.now() - new Date(value).getTime()) / 1000;
  if (Number.isNaN(seconds)) return moment(value);
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" });
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return format.format(-Math.round(seconds / length), unit);
}

/** A moment: ISO 8601 as a text, or seconds since 1970. */
export function moment(value) {
  if (value === null || value === undefined) return NONE;
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  if (Number.isNaN(date.getTime())) return visible(String(value));
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(date);
}
