"""What a score costs: mean score against dollars, and against time, per instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from cts_async.report.plots.figure import (
    Figure,
    LeftOut,
    Place,
    Spec,
    axis,
    in_series,
    interval,
    label_places,
    listed,
    points,
    spec,
)
from cts_async.report.plots.material import Scored, whiskers
from cts_async.report.summary import RunSummary

_NO_PRICE: Final = "Of no system all models that it called have a price (cts.toml can name them)."
DIRECT: Final = 8
"""Up to so many systems have their names beside their points; more have numbers, and the legend says whose."""
_LOG_FROM: Final = 10.0
"""Where the dearest is so many times the cheapest, the axis is logarithmic."""

_WIDE: Final = 1.5
"""Powers of ten from which only these have ticks."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A system with what one of its instances took, in dollars or in seconds."""

    system: Scored
    amount: float


def cost(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOut:
    """Mean score against dollars an instance; systems with a model that has no price are left out, and named."""
    name, title = "cost", "Score and cost"
    by_directory = {one.directory: one for one in summaries}
    priced, unknown = [], []
    for system in systems:
        summary = by_directory.get(system.directory)
        dollars = _dollars(summary) if summary else None
        if summary and dollars is not None:
            priced.append(Priced(system, dollars / _instances(summary)))
        else:
            unknown.append(system.name)
    if not any(one.amount for one in priced):
        return LeftOut(name, title, "All calls here were free." if priced else _NO_PRICE)
    without = (
        f" Left out, since a price is not known or no call is recorded: {listed(unknown)}." if unknown else ""
    )
    return Figure(
        name,
        title,
        "Mean restore_score_100 against the dollars of all calls in the journal, failed attempts and judging included, "
        f"per instance. {whiskers([one.system for one in priced])}.{without}",
        _alt(priced, "{:.4f} dollars"),
        _spec(priced, series, axis("US dollars per instance"), "{:.4f} USD"),
    )


def time(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOut:
    """Mean score against seconds of wall time an instance."""
    name, title = "time", "Score and time"
    by_directory = {one.directory: one for one in summaries}
    priced = [
        Priced(system, summary.wall_s / _instances(summary))
        for system in systems
        if (summary := by_directory.get(system.directory)) and summary.wall_s and _instances(summary)
    ]
    if not priced:
        return LeftOut(name, title, "No run here says how long it took.")
    unknown = [one.name for one in systems if one.directory not in {p.system.directory for p in priced}]
    without = f" Left out, since their time is not recorded: {listed(unknown)}." if unknown else ""
    return Figure(
        name,
        title,
        "Mean restore_score_100 against the wall time of a run's sessions, divided by its instances; many are walked at "
        f"once, and systems run by one command share its time. {whiskers([one.system for one in priced])}.{without}",
        _alt(priced, "{:.1f} seconds"),
        _spec(priced, series, axis("seconds of wall time per instance"), "{:.2f} s"),
    )


def _dollars(summary: RunSummary) -> float | None:
    """None where a price is missing, and where nothing was called that could cost anything."""
    if not summary.spent.calls or not _instances(summary):
        return None
    return summary.spent.cost_usd(summary.manifest.get("prices", {}))


def _instances(summary: RunSummary) -> int:
    return summary.n_done + len(summary.failures)


def _spec(priced: Sequence[Priced], series: Mapping[str, int], x: Spec, form: str) -> Spec:
    amounts = [one.amount for one in priced]
    logarithmic = min(amounts) > 0 and max(amounts) >= _LOG_FROM * min(amounts)
    direct = len(priced) <= DIRECT
    places = label_places(
        [(one.amount, one.system.mean.mean) for one in priced],
        [len(one.system.name) if direct else 2 for one in priced],
        logarithmic=logarithmic,
    )
    traces = {}
    for number, (one, place) in enumerate(zip(priced, places, strict=True), start=1):
        number_of = None if direct else number
        traces[series[one.system.label]] = _trace(one, series[one.system.label], place, number_of, form)
    return spec(
        in_series(traces),
        height=340,
        legend=not direct,
        xaxis=x | (_logarithmic(amounts) if logarithmic else {"rangemode": "tozero"}),
        yaxis=axis("mean score (points of 100)"),
    )


def _logarithmic(amounts: Sequence[float]) -> Spec:
    """An axis with ticks at the powers of ten, written out, and between them where there is room."""
    low, high = log10(min(amounts)), log10(max(amounts))
    digits = (1, 2, 5) if high - low < _WIDE else (1,)
    ticks = [digit * 10.0**power for power in range(floor(low), ceil(high) + 1) for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _trace(one: Priced, series: int, place: Place, number: int | None, form: str) -> Spec:
    mean, name = one.system.mean, one.system.name
    trace = points(
        name if number is None else f"{number}  {name}",
        [one.amount],
        [mean.mean],
        series=series,
        y_interval=[mean.ends],
        hover=[f"{name}\n{interval(mean, '.2f')}\n{form.format(one.amount)} per instance\nn = {mean.n:,}"],
        mode="markers+text",
        textposition=place,
    )
    return trace | {"text": [trace["name"] if number is None else str(number)]}


def _alt(priced: Sequence[Priced], form: str) -> str:
    best = max(priced, key=lambda one: one.system.mean.mean)
    least = min(priced, key=lambda one: one.amount)
    said = f"{listed([best.system.name])} scores highest, {best.system.mean.mean:.1f} at {form.format(best.amount)}"
    if form.format(best.amount) == form.format(least.amount):
        return f"{said} per instance{', the least that any takes' if len(priced) > 1 else ''}."
    return (
        f"{said} per instance; {listed([least.system.name])} takes least, {form.format(least.amount)} for a score of "
        f"{least.system.mean.mean:.1f}."
    )
