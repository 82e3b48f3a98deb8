"""Figures as data: style, traces with whiskers, axes, captions, and generated text alternatives.

Figures name no colours. Series take theirs from the template's `colorway` in the order of their traces, so a page
switches its theme by putting another template under the same figure. Series colours are those of Okabe and Ito
("Color universal design", 2008), darkened or lightened to a contrast of 4.5 : 1 with their ground, so that numbers on
them in the ground's colour are legible, too (WCAG 2.2, 1.4.3). Markers, dashes and patterns repeat what colours mean.
Themes are data (`style.json`). Only print paints its ground; its 11 px are 8 points, the minimum in papers.

Plotly interprets some markup (`<b>`, `<a href>`, `<br>`) and entities in texts. Labels of unknown origin are escaped,
and stand only in fields that plotly does not treat as templates (`text`, `hovertext`, `ticktext`, `name`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import orjson
from rich.cells import cell_len

from cts_async.analysis.board import Array, Board
from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.analysis.stats import FEWEST, Difference, paired_differences, wilson
from cts_async.tables.output import plain
from cts_async.tables.table import NO_DIFFERENCE, marked, printable, with_interval

# --- Style

Theme: TypeAlias = Literal["light", "dark", "print"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark", "print")
NAME_WIDTH: Final = 18
"""Columns of a name on an axis: half of a phone's width remains for the figure."""
LEGEND_WIDTH: Final = 26
TITLE_WIDTH: Final = 34
"""Columns of an axis title on a phone."""
_MAX_LINES: Final = 3
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


N_COLOURS: Final = 8
SCORE_AXIS: Final = "mean restore score (0–100)"


def template(theme: Theme) -> dict[str, Any]:
    """`layout.template` of a theme: that of `style.json`, with the theme's values in place of their "$names"."""
    style = orjson.loads(Path(__file__).with_name("style.json").read_bytes())
    template = orjson.dumps(style["template"]).decode()
    for name, value in style["themes"][theme].items():
        template = template.replace(f'"${name}"', orjson.dumps(value).decode())
    found: dict[str, Any] = orjson.loads(template)
    return found


def escaped(text: str) -> str:
    """Text that plotly shows verbatim on one line; control and direction characters become U+FFFD."""
    return plain(text, "\N{REPLACEMENT CHARACTER}").translate(_ENTITIES)


