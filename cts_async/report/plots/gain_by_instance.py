"""The gain of every instance, sorted: how many gain, how much, and what the losers lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.labels import TITLE_WIDTH, folded
from cts_async.report.plots.marks import (
    Spec,
    axis,
    horizontal_line,
    in_series,
    lines,
    percent_axis,
    spec,
)
from cts_async.report.plots.versus import Versus, nothing_shared
from cts_async.report.plots.words import counts
from cts_async.report.tables import printable

NAME = "gain_by_instance"
TITLE = "Gain by instance"
MOST: Final = 1_000
"""Up to so many instances each is a point; of more the percentiles are drawn, half by half."""


def gain_by_instance(
    found: Sequence[Versus], ids: Sequence[str], series: Mapping[str, int], baseline: str
) -> Figure | LeftOut:
    """A line for each system, from its greatest gain on the left to its greatest loss. `ids` by row of the board."""
    if not found:
        return LeftOut(NAME, TITLE, nothing_shared(baseline))
    traces = in_series({series[one.label]: _line(one, ids, series[one.label]) for one in found})
    if len(found) == 1:
        traces[-1]["fill"] = "tozeroy"
    drawn = spec(
        traces,
        height=340,
        legend=True,
        xaxis=percent_axis("share of instances (%)"),
        yaxis=axis(folded(f"gain over {baseline} (points)", TITLE_WIDTH)),
        shapes=[horizontal_line(0)],
    )
    n = counts(len(one.gains) for one in found)
    binned = "" if all(len(one.gains) <= MOST for one in found) else " Drawn are percentiles, half by half."
    return Figure(
        NAME,
        f"Gain over {printable(baseline)} by instance",
        f"Differences of restore_score_100 to {printable(baseline)}, sorted for each system by itself, "
        f"n = {n} instances that both have.{binned}",
        _alt(found, baseline),
        drawn,
    )


def _line(one: Versus, ids: Sequence[str], series: int) -> Spec:
    import numpy as np

    n, name = len(one.gains), one.name
    if n <= MOST:  # each instance is a step as wide as all others; the last one ends where all are counted
        y = one.gains.round(6).tolist()
        hover = [f"{ids[row]}\n{name}: {gain:+.1f}" for row, gain in zip(one.rows.tolist(), y, strict=True)]
        x = (100 * np.arange(n + 1) / n).round(3).tolist()
        return lines(
            name,
            x,
            [*y, y[-1]],
            series=series,
            markers=False,
            hover=[*hover, hover[-1]],
            line={"shape": "hv"},
        )
    x = np.linspace(0, 100, 201).tolist()
    y = np.percentile(one.gains, 100 - np.array(x)).round(6).tolist()
    hover = [f"{name}\n{share:.1f} % gain at least {gain:+.1f}" for share, gain in zip(x, y, strict=True)]
    return lines(name, x, y, series=series, markers=False, hover=hover)


def _alt(found: Sequence[Versus], baseline: str) -> str:
    if len(found) == 1:
        return f"{_shares(found[0])} over {printable(baseline)}."
    ranked = sorted(found, key=lambda one: -one.better / len(one.gains))
    return f"Over {printable(baseline)}, {_shares(ranked[0])}; {_shares(ranked[-1])}."


def _shares(one: Versus) -> str:
    n = len(one.gains)
    return (
        f"{printable(one.name)} is better on {one.better / n:.1%} of {n:,} instances, the same on {one.same / n:.1%} "
        f"and worse on {one.worse / n:.1%}"
    )
