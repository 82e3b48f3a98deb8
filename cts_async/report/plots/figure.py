"""A figure as data, and the pieces of plotly specs that figures share: traces with whiskers, axes, labels, captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from math import log
from typing import Any, Final, Literal, TypeAlias

from cts_async.analysis.resampling import Difference
from cts_async.report.plots.style import LEGEND_WIDTH, columns, folded, shown
from cts_async.report.tables import printable, with_interval


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. Nobody's text in `spec` is markup: what plotly would take for some is escaped."""

    name: str
    """Its file's name when it is exported, and its anchor in a page."""
    title: str
    caption: str
    alt: str
    """What is to be seen, in one or two sentences with numbers."""
    spec: Mapping[str, Any]
    """`{"data": [...], "layout": {...}}` as plotly takes it, colours from the template alone where they can be."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure that these runs have no data for."""

    name: str
    title: str
    reason: str
    """One sentence."""


def interval(found: Difference, spec: str = ".1f") -> str:
    """`66.7 [50.0, 83.3]`, with what is wrong with the interval."""
    text = with_interval(found.mean, found.low, found.high, spec)
    return f"{text} (too short, n = {found.n})" if found.too_short else text


def counts(values: Iterable[int]) -> str:
    """`518`, or `500 to 518` where they differ."""
    found = sorted(values)
    low, high = found[0], found[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def number_of(n: int, noun: str) -> str:
    """`1 system`, `3 systems`"""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more than six the first five and how many more. Names are anybody's."""
    clean = [printable(name) for name in names]
    if len(clean) > 6:
        clean = [*clean[:5], f"{len(clean) - 5} more"]
    return clean[0] if len(clean) == 1 else f"{', '.join(clean[:-1])} and {clean[-1]}"


Spec: TypeAlias = dict[str, Any]

SYMBOLS: Final = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "triangle-down",
    "star",
    "x",
    "hexagon",
    "bowtie",
    "pentagon",
)
"""Eleven, colours are eight, dashes five: no two of 88 series look alike."""
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
PATTERNS: Final = ("", "/", ".", "x", "-", "\\")
_FAINT: Final = {"fillmode": "overlay", "fgopacity": 0.3, "solidity": 0.2}
"""Patterns that leave the numbers on them legible."""
_TOLD: Final = 12
"""Per cent from which a part of a bar has room for its number on a phone."""
_PHONE_PX: Final = 340
_SYMBOL_PX: Final = 50
"""What stands before a name in a legend."""
_LETTER_PX: Final = 8
_LINE_PX: Final = 17
ROW_PX: Final = 34
"""Height of a system's row."""


def points(
    name: str,
    x: Sequence[float | None],
    y: Sequence[float | None],
    *,
    series: int = 0,
    x_interval: Sequence[tuple[float, float]] | None = None,
    y_interval: Sequence[tuple[float, float]] | None = None,
    hover: Sequence[str] = (),
    **more: Any,
) -> Spec:
    """A scatter trace: markers of a series' own shape; intervals are (low, high), in the axis' units.

    `name` and `hover` are anybody's text.
    """
    trace: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": folded(name, LEGEND_WIDTH),
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": SYMBOLS[series % len(SYMBOLS)], "size": 9},
        "cliponaxis": False,
    }
    if x_interval is not None:
        trace["error_x"] = _whiskers(x, x_interval)
    if y_interval is not None:
        trace["error_y"] = _whiskers(y, y_interval)
    return {**trace, **hovering(hover), **more}


def lines(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    *,
    series: int = 0,
    markers: bool = True,
    **more: Any,
) -> Spec:
    """`points` joined by a line of the series' own dash."""
    trace = points(name, x, y, series=series, **more)
    trace["mode"] = "lines+markers" if markers else "lines"
    trace["line"] = {"dash": DASHES[series % len(DASHES)], "width": 2, **trace.get("line", {})}
    return trace


def placeholder() -> Spec:
    """A trace of nothing: it takes a system's colour in a figure that has no data of it, so others keep theirs."""
    return {"type": "scatter", "x": [None], "y": [None], "showlegend": False, "hoverinfo": "skip"}


def in_series(by_place: Mapping[int, Spec]) -> list[Spec]:
    """Traces by the place of their series, so that a system has its colour in every figure."""
    return [by_place.get(place) or placeholder() for place in range(max(by_place) + 1)]


def hovering(texts: Sequence[str]) -> Spec:
    """Anybody's texts to be shown on pointing, line by line."""
    told = ["<br>".join(map(shown, text.split("\n"))) for text in texts]
    return {"hovertext": told, "hoverinfo": "text"} if told else {}


def _whiskers(values: Sequence[float | None], intervals: Sequence[tuple[float, float]]) -> Spec:
    pairs = [(v or 0.0, low, high) for v, (low, high) in zip(values, intervals, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - v for v, _, high in pairs],
        "arrayminus": [v - low for v, low, _ in pairs],
        "thickness": 1.5,
        "width": 4,
    }


def share_bars(
    kind: str, names: Sequence[str], counts: Sequence[int], of: Sequence[int], *, place: int
) -> Spec:
    """One part of bars of 100 %, a row for each name, with a pattern of its own; empty rows are 0 %."""
    shares = [100 * count / n if n else 0.0 for count, n in zip(counts, of, strict=True)]
    told = zip(names, counts, of, shares, strict=True)
    return {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "x": shares,
        "y": list(range(len(names))),
        "marker": {
            "pattern": {
                "shape": PATTERNS[place % len(PATTERNS)],
                "fillmode": "overlay",
                "fgopacity": 0.3,
                "solidity": 0.2,
            }
        },
        "text": [f"{share:.0f}" if share >= _TOLD else "" for share in shares],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        **hovering([f"{name}\n{kind}: {count:,} of {n:,} ({share:.1f} %)" for name, count, n, share in told]),
    }


