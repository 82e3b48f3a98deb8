"""Pieces of plotly specs that figures share: points with whiskers, axes, and looks that differ by more than colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any, Final, TypeAlias

from cts_async.report.plots.labels import LEGEND_WIDTH, columns, folded, shown

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
