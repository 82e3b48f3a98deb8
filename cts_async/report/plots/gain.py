"""How much better than the baseline: mean paired differences with their intervals (paper, table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cts_async.analysis.compare import Standing
from cts_async.analysis.resampling import Difference
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.labels import TITLE_WIDTH, folded
from cts_async.report.plots.marks import axis, points, rows_axis, rows_height, spec, vertical_line
from cts_async.report.plots.versus import nothing_shared
from cts_async.report.plots.words import counts, interval
from cts_async.report.tables import printable

NAME = "gain"
TITLE = "Gain over the baseline"


def gain(
    standings: Sequence[Standing], names: Mapping[str, str], baseline: str, judge: str
) -> Figure | LeftOut:
    """One row for each system that shares instances with the baseline, greatest gain on top."""
    paired = [(names[one.system], one.delta) for one in standings if one.delta]
    if not paired:
        return LeftOut(NAME, TITLE, nothing_shared(baseline))
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
        NAME,
        f"Gain over {printable(baseline)}",
        f"Mean paired difference of restore_score_100 to {printable(baseline)} by judge {printable(judge)}; whiskers "
        f"are 95 % paired bootstrap intervals over n = {counts(delta.n for delta in deltas)} instances.",
        _alt(paired, baseline),
        drawn,
    )


def _alt(paired: Sequence[tuple[str, Difference]], baseline: str) -> str:
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
