"""Ask or not (paper, section 7.3): mean score against the share of instances that are asked at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cts_async.analysis.ask_or_not import Frontier, Point
from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import Spec, axis, in_series, lines, percent_axis, spec
from cts_async.report.plots.material import name_of
from cts_async.report.plots.words import counts
from cts_async.report.tables import printable

NAME = "ask_or_not"
TITLE = "Asking less"
_MOST: Final = 101
"""Points of a frontier that are drawn."""


def ask_or_not(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """A frontier for each system, from never asking to always asking; markers at both ends and at the best."""
    found = [(one, one.frontier) for one in systems if one.frontier]
    if not found:
        return LeftOut(NAME, TITLE, "No instance was scored both in a Clarifier's run and in orig.")
    traces = {
        series[one.system.label]: _line(name_of(one), frontier, series[one.system.label])
        for one, frontier in found
    }
    drawn = spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=percent_axis("instances asked (%)", room=2),
        yaxis=axis("mean score (points of 100)"),
    )
    return Figure(
        NAME,
        TITLE,
        "Mean restore_score_100 when only those instances are asked whose questions are most likely to be answered, by "
        f"out-of-fold prediction, and others are searched as they are; n = {counts(f.n for _, f in found)} instances. "
        "Markers: never, best in this sample, always.",
        _alt(*max(found, key=lambda pair: pair[1].best.mean_score - pair[1].always.mean_score)),
        drawn,
    )


def _line(name: str, frontier: Frontier, series: int) -> Spec:
    points = thinned(frontier)
    told = [f"{name}\n{point.share_asked:.1%} asked: {point.mean_score:.2f}" for point in points]
    ends = (frontier.never, frontier.best, frontier.always)
    trace = lines(
        name,
        [100 * point.share_asked for point in points],
        [point.mean_score for point in points],
        series=series,
        hover=told,
    )
    trace["marker"]["opacity"] = 1
    trace["marker"]["size"] = [10 if point in ends else 0 for point in points]
    return trace


def thinned(frontier: Frontier) -> list[Point]:
    """At most about a hundred points of it, evenly taken, both ends and the best among them."""
    last = len(frontier.points) - 1
    if last < _MOST:
        return list(frontier.points)
    places = {round(i * last / (_MOST - 1)) for i in range(_MOST)}
    return [frontier.points[place] for place in sorted(places | {frontier.points.index(frontier.best)})]


def _alt(one: SystemDiagnosis, frontier: Frontier) -> str:
    never, best, always = frontier.never, frontier.best, frontier.always
    return (
        f"{printable(name_of(one))} would gain most by asking less: it scores {never.mean_score:.1f} never asking, "
        f"{always.mean_score:.1f} always asking and at best {best.mean_score:.1f} with {best.share_asked:.0%} asked."
    )
