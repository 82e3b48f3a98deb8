"""Figures of what a score costs: mean score against dollars, and against time, per instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10
from typing import Final, TypeAlias

from cts_async.report.plots.figure import (
    Figure,
    LeftOut,
    Spec,
    axis,
    in_series,
    interval,
    listed,
    points,
    spec,
)
from cts_async.report.plots.material import Scored, whiskers
from cts_async.report.summary import RunSummary

MAX_NAMED: Final = 8
"""Up to so many systems have their names beside their points; more have numbers, explained by the legend."""
_LOG_FROM: Final = 10.0
"""The axis is logarithmic if the most expensive system takes so many times as much as the cheapest."""
_FINE_TICKS: Final = 1.5
"""A logarithmic axis over fewer powers of ten has ticks between them, too."""
_LETTER: Final = 1 / 40
"""Width of a letter in widths of the figure on a phone."""
_LINE: Final = 1 / 14
"""Height of a label in heights of the figure."""
_LABEL_OFFSETS: Final = {
    "top right": (0.5, 1.0),
    "top left": (-0.5, 1.0),
    "bottom right": (0.5, -1.0),
    "bottom left": (-0.5, -1.0),
    "top center": (0.0, 1.0),
    "bottom center": (0.0, -1.0),
    "middle right": (0.5, 0.0),
    "middle left": (-0.5, 0.0),
}
"""Offset of a label's middle from its point by plotly's `textposition`, in widths and heights of the label."""


@dataclass(frozen=True, slots=True, eq=False)
class _Priced:
    """A system and what an instance takes, in dollars or seconds."""

    system: Scored
    amount: float


def cost(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOut:
    """Mean score against dollars; systems that called a model without a price are left out, and named."""
    by_directory = {one.directory: one for one in summaries}
    priced, unknown = [], []
    for system in systems:
        summary = by_directory.get(system.directory)
        dollars = _dollars(summary) if summary else None
        if summary and dollars is not None:
            priced.append(_Priced(system, dollars / _instances(summary)))
        else:
            unknown.append(system.name)
    name, title = "cost", "Score and cost"
    if not priced:
        return LeftOut(
            name, title, "No system has prices for all models that it called (cts.toml can set prices)."
        )
    if not any(one.amount for one in priced):
        return LeftOut(name, title, "All calls were free.")
    without = (
        f" Left out, since a price is unknown or no call is recorded: {listed(unknown)}." if unknown else ""
    )
    caption = (
        "Mean restore_score_100 against the dollars of all calls in the journal, failed attempts and judging included, "
        f"per instance. {whiskers([one.system for one in priced])}.{without}"
    )
    drawn = _spec(priced, series, "US dollars per instance", "{:.4f} USD")
    return Figure(name, title, caption, _alt(priced, "{:.4f} dollars"), drawn)


def time(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOut:
    """Mean score against seconds of wall time."""
    by_directory = {one.directory: one for one in summaries}
    priced, unknown = [], []
    for system in systems:
        summary = by_directory.get(system.directory)
        if summary and summary.wall_s and _instances(summary):
            priced.append(_Priced(system, summary.wall_s / _instances(summary)))
        else:
            unknown.append(system.name)
    name, title = "time", "Score and time"
    if not priced:
        return LeftOut(name, title, "None of these runs records how long it took.")
    without = f" Left out, since their time is not recorded: {listed(unknown)}." if unknown else ""
    caption = (
        "Mean restore_score_100 against the wall time of a run's sessions, divided by its instances; many run at the "
        f"same time, and systems run by one command share its time. {whiskers([one.system for one in priced])}.{without}"
    )
    drawn = _spec(priced, series, "seconds of wall time per instance", "{:.2f} s")
    return Figure(name, title, caption, _alt(priced, "{:.1f} seconds"), drawn)


def _dollars(summary: RunSummary) -> float | None:
    """None if a price is unknown, or nothing was called that could cost anything."""
    if not summary.spent.calls or not _instances(summary):
        return None
    return summary.spent.cost_usd(summary.manifest.get("prices", {}))


def _instances(summary: RunSummary) -> int:
    return summary.n_done + len(summary.failures)


def _spec(priced: Sequence[_Priced], series: Mapping[str, int], title: str, form: str) -> Spec:
    amounts = [one.amount for one in priced]
    logarithmic = min(amounts) > 0 and max(amounts) >= _LOG_FROM * min(amounts)
    named = len(priced) <= MAX_NAMED
    positions = label_positions(
        [(one.amount, one.system.mean.mean) for one in priced],
        [len(one.system.name) if named else 2 for one in priced],
        logarithmic=logarithmic,
    )
    traces = {}
    for number, (one, position) in enumerate(zip(priced, positions, strict=True), start=1):
        mean, name, place = one.system.mean, one.system.name, series[one.system.label]
        trace = points(
            name if named else f"{number}  {name}",
            [one.amount],
            [mean.mean],
            series=place,
            y_interval=[mean.ends],
            hover=[
                f"{name}\n{interval(mean, '.2f')}\n{form.format(one.amount)} per instance\nn = {mean.n:,}"
            ],
            mode="markers+text",
            textposition=position,
        )
        traces[place] = trace | {"text": [trace["name"] if named else str(number)]}
    scale = _logarithmic(amounts) if logarithmic else {"rangemode": "tozero"}
    return spec(
        in_series(traces),
        height=340,
        legend=not named,
        xaxis=axis(title, **scale),
        yaxis=axis("mean score (points of 100)"),
    )


def _logarithmic(amounts: Sequence[float]) -> Spec:
    low, high = log10(min(amounts)), log10(max(amounts))
    digits = (1, 2, 5) if high - low < _FINE_TICKS else (1,)
    ticks = [digit * 10.0**power for power in range(floor(low), ceil(high) + 1) for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _alt(priced: Sequence[_Priced], form: str) -> str:
    best = max(priced, key=lambda one: one.system.mean.mean)
    least = min(priced, key=lambda one: one.amount)
    first = f"{listed([best.system.name])} scores highest, {best.system.mean.mean:.1f} at {form.format(best.amount)}"
    if form.format(best.amount) == form.format(least.amount):
        return f"{first} per instance{', the least that any takes' if len(priced) > 1 else ''}."
    return (
        f"{first} per instance; {listed([least.system.name])} takes least, {form.format(least.amount)} for a score of "
        f"{least.system.mean.mean:.1f}."
    )


# --- Positions of labels

_Box: TypeAlias = tuple[float, float, float, float]


def label_positions(
    points: Sequence[tuple[float, float]], letters: Sequence[int], *, logarithmic: bool = False
) -> list[str]:
    """A plotly `textposition` for each label, chosen one after the other to overlap points and labels least.

    The x axis begins at 0, or is `logarithmic`, in which case all x must be positive.
    """
    xs = _scaled([log(x) for x, _ in points]) if logarithmic else _scaled([0.0, *(x for x, _ in points)])[1:]
    ys = _scaled([y for _, y in points])
    taken: list[_Box] = [(x - 0.02, y - 0.02, x + 0.02, y + 0.02) for x, y in zip(xs, ys, strict=True)]
    found: list[str] = []
    for x, y, length in zip(xs, ys, letters, strict=True):
        boxes = {position: _box(x, y, length, offset) for position, offset in _LABEL_OFFSETS.items()}
        best = min(boxes, key=lambda position: _overlapped(boxes[position], taken))
        taken.append(boxes[best])
        found.append(best)
    return found


def _scaled(values: Sequence[float]) -> list[float]:
    """The values on a scale from 0 to 1; 0.5 if they are equal."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _box(x: float, y: float, length: int, offset: tuple[float, float]) -> _Box:
    width, (right, up) = length * _LETTER, offset
    middle, base = x + right * width, y + up * _LINE
    return middle - width / 2, base - _LINE / 2, middle + width / 2, base + _LINE / 2


def _overlapped(box: _Box, taken: Sequence[_Box]) -> float:
    """The area that it shares with other boxes, and its area outside the figure."""
    shared = sum(_overlap(box, other) for other in taken)
    inside = _overlap(box, (0.0, -_LINE * 2, 1.0, 1.0 + _LINE * 2))
    return shared + (box[2] - box[0]) * (box[3] - box[1]) - inside


def _overlap(one: _Box, other: _Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
