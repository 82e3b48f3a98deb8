"""Figures of scores: leaderboard, gain, distribution, better or worse, gain by instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.compare import Standing
from cts_async.analysis.resampling import Difference
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

LEADERBOARD_NAME = "leaderboard"
LEADERBOARD_TITLE = "Leaderboard"


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
        LEADERBOARD_NAME,
        LEADERBOARD_TITLE,
        f"Mean restore_score_100 by judge {printable(judge)}, best on top. {whiskers(ranked)}; failed ones "
        "are in no mean.",
        _alt_of_leaderboard(ranked),
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


def _alt_of_leaderboard(ranked: Sequence[Scored]) -> str:
    best, last = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"{printable(best.name)} has a mean score of {interval(best.mean)}."
    return (
        f"Of {len(ranked)} systems {printable(best.name)} is first with a mean score of {interval(best.mean)}, "
        f"{printable(last.name)} last with {interval(last.mean)}."
    )


GAIN_NAME = "gain"
GAIN_TITLE = "Gain over the baseline"


def gain(
    standings: Sequence[Standing], names: Mapping[str, str], baseline: str, judge: str
) -> Figure | LeftOut:
    """One row for each system that shares instances with the baseline, greatest gain on top."""
    paired = [(names[one.system], one.delta) for one in standings if one.delta]
    if not paired:
        return LeftOut(GAIN_NAME, GAIN_TITLE, nothing_shared(baseline))
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
    return Figure(
        GAIN_NAME,
        f"Gain over {printable(baseline)}",
        f"Mean paired difference of restore_score_100 to {printable(baseline)} by judge {printable(judge)}; whiskers "
        f"are 95 % paired bootstrap intervals over n = {counts(delta.n for delta in deltas)} instances.",
        _alt_of_gain(paired, baseline),
        drawn,
    )


def _alt_of_gain(paired: Sequence[tuple[str, Difference]], baseline: str) -> str:
    if len(paired) == 1:
        name, delta = paired[0]
        return f"The mean gain of {printable(name)} over {printable(baseline)} is {interval(delta, '+.1f')} points."
    better = sum(delta.low is not None and delta.low > 0 for _, delta in paired)
    worse = sum(delta.high is not None and delta.high < 0 for _, delta in paired)
    name, most = paired[0]
    return (
        f"{better} of {len(paired)} systems lie above {printable(baseline)} with their whole interval, {worse} below; "
        f"the greatest gain is that of {printable(name)}, {interval(most, '+.1f')} points."
    )


SCORES_NAME = "scores"
SCORES_TITLE = "Distribution of scores"
FEW: Final = 60
"""Up to so many instances each is a point."""
BIN: Final = 5
_ROOM: Final = 0.8
"""Of a row's height, what its points or its histogram may take."""
_ROW_PX: Final = 52
_BAR: Final = {"symbol": "line-ns-open", "size": 16, "line": {"width": 3}}


def distribution(systems: Sequence[Scored]) -> Figure:
    """One row for each system, best mean on top, with its mean and its median."""
    import numpy as np

    ranked = sorted(systems, key=lambda one: -one.mean.mean)
    values = [np.sort(one.scores[~np.isnan(one.scores)]) for one in ranked]
    few = max(map(len, values)) <= FEW
    names = [one.name for one in ranked]
    spread = _strips(names, values) if few else _histograms(names, values)
    rows = list(range(len(ranked)))
    traces = [
        spread,
        points("mean", [one.mean.mean for one in ranked], rows, series=1, hoverinfo="x+name"),
        points("median", [float(np.median(of)) for of in values], rows, marker=_BAR, hoverinfo="x+name"),
    ]
    drawn = spec(
        traces,
        height=rows_height(names, row_px=_ROW_PX),
        legend=True,
        xaxis=axis("score (points of 100)", range=[-3, 103], tickvals=[0, 20, 40, 60, 80, 100]),
        yaxis=rows_axis(names) | {"range": [len(names) - 0.6, -1]},
    )
    n = counts(map(len, values))
    each = "A point is an instance" if few else f"Bins of {BIN} points; equal heights are equal shares"
    return Figure(
        SCORES_NAME,
        SCORES_TITLE,
        f"restore_score_100 of the n = {n} scored instances of each system. {each}. Failed instances have no score.",
        _alt_of_scores(ranked, values),
        drawn,
    )


