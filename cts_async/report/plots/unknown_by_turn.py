"""How often the User Answerer does not know, turn by turn: of all questions (paper, table 4), and of those that ask
for a region and nothing else (table 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.analysis.stats import wilson
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import Spec, axis, beside, in_series, lines, spec
from cts_async.report.plots.material import name_of
from cts_async.report.tables import printable

_Counts: TypeAlias = Sequence[tuple[int, int]]
"""At turn t - 1: questions, and those of them whose answer is `unknown`."""
_WHISKERS: Final = "whiskers are Wilson's 95 % intervals. Failed instances count nowhere."


def unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """A line for each system over its turns."""
    name, title = "unknown_by_turn", "Unknown answers by turn"
    found = _asked((one, one.unknowns.by_turn) for one in systems)
    if not found:
        return LeftOut(name, title, "No question was answered in these runs.")
    caption = f"Share of answers that are “unknown”; {_WHISKERS}"
    return Figure(name, title, caption, _alt(found), _spec(found, series))


def region_unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """The same over the questions that ask for a region and for nothing else."""
    name, title = "region_unknown_by_turn", "Unknown answers about regions by turn"
    found = _asked(
        (one, [(turn.region_only, turn.region_only_unknown) for turn in one.regions]) for one in systems
    )
    if not found:
        return LeftOut(name, title, "No question in these runs asks for a region alone.")
    caption = (
        f"Share of answers that are “unknown” among questions for a region and nothing else; {_WHISKERS}"
    )
    return Figure(name, title, caption, _alt(found), _spec(found, series))


def _asked(systems: Iterable[tuple[SystemDiagnosis, _Counts]]) -> list[tuple[SystemDiagnosis, _Counts]]:
    return [(one, counts) for one, counts in systems if any(n for n, _ in counts)]


def _spec(found: Sequence[tuple[SystemDiagnosis, _Counts]], series: Mapping[str, int]) -> Spec:
    turns = max(len(counts) for _, counts in found)
    traces = {
        series[one.system.label]: _line(one, counts, series[one.system.label], beside(place, len(found)))
        for place, (one, counts) in enumerate(found)
    }
    return spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=axis("turn", tickvals=list(range(1, turns + 1)), range=[0.5, turns + 0.5]),
        yaxis=axis("unknown answers (%)", rangemode="tozero"),
    )


def _line(one: SystemDiagnosis, counts: _Counts, series: int, aside: float) -> Spec:
    name = name_of(one)
    told = [(turn, n, unknown) for turn, (n, unknown) in enumerate(counts, start=1) if n]
    intervals = [wilson(unknown, n) or (0.0, 1.0) for _, n, unknown in told]
    return lines(
        name,
        [turn + aside for turn, _, _ in told],
        [100 * unknown / n for _, n, unknown in told],
        series=series,
        y_interval=[(100 * low, 100 * high) for low, high in intervals],
        hover=[f"{name}\nturn {turn}: {u:,} of {n:,} unknown ({u / n:.1%})" for turn, n, u in told],
    )


def _alt(found: Sequence[tuple[SystemDiagnosis, _Counts]]) -> str:
    rates = []
    for one, counts in found:
        n, unknown = (sum(column) for column in zip(*counts, strict=True))
        rates.append((unknown / n, f"{unknown / n:.1%} of {n:,} for {printable(name_of(one))}"))
    least, most = min(rates)[1], max(rates)[1]
    if len(found) == 1:
        return f"Of these answers are unknown: {least}."
    return f"Of these answers are unknown: least with {least}, most with {most}."