def axis(title: str, **more: Any) -> Spec:
    """An axis with a title of our own words, units in it."""
    return {"title": {"text": title}, **more}


def percent_axis(title: str, *, room: float = 0.0) -> Spec:
    """An axis from 0 to 100 %, with `room` for markers beyond both ends."""
    return axis(title, range=[-room, 100 + room], tickvals=[0, 20, 40, 60, 80, 100])


def rows_axis(names: Sequence[str]) -> Spec:
    """A vertical axis of rows, the first on top: row i stands at i. Names are anybody's."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [folded(name) for name in names],
        "range": [len(names) - 0.4, -0.6],
        "showgrid": False,
        "ticks": "",
    }


def spec(traces: Sequence[Spec], *, height: int, legend: bool, **layout: Any) -> Spec:
    """A whole figure; `height` is that of the axes with their titles in px, a legend below has its own."""
    named = [trace["name"] for trace in traces if trace.get("showlegend") is not False] if legend else []
    sizes = {"height": height + legend_height(named), "showlegend": legend}
    return {"data": list(traces), "layout": {**layout, **sizes}}


def rows_height(names: Sequence[str], *, row_px: int = ROW_PX) -> int:
    """Height in px of rows with these names and an axis below; a name on several lines makes all rows higher."""
    most = max(folded(name).count("<br>") + 1 for name in names)
    return 90 + max(row_px, 8 + _LINE_PX * most) * max(len(names), 2)


def legend_height(names: Sequence[str]) -> int:
    """Height in px of a legend below a figure as wide as a phone: all entries are as wide as the widest."""
    lines = [name.split("<br>") for name in names]
    widest = max((columns(unescape(line)) for of in lines for line in of), default=0)
    in_a_row = max(1, _PHONE_PX // (_SYMBOL_PX + _LETTER_PX * widest))
    rows = [lines[i : i + in_a_row] for i in range(0, len(lines), in_a_row)]
    return sum(4 + _LINE_PX * max(map(len, row)) for row in rows)


def beside(place: int, of: int) -> float:
    """How far aside the `place`-th of so many series stands at a tick, so that whiskers do not cover each other."""
    return 0.0 if of == 1 else 0.5 * (place / (of - 1) - 0.5)


def vertical_line(x: float) -> Spec:
    """A reference over the whole height."""
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"dash": "dot"}}


def horizontal_line(y: float) -> Spec:
    """A reference over the whole width."""
    return {"type": "line", "y0": y, "y1": y, "xref": "paper", "x0": 0, "x1": 1, "line": {"dash": "dot"}}


Place: TypeAlias = Literal[
    "top center",
    "bottom center",
    "top right",
    "top left",
    "bottom right",
    "bottom left",
    "middle right",
    "middle left",
]
_Box: TypeAlias = tuple[float, float, float, float]

_PLACES: Final[dict[Place, tuple[float, float]]] = {
    "top right": (0.5, 1.0),
    "top left": (-0.5, 1.0),
    "bottom right": (0.5, -1.0),
    "bottom left": (-0.5, -1.0),
    "top center": (0.0, 1.0),
    "bottom center": (0.0, -1.0),
    "middle right": (0.5, 0.0),
    "middle left": (-0.5, 0.0),
}
"""Where a label's middle lies from its point: in widths, in heights."""
_LETTER: Final = 1 / 40
"""A letter's width in widths of the figure, a phone's."""
_HEIGHT: Final = 1 / 14


def label_places(
    points: Sequence[tuple[float, float]], letters: Sequence[int], *, logarithmic: bool = False
) -> list[Place]:
    """A place for each label, one after the other where it covers least.

    The axis of x begins at 0, or is `logarithmic`, where all x have to be positive.
    """
    xs = _spread([log(x) for x, _ in points]) if logarithmic else _spread([0.0, *(x for x, _ in points)])[1:]
    ys = _spread([y for _, y in points])
    taken: list[_Box] = [(x - 0.02, y - 0.02, x + 0.02, y + 0.02) for x, y in zip(xs, ys, strict=True)]
    found: list[Place] = []
    for x, y, length in zip(xs, ys, letters, strict=True):
        boxes = {place: _box(x, y, length, place) for place in _PLACES}
        best = min(boxes, key=lambda place: _covered(boxes[place], taken))
        taken.append(boxes[best])
        found.append(best)
    return found


def _spread(values: Sequence[float]) -> list[float]:
    """The values on a scale from 0 to 1; 0.5 where they do not differ."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _box(x: float, y: float, length: int, place: Place) -> _Box:
    width, (right, up) = length * _LETTER, _PLACES[place]
    middle, base = x + right * width, y + up * _HEIGHT
    return middle - width / 2, base - _HEIGHT / 2, middle + width / 2, base + _HEIGHT / 2


def _covered(box: _Box, taken: Sequence[_Box]) -> float:
    """How much of other boxes it covers, and what of it lies outside the figure."""
    shared = sum(_overlap(box, other) for other in taken)
    inside = _overlap(box, (0.0, -_HEIGHT * 2, 1.0, 1.0 + _HEIGHT * 2))
    return shared + (box[2] - box[0]) * (box[3] - box[1]) - inside


def _overlap(one: _Box, other: _Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