def folded(text: str, width: int = NAME_WIDTH) -> str:
    """`escaped` on up to three lines of `width` columns, broken after hyphens and spaces if there are any.

    Of a longer name the middle is left out: systems differ at the beginning (the model) and at the end (the budget).
    """
    whole = plain(text, "\N{REPLACEMENT CHARACTER}")
    letters = max(1, width // 2) if cell_len(whole) > len(whole) else width
    lines, keep = wrap(whole, letters), min(len(whole), _MAX_LINES * letters)
    while len(lines) > _MAX_LINES:
        keep -= 1
        tail = keep // 3
        lines = wrap(f"{whole[: keep - tail]}…{whole[len(whole) - tail :]}", letters)
    return "<br>".join(map(escaped, lines))


# --- Limits and labels

Spec: TypeAlias = dict[str, Any]
Interval: TypeAlias = tuple[float, float]

SYMBOLS: Final = (
    *("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "x", "hexagon"),
    *("bowtie", "pentagon"),
)
"""With 11 symbols, 8 colours and 5 dashes no two of 88 series look alike."""
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
PATTERNS: Final = ("", "/", ".", "x", "-", "\\")
LINE_BREAK: Final = "<br>"
"""Plotly's; texts of unknown origin contain none, since their brackets are escaped."""
BESIDE, BESIDE_IN_ROWS = 0.12, 0.22
"""Ticks between neighbouring series at a tick: about 10 px, the width of a marker."""
MAX_ASIDE: Final = 0.5
"""Ticks that all series at a tick take together, so that every point is nearest to its own."""
SERIES_ROW_PX: Final = 46
"""Height of a row that several series share."""
ROW_PX: Final = 34
"""Height of a system's row."""
MAX_IN_ALTERNATIVE: Final = 8
"""Points in a text alternative; the table of data has all."""
_MIN_SHARE: Final = 12
"""A part of a bar shows its number from so many per cent on: a phone has room for it."""
_SAME: Final = 1e-9
"""Scores that differ by no more are equal up to the rounding of sums."""
_PHONE_PX: Final = 340
_SYMBOL_PX: Final = 50
"""Before a name in a legend."""
_LETTER_PX: Final = 8
_LINE_PX: Final = 17


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. Text of unknown origin in `spec` is escaped, so that plotly does not interpret it as markup."""

    name: str
    """The name of its file when it is exported, and its anchor in a page."""
    title: str
    caption: str
    alt: str
    """The text alternative: some points with their numbers."""
    spec: Mapping[str, Any]
    """`{"data": [...], "layout": {...}}` for plotly; colours come from the template."""


@dataclass(frozen=True, slots=True)
class LeftOutFigure:
    """A figure for which these runs have no data."""

    name: str
    title: str
    reason: str
    """One sentence."""


# --- What figures are made of


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One system under one judge, with at least one score."""

    label: str
    name: str
    """Its label for readers, marked if the embedded model played."""
    k: int
    reference: bool
    """orig or gold: no questions were asked."""
    directory: Path
    scores: Array
    """By row of the board (or of its common instances), NaN if there is none."""
    mean: Difference


def scored_systems(board: Board, judge: str, seed: int, *, common: bool = False) -> tuple[Scored, ...]:
    """The systems with a score, in the order of the board; with `common` over the instances that all of them have.

    Where there is no common instance, each system is over its own.
    """
    scores = board.scores[judge]
    present = ~np.isnan(scores)
    shared = present[:, present.any(axis=0)].all(axis=1)
    if common and shared.any():
        scores = scores[shared]
    means = paired_differences(scores, seed=seed)
    found = []
    for entrant, column, mean in zip(board.entrants, scores.T, means, strict=True):
        if mean:
            name = marked(entrant.label, entrant.caveat)
            reference = entrant.system in ("orig", "gold")
            found.append(Scored(entrant.label, name, entrant.k, reference, entrant.directory, column, mean))
    return tuple(found)


def whiskers(systems: Sequence[Scored]) -> str:
    """A caption's words for the whiskers of systems of one board."""
    n = counts(one.mean.n for one in systems)
    few = f", none below {FEWEST}" if any(one.mean.n < FEWEST for one in systems) else ""
    return f"Whiskers are 95 % bootstrap intervals of the mean over n = {n} scored instances{few}"


def name_of(one: SystemDiagnosis) -> str:
    """A diagnosed system's name beside its numbers."""
    return marked(one.system.label, one.system.caveat)


@dataclass(frozen=True, slots=True, eq=False)
class Versus:
    """One system's differences to the baseline over the instances scored in both (one at least), greatest first."""

    label: str
    name: str
    gains: Array
    rows: Array
    """The board's row of each."""

    @property
    def better(self) -> int:
        return int((self.gains > _SAME).sum())

    @property
    def worse(self) -> int:
        return int((self.gains < -_SAME).sum())

    @property
    def same(self) -> int:
        return len(self.gains) - self.better - self.worse


def versus(systems: Sequence[Scored], baseline: str) -> tuple[Versus, ...]:
    """Every other system against the baseline; none if that is "" or has no score."""
    base = next((one.scores for one in systems if one.label == baseline), None)
    found = []
    for one in systems if base is not None else ():
        gains = one.scores - base
        rows = np.flatnonzero(~np.isnan(gains))
        if one.label != baseline and len(rows):
            order = np.argsort(-gains[rows], kind="stable")
            found.append(Versus(one.label, one.name, gains[rows][order], rows[order]))
    return tuple(found)


def nothing_shared(baseline: str) -> str:
    """Why a figure of differences is left out."""
    if not baseline:
        return "These runs include no run of orig to compare with."
    return f"No other system shares a scored instance with {printable(baseline)}."


# --- Traces


@dataclass(frozen=True, slots=True)
class Dot:
    """A value of a series, at a place of the other axis (a row, a turn, a cost).

    `text` is shown on hover, and becomes the text alternative and the table of data: its name, its value and further
    details on a line each. It may be of unknown origin.
    """

    at: float
    value: float
    text: str
    ends: Interval | None = None
    """Its interval, drawn as a whisker."""


def mean_point(at: float, found: Difference, label: str, form: str = ".2f") -> Dot:
    """A mean with its interval."""
    return Dot(at, found.mean, f"{label}\n{interval(found, form)}\nn = {found.n:,}", found.ends)


def share_point(at: float, part: int, n: int, label: str) -> Dot:
    """A share in per cent, with Wilson's 95 % interval."""
    low, high = wilson(part, n) or (0.0, 1.0)
    text = f"{label}\n{part / n:.1%}\n{part:,} of {n:,}"
    return Dot(at, 100 * part / n, text, (100 * low, 100 * high))


def row_points(name: str, points: Sequence[Dot], *, series: int = 0, form: str = "", **more: Any) -> Spec:
    """Points in rows, their values on the x axis; with a `form` also written above them."""
    if form:
        texts = [format(one.value, form) for one in points]
        more |= {"mode": "markers+text", "text": texts, "textposition": "top center"}
    return _scatter(name, points, "x", series, **more)


def lines(name: str, points: Sequence[Dot], *, series: int = 0, markers: bool = True, **more: Any) -> Spec:
    """Points joined by a line with the dash of its series, their values on the y axis."""
    line = {"dash": DASHES[series % len(DASHES)], "width": 2, **more.pop("line", {})}
    mode = "lines+markers" if markers else "lines"
    return _scatter(name, points, "y", series, mode=mode, line=line, **more)


def dots(name: str, points: Sequence[Dot], *, series: int = 0) -> Spec:
    """Points with their values on the y axis."""
    return _scatter(name, points, "y", series)


def _scatter(name: str, points: Sequence[Dot], axis: str, series: int, **more: Any) -> Spec:
    trace: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": folded(name, LEGEND_WIDTH),
        "x" if axis == "y" else "y": [one.at for one in points],
        axis: [one.value for one in points],
        "marker": {"symbol": SYMBOLS[series % len(SYMBOLS)]},
        **hovering([one.text for one in points]),
    }
    if any(one.ends for one in points):
        ends = [one.ends or (one.value, one.value) for one in points]
        trace[f"error_{axis}"] = {
            "type": "data",
            "symmetric": False,
            "array": [high - one.value for one, (_, high) in zip(points, ends, strict=True)],
            "arrayminus": [one.value - low for one, (low, _) in zip(points, ends, strict=True)],
        }
    return trace | more


def placeholder() -> Spec:
    """An empty trace: it takes the colour of a system without data here, so that the others keep theirs."""
    return {"type": "scatter", "x": [None], "y": [None], "showlegend": False, "hoverinfo": "skip"}


def in_series(by_place: Mapping[int, Spec]) -> list[Spec]:
    """Traces by the place of their series, so that a system has the same colour in every figure."""
    return [by_place.get(place) or placeholder() for place in range(max(by_place) + 1)]


def share_bars(
    kind: str, names: Sequence[str], counts: Sequence[int], of: Sequence[int], *, place: int
) -> Spec:
    """One part of 100 % bars, a row for each name, with a pattern of its own; empty rows are 0 %."""
    shares = [100 * count / n if n else 0.0 for count, n in zip(counts, of, strict=True)]
    rows = zip(names, counts, of, shares, strict=True)
    faint = {"fillmode": "overlay", "fgopacity": 0.3, "solidity": 0.2}  # numbers on it stay legible
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "x": shares,
        "y": list(range(len(names))),
        "marker": {"pattern": {"shape": PATTERNS[place % len(PATTERNS)], **faint}},
        "text": [f"{share:.0f}" if share >= _MIN_SHARE else "" for share in shares],
        **hovering([f"{name}\n{kind}: {count:,} of {n:,} ({share:.1f} %)" for name, count, n, share in rows]),
    }


