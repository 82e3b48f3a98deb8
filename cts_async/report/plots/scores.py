"""Figures of scores: leaderboard, gain, distribution, better or worse, gain by instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.compare import Standing
from cts_async.report.plots.figure import (
    Figure,
    LeftOut,
    Spec,
    axis,
    counts,
    horizontal_line,
    hovering,
    in_series,
    interval,
    lines,
    percent_axis,
    points,
    rows_axis,
    rows_height,
    share_bars,
    spec,
    vertical_line,
)
from cts_async.report.plots.material import Scored, Versus, nothing_shared, whiskers
from cts_async.report.plots.style import TITLE_WIDTH, folded
from cts_async.report.tables import printable

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_POINTS: Final = 60
"""The distribution shows up to so many instances as points, more as histograms."""
BIN: Final = 5
_ROOM: Final = 0.8
"""Share of a row's height for its points or its histogram."""
_ROW_PX: Final = 52
_MEDIAN: Final = {"symbol": "line-ns-open", "size": 16, "line": {"width": 3}}
MAX_STEPS: Final = 1_000
"""The gain by instance shows up to so many instances one by one, of more the percentiles in steps of 0.5."""
_NEUTRAL: Final = 5
"""The place of the most neutral colour."""


def leaderboard(systems: Sequence[Scored], judge: str) -> Figure:
    """Mean scores (paper, table 2): a row for each system; references and each budget k have their own marker."""
    ranked = sorted(systems, key=lambda one: -one.mean.mean)
    kinds = sorted({_kind(one) for one in ranked})
    names = [one.name for one in ranked]
    traces = []
    for series, kind in enumerate(kinds):
        of = [(row, one) for row, one in enumerate(ranked) if _kind(one) == kind]
        trace = points(
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
        traces.append(trace)
    drawn = spec(
        traces,
        height=rows_height(names),
        legend=len(kinds) > 1,
        xaxis=axis("mean score (points of 100)"),
        yaxis=rows_axis(names),
    )
    best, last = ranked[0], ranked[-1]
    if len(ranked) == 1:
        alt = f"{printable(best.name)} has a mean score of {interval(best.mean)}."
    else:
        alt = (
            f"Of {len(ranked)} systems {printable(best.name)} is first with a mean score of {interval(best.mean)}, "
            f"{printable(last.name)} last with {interval(last.mean)}."
        )
    caption = (
        f"Mean restore_score_100 by judge {printable(judge)}, best on top. {whiskers(ranked)}; failed instances are "
        "excluded."
    )
    return Figure("leaderboard", "Leaderboard", caption, alt, drawn)


def _kind(one: Scored) -> tuple[int, str]:
    """Its place in the legend and its name there."""
    return (-1, "reference") if one.reference else (one.k, f"k = {one.k}" if one.k else "k unknown")


def gain(
    standings: Sequence[Standing], names: Mapping[str, str], baseline: str, judge: str
) -> Figure | LeftOut:
    """Mean paired differences to the baseline (paper, table 3), a row for each system, greatest on top."""
    paired = [(names[one.system], one.delta) for one in standings if one.delta]
    if not paired:
        return LeftOut("gain", "Gain over the baseline", nothing_shared(baseline))
    paired.sort(key=lambda pair: -pair[1].mean)
    deltas = [delta for _, delta in paired]
    trace = points(
        "gain",
        [delta.mean for delta in deltas],
        list(range(len(paired))),
        x_interval=[delta.ends for delta in deltas],
        hover=[f"{name}\n{interval(delta, '+.2f')}\n{delta.n:,} pairs" for name, delta in paired],
        mode="markers+text",
        text=[f"{delta.mean:+.1f}" for delta in deltas],
        textposition="top center",
    )
    drawn = spec(
        [trace],
        height=rows_height([name for name, _ in paired]),
        legend=False,
        xaxis=axis(folded(f"mean gain over {baseline} (points)", TITLE_WIDTH)),
        yaxis=rows_axis([name for name, _ in paired]),
        shapes=[vertical_line(0)],
    )
    name, most = paired[0]
    if len(paired) == 1:
        alt = f"The mean gain of {printable(name)} over {printable(baseline)} is {interval(most, '+.1f')} points."
    else:
        better = sum(delta.low is not None and delta.low > 0 for delta in deltas)
        worse = sum(delta.high is not None and delta.high < 0 for delta in deltas)
        alt = (
            f"{better} of {len(paired)} systems lie above {printable(baseline)} with their whole interval, {worse} "
            f"below; the greatest gain is that of {printable(name)}, {interval(most, '+.1f')} points."
        )
    caption = (
        f"Mean paired difference of restore_score_100 to {printable(baseline)} by judge {printable(judge)}; whiskers "
        f"are 95 % paired bootstrap intervals over n = {counts(delta.n for delta in deltas)} instances."
    )
    return Figure("gain", f"Gain over {printable(baseline)}", caption, alt, drawn)


def distribution(systems: Sequence[Scored]) -> Figure:
    """The spread of scores: a row for each system, best mean on top, with its mean and its median.

    Histograms are counted here, so that the figure is as small for 100,000 instances as for a hundred. All rows have
    one scale: equal heights are equal shares.
    """
    import numpy as np

    ranked = sorted(systems, key=lambda one: -one.mean.mean)
    values = [np.sort(one.scores[~np.isnan(one.scores)]) for one in ranked]
    few = max(map(len, values)) <= MAX_POINTS
    names, rows = [one.name for one in ranked], list(range(len(ranked)))
    medians = [float(np.median(of)) for of in values]
    traces = [
        _strips(names, values) if few else _histograms(names, values),
        points("mean", [one.mean.mean for one in ranked], rows, series=1, hoverinfo="x+name"),
        points("median", medians, rows, marker=_MEDIAN, hoverinfo="x+name"),
    ]
    drawn = spec(
        traces,
        height=rows_height(names, row_px=_ROW_PX),
        legend=True,
        xaxis=axis("score (points of 100)", range=[-3, 103], tickvals=[0, 20, 40, 60, 80, 100]),
        yaxis=rows_axis(names) | {"range": [len(names) - 0.6, -1]},
    )
    each = "A point is an instance" if few else f"Bins of {BIN} points; equal heights are equal shares"
    caption = (
        f"restore_score_100 of the n = {counts(map(len, values))} scored instances of each system. {each}. "
        "Failed instances have no score."
    )
    halves = [
        f"{printable(one.name)} has half of its scores between {low:.1f} and {high:.1f}, median {middle:.1f}"
        for one, of in zip(ranked, values, strict=True)
        for low, middle, high in (np.percentile(of, [25, 50, 75]),)
    ]
    alt = f"{halves[0]}." if len(halves) == 1 else f"{halves[0]}; {halves[-1]}."
    return Figure("scores", "Distribution of scores", caption, alt, drawn)


def _strips(names: Sequence[str], values: Sequence[Array]) -> Spec:
    """Points over their row; those within a point of each other are stacked."""
    stacks = [Counter(round(value) for value in of.tolist()) for of in values]
    step = min(0.12, _ROOM / max(max(stack.values()) for stack in stacks))
    xs: list[float | None] = []
    ys: list[float | None] = []
    hover = []
    for row, (name, of) in enumerate(zip(names, values, strict=True)):
        below: Counter[int] = Counter()
        for value in of.tolist():
            xs.append(value)
            ys.append(row - step * (1 + below[round(value)]))
            hover.append(f"{name}\n{value:.1f}")
            below[round(value)] += 1
    return points("instance", xs, ys, hover=hover, marker={"symbol": "circle-open", "size": 6})


def _histograms(names: Sequence[str], values: Sequence[Array]) -> Spec:
    """Filled outlines, one behind the other in a single trace."""
    shares = [binned(of) / len(of) for of in values]
    tallest = max(float(share.max()) for share in shares)
    xs: list[float | None] = []
    ys: list[float | None] = []
    hover = []
    for row, (name, share, of) in enumerate(zip(names, shares, values, strict=True)):
        before: float = row
        for place, part in enumerate([*share.tolist(), 0.0]):
            top, left = row - _ROOM * part / tallest, BIN * place
            xs += [left, left]
            ys += [before, top]
            before = top
            text = f"{name}\n{left} to {left + BIN}: {part:.1%} of {len(of):,}" if left < 100 else name
            hover += [text, text]
        xs += [0, None]
        ys += [row, None]
        hover += [name, ""]
    trace: Spec = {"type": "scatter", "mode": "lines", "name": "share of instances", "x": xs, "y": ys}
    return {**trace, "fill": "toself", "hoveron": "points", "line": {"width": 1.5}, **hovering(hover)}


def binned(values: Array) -> Array:
    """The number of values in [0, 5), [5, 10), ... [95, 100]."""
    import numpy as np

    return np.histogram(values, bins=np.arange(0, 100 + BIN, BIN))[0]


def better_or_worse(found: Sequence[Versus], baseline: str) -> Figure | LeftOut:
    """Shares of instances better than with the baseline, the same, and worse; most often better on top."""
    name = "better_or_worse"
    if not found:
        return LeftOut(name, "Better, same or worse", nothing_shared(baseline))
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
    best, of = ranked[0], n[0]
    several = f"Of {len(ranked)} systems the one most often better is"
    alt = (
        f"{several if len(ranked) > 1 else 'There is one system,'} {printable(best.name)}: better on {best.better:,} of "
        f"{of:,} instances ({best.better / of:.1%}), the same on {best.same:,} and worse on {best.worse:,} "
        f"({best.worse / of:.1%})."
    )
    caption = (
        f"Instances whose restore_score_100 is above that of {printable(baseline)}, equal to it and below it; "
        f"n = {counts(n)} instances scored in both."
    )
    return Figure(name, f"Better, same or worse than {printable(baseline)}", caption, alt, drawn)


def gain_by_instance(
    found: Sequence[Versus], ids: Sequence[str], series: Mapping[str, int], baseline: str
) -> Figure | LeftOut:
    """Every instance's gain, sorted: a line from the greatest gain to the greatest loss. `ids` by row of the board."""
    name = "gain_by_instance"
    if not found:
        return LeftOut(name, "Gain by instance", nothing_shared(baseline))
    traces = in_series({series[one.label]: _gain_line(one, ids, series[one.label]) for one in found})
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
    binned = (
        ""
        if all(len(one.gains) <= MAX_STEPS for one in found)
        else " Lines show percentiles in steps of 0.5."
    )
    caption = (
        f"Differences of restore_score_100 to {printable(baseline)}, sorted for each system by itself, "
        f"n = {n} instances scored in both.{binned}"
    )
    ranked = sorted(found, key=lambda one: -one.better / len(one.gains))
    shares = [_shares(one) for one in dict.fromkeys((ranked[0], ranked[-1]))]
    alt = f"Over {printable(baseline)}, {'; '.join(shares)}."
    return Figure(name, f"Gain over {printable(baseline)} by instance", caption, alt, drawn)


def _gain_line(one: Versus, ids: Sequence[str], series: int) -> Spec:
    import numpy as np

    n, name = len(one.gains), one.name
    if n <= MAX_STEPS:  # steps of equal width; the last one is repeated where it ends
        y = one.gains.round(6).tolist()
        hover = [f"{ids[row]}\n{name}: {gain:+.1f}" for row, gain in zip(one.rows.tolist(), y, strict=True)]
        x = (100 * np.arange(n + 1) / n).round(3).tolist()
        y, hover, more = [*y, y[-1]], [*hover, hover[-1]], {"line": {"shape": "hv"}}
    else:
        x = np.linspace(0, 100, 201).tolist()
        y = np.percentile(one.gains, 100 - np.array(x)).round(6).tolist()
        hover = [f"{name}\n{share:.1f} % gain at least {gain:+.1f}" for share, gain in zip(x, y, strict=True)]
        more = {}
    return lines(name, x, y, series=series, markers=False, hover=hover, **more)


def _shares(one: Versus) -> str:
    n = len(one.gains)
    return (
        f"{printable(one.name)} is better on {one.better / n:.1%} of {n:,} instances, the same on {one.same / n:.1%} "
        f"and worse on {one.worse / n:.1%}"
    )