def _strips(names: Sequence[str], values: Sequence[Array]) -> Spec:
    """Points over their row, those within a point of each other stacked."""
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
    """Outlines that are filled, one behind the other in a single trace."""
    shares = [binned(of) / len(of) for of in values]
    tallest = max(float(share.max()) for share in shares)
    xs: list[float | None] = []
    ys: list[float | None] = []
    hover = []
    for row, (name, share, of) in enumerate(zip(names, shares, values, strict=True)):
        for place, part in enumerate([*share.tolist(), 0.0]):
            top, left = row - _ROOM * part / tallest, BIN * place
            before = row - _ROOM * (float(share[place - 1]) if place else 0.0) / tallest
            xs += [left, left]
            ys += [before, top]
            told = f"{name}\n{left} to {left + BIN}: {part:.1%} of {len(of):,}" if left < 100 else name
            hover += [told, told]
        xs += [0, None]
        ys += [row, None]
        hover += [name, ""]
    trace: Spec = {"type": "scatter", "mode": "lines", "name": "share of instances", "x": xs, "y": ys}
    return {**trace, "fill": "toself", "hoveron": "points", "line": {"width": 1.5}, **hovering(hover)}


def binned(values: Array) -> Array:
    """How many values lie in [0, 5), [5, 10), ... [95, 100]."""
    import numpy as np

    return np.histogram(values, bins=np.arange(0, 100 + BIN, BIN))[0]


def _alt_of_scores(ranked: Sequence[Scored], values: Sequence[Array]) -> str:
    import numpy as np

    said = [
        f"{printable(one.name)} has half of its scores between {low:.1f} and {high:.1f}, median {middle:.1f}"
        for one, of in zip(ranked, values, strict=True)
        for low, middle, high in (np.percentile(of, [25, 50, 75]),)
    ]
    return f"{said[0]}." if len(said) == 1 else f"{said[0]}; {said[-1]}."


BETTER_NAME = "better_or_worse"
BETTER_TITLE = "Better, same or worse"
_NEUTRAL: Final = 5
"""The place of the colour that is next to none."""


def better_or_worse(found: Sequence[Versus], baseline: str) -> Figure | LeftOut:
    """Rows of 100 %, the system that is better most often on top."""
    if not found:
        return LeftOut(BETTER_NAME, BETTER_TITLE, nothing_shared(baseline))
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
        BETTER_NAME,
        f"Better, same or worse than {printable(baseline)}",
        f"Instances whose restore_score_100 is above that of {printable(baseline)}, equal to it and below it; "
        f"n = {counts(n)} instances that both have.",
        _alt_of_better_or_worse(ranked),
        drawn,
    )


def _alt_of_better_or_worse(ranked: Sequence[Versus]) -> str:
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


BY_INSTANCE_NAME = "gain_by_instance"
BY_INSTANCE_TITLE = "Gain by instance"
MOST: Final = 1_000
"""Up to so many instances each is a point; of more the percentiles are drawn, half by half."""


def gain_by_instance(
    found: Sequence[Versus], ids: Sequence[str], series: Mapping[str, int], baseline: str
) -> Figure | LeftOut:
    """A line for each system, from its greatest gain on the left to its greatest loss. `ids` by row of the board."""
    if not found:
        return LeftOut(BY_INSTANCE_NAME, BY_INSTANCE_TITLE, nothing_shared(baseline))
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
        BY_INSTANCE_NAME,
        f"Gain over {printable(baseline)} by instance",
        f"Differences of restore_score_100 to {printable(baseline)}, sorted for each system by itself, "
        f"n = {n} instances that both have.{binned}",
        _alt_of_gain_by_instance(found, baseline),
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


def _alt_of_gain_by_instance(found: Sequence[Versus], baseline: str) -> str:
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
