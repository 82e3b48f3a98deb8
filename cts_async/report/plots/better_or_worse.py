"""Of every system the shares of instances that are better than with the baseline, the same, and worse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import in_series, percent_axis, rows_axis, rows_height, share_bars, spec
from cts_async.report.plots.versus import Versus, nothing_shared
from cts_async.report.plots.words import counts
from cts_async.report.tables import printable

NAME = "better_or_worse"
TITLE = "Better, same or worse"
_NEUTRAL: Final = 5
"""The place of the colour that is next to none."""


def better_or_worse(found: Sequence[Versus], baseline: str) -> Figure | LeftOut:
    """Rows of 100 %, the system that is better most often on top."""
    if not found:
        return LeftOut(NAME, TITLE, nothing_shared(baseline))
    ranked = sorted(found, key=lambda one: -one.better / len(one.gains))
    names = [one.name for one in ranked]
    n = [len(one.gains) for one in ranked]
    better, same, worse = (
        share_bars(kind, names, [getattr(one, kind) for one in ranked], n, place=place)
        | {"legendrank": place}
        for place, kind in enumerate(("better", "same", "worse"))
    )
    same["base"] = better["x"]
    worse["base"] = [100 - share for share in worse["x"]]
    drawn = spec(
        in_series({0: better, 1: worse, _NEUTRAL: same}),
        height=rows_height(names),
        legend=True,
        barmode="overlay",
        bargap=0.3,
        xaxis=percent_axis("share of instances (%)"),
        yaxis=rows_axis(names),
    )
    return Figure(
        NAME,
        f"Better, same or worse than {printable(baseline)}",
        f"Instances whose restore_score_100 is above that of {printable(baseline)}, equal to it and below it; "
        f"n = {counts(n)} instances that both have.",
        _alt(ranked),
        drawn,
    )


def _alt(ranked: Sequence[Versus]) -> str:
    best, n = ranked[0], len(ranked[0].gains)
    first = (
        f"Of {len(ranked)} systems the one most often better is"
        if len(ranked) > 1
        else "There is one system,"
    )
    return (
        f"{first} {printable(best.name)}: better on {best.better:,} of {n:,} instances ({best.better / n:.1%}), the "
        f"same on {best.same:,} and worse on {best.worse:,} ({best.worse / n:.1%})."
    )