def hovering(texts: Sequence[str]) -> Spec:
    """Texts of unknown origin shown on hover, line by line."""
    return {
        "hovertext": [LINE_BREAK.join(map(escaped, text.split("\n"))) for text in texts],
        "hoverinfo": "text",
    }


def unescaped(label: str) -> str:
    """A label of a spec as plain text."""
    return unescape(label.replace(LINE_BREAK, " "))


def hover_texts(trace: Spec) -> list[str]:
    """All texts on hover of a trace, row by row; line breaks are LINE_BREAK."""
    texts = trace.get("hovertext") or []
    return [text for row in texts for text in ([row] if isinstance(row, str) else row) if text]


def side_by_side(series: Sequence[Sequence[Dot]], apart: float = BESIDE) -> list[list[Dot]]:
    """Points of several series, moved around their tick so that whiskers do not overlap; one alone stays on it."""
    there: dict[float, list[int]] = {}
    for number, points in enumerate(series):
        for point in points:
            there.setdefault(point.at, []).append(number)
    return [
        [replace(point, at=point.at + _offset(number, there[point.at], apart)) for point in points]
        for number, points in enumerate(series)
    ]


def _offset(number: int, among: Sequence[int], apart: float) -> float:
    n = len(among)
    return min(apart, MAX_ASIDE / max(1, n - 1)) * (among.index(number) - (n - 1) / 2)


