"""What answers are worth: the gain of the instances with 0, 1, ... k known answers (classes of the paper's table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import Spec, axis, beside, horizontal_line, in_series, lines, spec
from cts_async.report.plots.material import name_of
from cts_async.report.plots.words import interval
from cts_async.report.tables import printable

NAME = "known_answers"
TITLE = "Gain by known answers"


def known_answers(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """A line for each system over how many of its questions were answered."""
    found = [one for one in systems if any(known.gain for known in one.known_counts)]
    if not found:
        return LeftOut(NAME, TITLE, "No instance was scored both in a Clarifier's run and in orig.")
    traces = {
        series[one.system.label]: _line(one, series[one.system.label], beside(place, len(found)))
        for place, one in enumerate(found)
    }
    most = max(len(one.known_counts) for one in found)
    drawn = spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=axis("answers that are known", tickvals=list(range(most)), range=[-0.5, most - 0.5]),
        yaxis=axis("mean gain over orig (points)"),
        shapes=[horizontal_line(0)],
    )
    return Figure(
        NAME,
        TITLE,
        "Mean paired difference to orig of the instances with so many answers that are not “unknown”; whiskers are "
        "95 % paired bootstrap intervals.",
        _alt(found[-1]),
        drawn,
    )


def _line(one: SystemDiagnosis, series: int, aside: float) -> Spec:
    name = name_of(one)
    told = [(known.known_cnt, known.gain) for known in one.known_counts if known.gain]
    return lines(
        name,
        [count + aside for count, _ in told],
        [gain.mean for _, gain in told],
        series=series,
        y_interval=[gain.ends for _, gain in told],
        hover=[f"{name}\n{count} known: {interval(gain, '+.2f')}\nn = {gain.n:,}" for count, gain in told],
    )


def _alt(one: SystemDiagnosis) -> str:
    name = name_of(one)
    told = [(known.known_cnt, known.gain) for known in one.known_counts if known.gain]
    said = ", ".join(f"{gain.mean:+.1f} with {count} (n = {gain.n:,})" for count, gain in told)
    return f"Mean gain of {printable(name)} by known answers: {said}."
