"""Pieces of plotly specs that figures share: points with whiskers, axes, and looks that differ by more than colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from cts_async.report.plots.labels import folded, shown

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
        "name": shown(name),
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": SYMBOLS[series % len(SYMBOLS)], "size": 9},
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


def hovering(texts: Sequence[str]) -> Spec:
    """Texts to be shown on pointing, `|` being a line's end."""
    return {"hovertext": [spoken(text) for text in texts], "hoverinfo": "text"} if texts else {}


def spoken(text: str) -> str:
    return "<br>".join(shown(line) for line in text.split("\n"))


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


def axis(title: str, **more: Any) -> Spec:
    """An axis with a title of our own words, units in it."""
    return {"title": {"text": title}, **more}


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


def rows_height(rows: int, *, legend: int = 0, row_px: int = ROW_PX) -> int:
    """Height in px of a figure of rows with an axis below, and below that so many lines of legend."""
    return 90 + row_px * max(rows, 2) + 24 * legend


def vertical_line(x: float) -> Spec:
    """A reference over the whole height."""
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"dash": "dot"}}


def horizontal_line(y: float) -> Spec:
    """A reference over the whole width."""
    return {"type": "line", "y0": y, "y1": y, "xref": "paper", "x0": 0, "x1": 1, "line": {"dash": "dot"}}