# --- Figures


def figure(
    name: str,
    title: str,
    caption: str,
    traces: Sequence[Spec],
    *,
    alt: str = "",
    legend: bool = True,
    height: int = 340,
    **layout: Any,
) -> Figure:
    """A figure; `height` in px is without the legend below. Its text alternative is by default that of its traces."""
    named = [trace["name"] for trace in traces if trace.get("showlegend") is not False] if legend else []
    sizes = {"height": height + legend_height(named), "showlegend": legend}
    spec = {"data": list(traces), "layout": {**layout, **sizes}}
    return Figure(name, title, caption, alt or alternative(traces), spec)


def rows_figure(
    name: str,
    title: str,
    caption: str,
    traces: Sequence[Spec],
    rows: Sequence[str],
    *,
    row_px: int = ROW_PX,
    yaxis: Mapping[str, Any] | None = None,
    **more: Any,
) -> Figure:
    """A figure of named rows, the first on top: row i stands at i. A name on several lines makes all rows higher."""
    labels = [folded(row) for row in rows]
    most = max(label.count(LINE_BREAK) + 1 for label in labels)
    axis = {
        "tickmode": "array",
        "tickvals": list(range(len(rows))),
        "ticktext": labels,
        "range": [len(rows) - 0.4, -0.6],
        "showgrid": False,
        "ticks": "",
        **(yaxis or {}),
    }
    height = 90 + max(row_px, 8 + _LINE_PX * most) * max(len(rows), 2)
    return figure(name, title, caption, traces, height=height, yaxis=axis, **more)


def alternative(traces: Sequence[Spec]) -> str:
    """The first and the last point of every series, as far as there is room."""
    found: list[str] = []
    for trace in traces:
        texts = hover_texts(trace)
        found += dict.fromkeys(texts[:1] + texts[-1:])
    more = [f"and {len(found) - MAX_IN_ALTERNATIVE} more"] if len(found) > MAX_IN_ALTERNATIVE else []
    points = [unescape(text.replace(LINE_BREAK, ", ")) for text in found[:MAX_IN_ALTERNATIVE]]
    return f"{'; '.join([*points, *more])}."


def axis(title: str, **more: Any) -> Spec:
    """An axis; its title names the unit."""
    return {"title": {"text": title}, **more}


def percent_axis(title: str, *, room: float = 0.0) -> Spec:
    """An axis from 0 to 100 %, with `room` for markers beyond both ends."""
    return axis(title, range=[-room, 100 + room], tickvals=[0, 20, 40, 60, 80, 100])


def legend_height(names: Sequence[str]) -> int:
    """Height in px of a legend on a phone: all entries are as wide as the widest."""
    lines = [name.split("<br>") for name in names]
    widest = max((cell_len(unescape(line)) for of in lines for line in of), default=0)
    in_a_row = max(1, _PHONE_PX // (_SYMBOL_PX + _LETTER_PX * widest))
    rows = [lines[i : i + in_a_row] for i in range(0, len(lines), in_a_row)]
    return sum(4 + _LINE_PX * max(map(len, row)) for row in rows)


def vertical_line(x: float) -> Spec:
    """A reference line over the whole height."""
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"dash": "dot"}}


def horizontal_line(y: float) -> Spec:
    """A reference line over the whole width."""
    return {"type": "line", "y0": y, "y1": y, "xref": "paper", "x0": 0, "x1": 1, "line": {"dash": "dot"}}


# --- Words of captions


def interval(found: Difference, spec: str = ".1f") -> str:
    """`66.7 [50.0, 83.3]`, with a remark if the interval is not reliable; the mean alone where there is none."""
    if found.nowhere and spec.startswith("+"):
        return NO_DIFFERENCE
    if found.interval is None:
        return f"{found.mean:{spec}}"
    text = with_interval(found.mean, *found.interval, spec)
    if not found.too_short:
        return text
    differing = found.n if found.n_differ is None else found.n_differ
    return f"{text} (too short, {differing} of {found.n} differ)"


def counts(values: Iterable[int]) -> str:
    """`518`, or `500 to 518` if they differ."""
    found = sorted(values)
    low, high = found[0], found[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def joined_names(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more than six the first five. Names may be of unknown origin."""
    clean = [printable(name) for name in names]
    if len(clean) > 6:
        clean = [*clean[:5], f"{len(clean) - 5} more"]
    return clean[0] if len(clean) == 1 else f"{', '.join(clean[:-1])} and {clean[-1]}"
