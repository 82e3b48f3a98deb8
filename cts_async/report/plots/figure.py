"""A figure as data, and the pieces of plotly specs that figures share: traces with whiskers, axes, captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Final, TypeAlias

from cts_async.analysis.stats import Difference
from cts_async.report.plots.style import LEGEND_WIDTH, columns, folded, shown
from cts_async.report.tables import printable, with_interval

Spec: TypeAlias = dict[str, Any]
Interval: TypeAlias = tuple[float, float]

SYMBOLS: Final = (
    *("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "x", "hexagon"),
    *("bowtie", "pentagon"),
)
"""With 11 symbols, 8 colours and 5 dashes no two of 88 series look alike."""
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
PATTERNS: Final = ("", "/", ".", "x", "-", "\\")
ROW_PX: Final = 34
"""Height of a system's row."""
_MIN_TOLD: Final = 12
"""A part of a bar shows its number from so many per cent on: a phone has room for it."""
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
    """What it shows, in one or two sentences with numbers."""
    spec: Mapping[str, Any]
    """`{"data": [...], "layout": {...}}` for plotly; colours come from the template."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure for which these runs have no data."""

    name: str
    title: str
    reason: str
    """One sentence."""


# --- Traces


def points(
    name: str,
    x: Sequence[float | None],
    y: Sequence[float | None],
    *,
    series: int = 0,
    x_interval: Sequence[Interval] | None = None,
    y_interval: Sequence[Interval] | None = None,
    hover: Sequence[str] = (),
    **more: Any,
) -> Spec:
    """A scatter trace with the marker of its series; intervals are (low, high) in the units of the axis.

    `name` and `hover` may be of unknown origin.
    """
    trace: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": folded(name, LEGEND_WIDTH),
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": SYMBOLS[series % len(SYMBOLS)]},
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
    """`points` joined by a line with the dash of its series."""
    trace = points(name, x, y, series=series, **more)
    trace["mode"] = "lines+markers" if markers else "lines"
    trace["line"] = {"dash": DASHES[series % len(DASHES)], "width": 2, **trace.get("line", {})}
    return trace


def _whiskers(values: Sequence[float | None], intervals: Sequence[Interval]) -> Spec:
    pairs = [(value or 0.0, low, high) for value, (low, high) in zip(values, intervals, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, _, high in pairs],
        "arrayminus": [value - low for value, low, _ in pairs],
    }


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
        "text": [f"{share:.0f}" if share >= _MIN_TOLD else "" for share in shares],
        **hovering([f"{name}\n{kind}: {count:,} of {n:,} ({share:.1f} %)" for name, count, n, share in rows]),
    }


def hovering(texts: Sequence[str]) -> Spec:
    """Texts of unknown origin shown on hover, line by line."""
    escaped = ["<br>".join(map(shown, text.split("\n"))) for text in texts]
    return {"hovertext": escaped, "hoverinfo": "text"} if escaped else {}


def beside(place: int, of: int) -> float:
    """The offset of the `place`-th of several series at a tick, so that their whiskers do not overlap."""
    return 0.0 if of == 1 else 0.5 * (place / (of - 1) - 0.5)


# --- Layout


def spec(traces: Sequence[Spec], *, height: int, legend: bool, **layout: Any) -> Spec:
    """A whole figure; `height` in px is without the legend, which stands below."""
    named = [trace["name"] for trace in traces if trace.get("showlegend") is not False] if legend else []
    sizes = {"height": height + legend_height(named), "showlegend": legend}
    return {"data": list(traces), "layout": {**layout, **sizes}}


def axis(title: str, **more: Any) -> Spec:
    """An axis; its title names the unit."""
    return {"title": {"text": title}, **more}


def percent_axis(title: str, *, room: float = 0.0) -> Spec:
    """An axis from 0 to 100 %, with `room` for markers beyond both ends."""
    return axis(title, range=[-room, 100 + room], tickvals=[0, 20, 40, 60, 80, 100])


def rows_axis(names: Sequence[str]) -> Spec:
    """A vertical axis of rows, the first on top: row i stands at i."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [folded(name) for name in names],
        "range": [len(names) - 0.4, -0.6],
        "showgrid": False,
        "ticks": "",
    }


def rows_height(names: Sequence[str], *, row_px: int = ROW_PX) -> int:
    """Height in px of rows with these names and an axis below; a name on several lines makes all rows higher."""
    most = max(folded(name).count("<br>") + 1 for name in names)
    return 90 + max(row_px, 8 + _LINE_PX * most) * max(len(names), 2)


def legend_height(names: Sequence[str]) -> int:
    """Height in px of a legend on a phone: all entries are as wide as the widest."""
    lines = [name.split("<br>") for name in names]
    widest = max((columns(unescape(line)) for of in lines for line in of), default=0)
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
    """`66.7 [50.0, 83.3]`, with a remark if the interval is not reliable."""
    text = with_interval(found.mean, found.low, found.high, spec)
    return f"{text} (too short, n = {found.n})" if found.too_short else text


def counts(values: Iterable[int]) -> str:
    """`518`, or `500 to 518` if they differ."""
    found = sorted(values)
    low, high = found[0], found[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def number_of(n: int, noun: str) -> str:
    """`1 system`, `3 systems`"""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more than six the first five. Names may be of unknown origin."""
    clean = [printable(name) for name in names]
    if len(clean) > 6:
        clean = [*clean[:5], f"{len(clean) - 5} more"]
    return clean[0] if len(clean) == 1 else f"{', '.join(clean[:-1])} and {clean[-1]}"
