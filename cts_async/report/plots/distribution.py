"""How scores are spread: every instance as a point while there are few, else a histogram, row by row.

Histograms are counted here, in bins of 5 points (the last with 100 in it), so a figure is as small for 100,000
instances as for a hundred. All rows have one scale: equal heights are equal shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.report.plots.figure import Figure
from cts_async.report.plots.marks import Spec, axis, hovering, points, rows_axis, rows_height, spec
from cts_async.report.plots.material import Scored
from cts_async.report.plots.words import counts
from cts_async.report.tables import printable

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

NAME = "scores"
TITLE = "Distribution of scores"
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
        NAME,
        TITLE,
        f"restore_score_100 of the n = {n} scored instances of each system. {each}. Failed instances have no score.",
        _alt(ranked, values),
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


def _alt(ranked: Sequence[Scored], values: Sequence[Array]) -> str:
    import numpy as np

    said = [
        f"{printable(one.name)} has half of its scores between {low:.1f} and {high:.1f}, median {middle:.1f}"
        for one, of in zip(ranked, values, strict=True)
        for low, middle, high in (np.percentile(of, [25, 50, 75]),)
    ]
    return f"{said[0]}." if len(said) == 1 else f"{said[0]}; {said[-1]}."
