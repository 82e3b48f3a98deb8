"""Of every system the shares of instances that are better than with the baseline, the same, and worse."""

from __future__ import annotations

from collections.abc import Sequence

from cts_async.report.data_table import printable
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import axis, rows_axis, rows_height, share_bars
from cts_async.report.plots.versus import Versus
from cts_async.report.plots.words import counts

NAME = "better_or_worse"
TITLE = "Better, same or worse"


def better_or_worse(found: Sequence[Versus], baseline: str) -> Figure | LeftOut:
    """Rows of 100 %, the system that is better most often on top."""
    if not found:
        return LeftOut(NAME, TITLE, f"No other system shares a scored instance with {printable(baseline)}.")
    ranked = sorted(found, key=lambda one: -one.better / len(one.gains))
    names = [one.name for one in ranked]
    n = [len(one.gains) for one in ranked]
    traces = [
        share_bars("better", names, [one.better for one in ranked], n, place=0),
        share_bars("same", names, [one.same for one in ranked], n, place=1),
        share_bars("worse", names, [one.worse for one in ranked], n, place=2),
    ]
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": axis("share of instances (%)", range=[0, 100]),
        "yaxis": rows_axis(names),
        "height": rows_height(len(names), entries=3),
    }
    best = ranked[0]
    return Figure(
        NAME,
        f"Better, same or worse than {printable(baseline)}",
        f"Instances whose restore_score_100 is above that of {printable(baseline)}, equal to it and below it; "
        f"n = {counts(n)} instances that both have.",
        f"{printable(best.name)} is better most often: on {best.better:,} of {n[0]:,} instances "
        f"({best.better / n[0]:.1%}), and worse on {best.worse:,} ({best.worse / n[0]:.1%}).",
        {"data": traces, "layout": layout},
    )
