"""Mean scores with their intervals: the leaderboard (paper, table 2) as dots and whiskers."""

from __future__ import annotations

from collections.abc import Sequence

from cts_async.report.plots.figure import Figure
from cts_async.report.plots.marks import Spec, axis, points, rows_axis, rows_height, spec
from cts_async.report.plots.material import Scored, whiskers
from cts_async.report.plots.words import interval
from cts_async.report.tables import printable

NAME = "leaderboard"
TITLE = "Leaderboard"


def leaderboard(systems: Sequence[Scored], judge: str) -> Figure:
    """One row for each system, best mean on top; references and each budget k have a marker of their own."""
    ranked = sorted(systems, key=lambda one: -one.mean.mean)
    kinds = sorted({_kind(one) for one in ranked})
    traces = [_trace(ranked, kind, series) for series, kind in enumerate(kinds)]
    drawn = spec(
        traces,
        height=rows_height([one.name for one in ranked]),
        legend=len(kinds) > 1,
        xaxis=axis("mean score (points of 100)"),
        yaxis=rows_axis([one.name for one in ranked]),
    )
    return Figure(
        NAME,
        TITLE,
        f"Mean restore_score_100 by judge {printable(judge)}, best on top. {whiskers(ranked)}; failed ones "
        "are in no mean.",
        _alt(ranked),
        drawn,
    )


def _kind(one: Scored) -> tuple[int, str]:
    """Its place in the legend and its name there."""
    return (-1, "reference") if one.reference else (one.k, f"k = {one.k}" if one.k else "k unknown")


def _trace(ranked: Sequence[Scored], kind: tuple[int, str], series: int) -> Spec:
    of = [(row, one) for row, one in enumerate(ranked) if _kind(one) == kind]
    return points(
        kind[1],
        [one.mean.mean for _, one in of],
        [row for row, _ in of],
        series=series,
        x_interval=[one.mean.ends for _, one in of],
        hover=[f"{one.name}\n{interval(one.mean, '.2f')}\nn = {one.mean.n:,}" for _, one in of],
        mode="markers+text",
        text=[f"{one.mean.mean:.1f}" for _, one in of],
        textposition="top center",
    )


def _alt(ranked: Sequence[Scored]) -> str:
    best, last = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"{printable(best.name)} has a mean score of {interval(best.mean)}."
    return (
        f"Of {len(ranked)} systems {printable(best.name)} is first with a mean score of {interval(best.mean)}, "
        f"{printable(last.name)} last with {interval(last.mean)}."
    )
