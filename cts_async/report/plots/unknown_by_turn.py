"""How often the User Answerer does not know, turn by turn (paper, table 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cts_async.analysis.diagnosis import SystemDiagnosis
from cts_async.analysis.wilson import wilson
from cts_async.report.data_table import printable
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import Spec, axis, beside, in_series, lines, spec
from cts_async.report.plots.material import name_of

NAME = "unknown_by_turn"
TITLE = "Unknown answers by turn"


def unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """A line for each system over its turns, with Wilson's intervals."""
    asked = [one for one in systems if one.unknowns.answers]
    if not asked:
        return LeftOut(NAME, TITLE, "No question was answered in these runs.")
    turns = max(len(one.unknowns.by_turn) for one in asked)
    traces = in_series(
        {
            series[one.system.label]: _line(one, series[one.system.label], beside(place, len(asked)))
            for place, one in enumerate(asked)
        }
    )
    drawn = spec(
        traces,
        height=340,
        legend=True,
        xaxis=axis("turn", tickvals=list(range(1, turns + 1)), range=[0.5, turns + 0.5]),
        yaxis=axis("unknown answers (%)", rangemode="tozero"),
    )
    return Figure(
        NAME,
        TITLE,
        "Share of answers that are `unknown`; whiskers are Wilson's 95 % intervals. Failed instances count nowhere.",
        _alt(asked),
        drawn,
    )


def _line(one: SystemDiagnosis, series: int, aside: float) -> Spec:
    name = name_of(one)
    told = [(turn, n, unknown) for turn, (n, unknown) in enumerate(one.unknowns.by_turn, start=1) if n]
    intervals = [wilson(unknown, n) or (0.0, 1.0) for _, n, unknown in told]
    return lines(
        name,
        [turn + aside for turn, _, _ in told],
        [100 * unknown / n for _, n, unknown in told],
        series=series,
        y_interval=[(100 * low, 100 * high) for low, high in intervals],
        hover=[f"{name}\nturn {turn}: {u:,} of {n:,} unknown ({u / n:.1%})" for turn, n, u in told],
    )


def _alt(asked: Sequence[SystemDiagnosis]) -> str:
    ranked = sorted(asked, key=lambda one: one.unknowns.ua_unknown_rate or 0.0)
    least, most = (
        f"{one.unknowns.ua_unknown_rate or 0.0:.1%} of {one.unknowns.answers:,} for {printable(name_of(one))}"
        for one in (ranked[0], ranked[-1])
    )
    if len(asked) == 1:
        return f"Of all answers are unknown: {least}."
    return f"Of all answers are unknown: least with {least}, most with {most}."
