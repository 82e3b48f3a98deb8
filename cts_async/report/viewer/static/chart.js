// Small drawings: a value on an axis, with its interval.

import { svg } from "./dom.js";

const WIDTH = 220;
const HEIGHT = 22;
const MARGIN = 6;

/** An axis that all rows of a table share: from `low` to `high`, with room for every value. */
export function axis(values, { low = Infinity, high = -Infinity } = {}) {
  const known = values.filter((value) => Number.isFinite(value));
  const from = Math.min(low, ...known);
  const to = Math.max(high, ...known);
  const span = to - from || 1;
  return (value) => MARGIN + ((value - from) / span) * (WIDTH - 2 * MARGIN);
}

/** A dot at `value`, whiskers from `lower` to `upper` where there are any, a line at `zero` where it is given. */
export function whisker(place, { value, lower = null, upper = null, zero = null, label }) {
  const middle = HEIGHT / 2;
  const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
  const ends = lower === null || upper === null ? null : [
    line(place(lower), middle, place(upper), middle, "whisker"),
    line(place(lower), middle - 4, place(lower), middle + 4, "whisker"),
    line(place(upper), middle - 4, place(upper), middle + 4, "whisker"),
  ];
  const shape = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", { class: "chart", ...shape, role: "img", "aria-label": label },
    line(MARGIN, middle, WIDTH - MARGIN, middle, "rule"),
    zero === null ? null : line(place(zero), 2, place(zero), HEIGHT - 2, "zero"),
    ends,
    value === null ? null : svg("circle", { cx: place(value), cy: middle, r: 4, class: "dot" }));
}
