"""Figures of questions: types, answerability, unknown answers by turn, known answers, asking less, calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from cts_async.analysis.ask_or_not import Calibration, Frontier, Point
from cts_async.analysis.diagnose import BudgetDiagnosis, SystemDiagnosis
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.analysis.stats import wilson
from cts_async.report.plots.figure import (
    Figure,
    LeftOut,
    Spec,
    axis,
    beside,
    counts,
    horizontal_line,
    in_series,
    interval,
    lines,
    number_of,
    percent_axis,
    points,
    rows_axis,
    rows_height,
    share_bars,
    spec,
    vertical_line,
)
from cts_async.report.plots.material import name_of
from cts_async.report.tables import printable, with_interval

_Told: TypeAlias = tuple[QuestionType, float, tuple[float, float], str]
"""A type with its value, the interval and what is said on pointing."""


def question_types(systems: Sequence[SystemDiagnosis]) -> Figure | LeftOut:
    """A bar of 100 % for each system, its questions by primary type."""
    name, title = "question_types", "Types of questions"
    asked = [one for one in systems if one.profiles and one.profiles[0].of]
    if not asked:
        return LeftOut(name, title, "No question was asked in these runs.")
    names = [name_of(one) for one in asked]
    of = [one.profiles[0].of for one in asked]
    by_kind = {kind: [_n(one, kind) for one in asked] for kind in QUESTION_TYPES}
    traces = [share_bars(kind, names, n, of, place=place) for place, (kind, n) in enumerate(by_kind.items())]
    drawn = spec(
        traces,
        height=rows_height(names),
        legend=True,
        barmode="stack",
        bargap=0.3,
        xaxis=percent_axis("share of questions (%)"),
        yaxis=rows_axis(names),
    )
    most = max(by_kind, key=lambda kind: sum(by_kind[kind]))
    total = sum(of)
    return Figure(
        name,
        title,
        f"Questions by their primary type, n = {counts(of)} questions of each system.",
        f"The most frequent type is {most}: {sum(by_kind[most]):,} of {total:,} questions "
        f"({sum(by_kind[most]) / total:.1%}) of {number_of(len(asked), 'system')}.",
        drawn,
    )


def _n(one: SystemDiagnosis, kind: QuestionType) -> int:
    return next((profile.n for profile in one.profiles if profile.kind == kind), 0)


def answerability(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOut:
    """A row for each type: the share of its questions that were answered, by budget, with Wilson's intervals."""
    name, title = "answerability", "Answerability by type of question"

    def told(budget: BudgetDiagnosis) -> Iterable[_Told]:
        for one in budget.profiles:
            if one.interval and one.answerability is not None:
                low, high = one.interval
                said = f"{one.kind}, k = {budget.k}\n{one.known:,} of {one.n:,} answered ({one.answerability:.1%})"
                yield one.kind, 100 * one.answerability, (100 * low, 100 * high), said

    found = _by_type(budgets, told)
    if not found:
        return LeftOut(name, title, "No question was answered in these runs.")
    return Figure(
        name,
        title,
        "Share of questions whose answer is not “unknown”, all systems of a budget together; whiskers are Wilson's "
        "95 % intervals.",
        f"Answered are {_from_to((one for budget in budgets for one in told(budget)), '{:.1f} %')}.",
        _rows_of_types(found, percent_axis("answered (%)", room=2)),
    )


def type_gain(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOut:
    """A row for each type: the points that one question of it brings over orig, by budget."""
    name, title = "type_gain", "Gain by type of question"

    def told(budget: BudgetDiagnosis) -> Iterable[_Told]:
        for kind, one in budget.gains.items():
            points = with_interval(one.points, one.low, one.high, "+.2f", short=one.too_short)
            said = f"{kind}, k = {budget.k}\n{points}\nn = {one.n:,} questions"
            ends = (one.points, one.points) if one.low is None or one.high is None else (one.low, one.high)
            yield kind, one.points, ends, said

    found = _by_type(budgets, told)
    if not found:
        return LeftOut(name, title, "No instance was scored both in a Clarifier's run and in orig.")
    return Figure(
        name,
        title,
        "Points of restore_score_100 over orig that a question of each type brings, by least squares; whiskers are 95 % "
        "bootstrap intervals over instances. Types are not asked at random: this describes, and proves no cause.",
        f"A question brings {_from_to((one for budget in budgets for one in told(budget)), '{:+.1f} points')}.",
        _rows_of_types(found, axis("gain of a question (points)"), shapes=[vertical_line(0)]),
    )


def _from_to(told: Iterable[_Told], form: str) -> str:
    """The least and the most: `52.0 % (entity, least) to 85.0 % (region, most)`."""
    ranked = sorted((value, kind) for kind, value, _, _ in told)
    (low, worst), (high, best) = ranked[0], ranked[-1]
    if form.format(low) == form.format(high):
        return f"{form.format(low)}, whatever the type"
    return f"{form.format(low)} ({worst}, least) to {form.format(high)} ({best}, most)"


def _by_type(
    budgets: Sequence[BudgetDiagnosis], told: Callable[[BudgetDiagnosis], Iterable[_Told]]
) -> list[Spec]:
    """A trace for each budget, its points beside those of the others."""
    rows = {kind: row for row, kind in enumerate(QUESTION_TYPES)}
    traces = []
    for place, budget in enumerate(budgets):
        if of := list(told(budget)):
            trace = points(
                f"k = {budget.k}",
                [value for _, value, _, _ in of],
                [rows[kind] + beside(place, len(budgets)) for kind, _, _, _ in of],
                series=place,
                x_interval=[interval for _, _, interval, _ in of],
                hover=[said for _, _, _, said in of],
            )
            traces.append(trace)
    return traces


def _rows_of_types(traces: list[Spec], x: Spec, **layout: Any) -> Spec:
    return spec(
        traces,
        height=rows_height(QUESTION_TYPES),
        legend=True,
        xaxis=x,
        yaxis=rows_axis(QUESTION_TYPES),
        **layout,
    )


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
    return Figure(name, title, caption, _alt_of_unknown(found), _spec_of_unknown(found, series))


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
    return Figure(name, title, caption, _alt_of_unknown(found), _spec_of_unknown(found, series))


def _asked(systems: Iterable[tuple[SystemDiagnosis, _Counts]]) -> list[tuple[SystemDiagnosis, _Counts]]:
    return [(one, counts) for one, counts in systems if any(n for n, _ in counts)]


def _spec_of_unknown(found: Sequence[tuple[SystemDiagnosis, _Counts]], series: Mapping[str, int]) -> Spec:
    turns = max(len(counts) for _, counts in found)
    traces = {
        series[one.system.label]: _line_of_unknown(
            one, counts, series[one.system.label], beside(place, len(found))
        )
        for place, (one, counts) in enumerate(found)
    }
    return spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=axis("turn", tickvals=list(range(1, turns + 1)), range=[0.5, turns + 0.5]),
        yaxis=axis("unknown answers (%)", rangemode="tozero"),
    )


def _line_of_unknown(one: SystemDiagnosis, counts: _Counts, series: int, aside: float) -> Spec:
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


def _alt_of_unknown(found: Sequence[tuple[SystemDiagnosis, _Counts]]) -> str:
    rates = []
    for one, by_turn in found:
        n, unknown = (sum(column) for column in zip(*by_turn, strict=True))
        rates.append((unknown / n, f"{unknown / n:.1%} of {n:,} for {printable(name_of(one))}"))
    least, most = min(rates)[1], max(rates)[1]
    if len(found) == 1:
        return f"Of these answers are unknown: {least}."
    return f"Of these answers are unknown: least with {least}, most with {most}."


KNOWN_NAME = "known_answers"
KNOWN_TITLE = "Gain by known answers"


def known_answers(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """A line for each system over how many of its questions were answered."""
    found = [one for one in systems if any(known.gain for known in one.known_counts)]
    if not found:
        return LeftOut(
            KNOWN_NAME, KNOWN_TITLE, "No instance was scored both in a Clarifier's run and in orig."
        )
    traces = {
        series[one.system.label]: _line_of_known(one, series[one.system.label], beside(place, len(found)))
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
        KNOWN_NAME,
        KNOWN_TITLE,
        "Mean paired difference to orig of the instances with so many answers that are not “unknown”; whiskers are "
        "95 % paired bootstrap intervals.",
        _alt_of_known(found[-1]),
        drawn,
    )


def _line_of_known(one: SystemDiagnosis, series: int, aside: float) -> Spec:
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


def _alt_of_known(one: SystemDiagnosis) -> str:
    name = name_of(one)
    told = [(known.known_cnt, known.gain) for known in one.known_counts if known.gain]
    said = ", ".join(f"{gain.mean:+.1f} with {count} (n = {gain.n:,})" for count, gain in told)
    return f"Mean gain of {printable(name)} by known answers: {said}."


ASK_OR_NOT_NAME = "ask_or_not"
ASK_OR_NOT_TITLE = "Asking less"
_MOST: Final = 101
"""Points of a frontier that are drawn."""


def ask_or_not(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """A frontier for each system, from never asking to always asking; markers at both ends and at the best."""
    found = [(one, one.frontier) for one in systems if one.frontier]
    if not found:
        return LeftOut(
            ASK_OR_NOT_NAME, ASK_OR_NOT_TITLE, "No instance was scored both in a Clarifier's run and in orig."
        )
    traces = {
        series[one.system.label]: _line_of_ask_or_not(name_of(one), frontier, series[one.system.label])
        for one, frontier in found
    }
    drawn = spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=percent_axis("instances asked (%)", room=2),
        yaxis=axis("mean score (points of 100)"),
    )
    return Figure(
        ASK_OR_NOT_NAME,
        ASK_OR_NOT_TITLE,
        "Mean restore_score_100 when only those instances are asked whose questions are most likely to be answered, by "
        f"out-of-fold prediction, and others are searched as they are; n = {counts(f.n for _, f in found)} instances. "
        "Markers: never, best in this sample, always.",
        _alt_of_ask_or_not(*max(found, key=lambda pair: pair[1].best.mean_score - pair[1].always.mean_score)),
        drawn,
    )


def _line_of_ask_or_not(name: str, frontier: Frontier, series: int) -> Spec:
    points = thinned(frontier)
    told = [f"{name}\n{point.share_asked:.1%} asked: {point.mean_score:.2f}" for point in points]
    ends = (frontier.never, frontier.best, frontier.always)
    trace = lines(
        name,
        [100 * point.share_asked for point in points],
        [point.mean_score for point in points],
        series=series,
        hover=told,
    )
    trace["marker"]["opacity"] = 1
    trace["marker"]["size"] = [10 if point in ends else 0 for point in points]
    return trace


def thinned(frontier: Frontier) -> list[Point]:
    """At most about a hundred points of it, evenly taken, both ends and the best among them."""
    last = len(frontier.points) - 1
    if last < _MOST:
        return list(frontier.points)
    places = {round(i * last / (_MOST - 1)) for i in range(_MOST)}
    return [frontier.points[place] for place in sorted(places | {frontier.points.index(frontier.best)})]


def _alt_of_ask_or_not(one: SystemDiagnosis, frontier: Frontier) -> str:
    never, best, always = frontier.never, frontier.best, frontier.always
    return (
        f"{printable(name_of(one))} would gain most by asking less: it scores {never.mean_score:.1f} never asking, "
        f"{always.mean_score:.1f} always asking and at best {best.mean_score:.1f} with {best.share_asked:.0%} asked."
    )


CALIBRATION_NAME = "calibration"
CALIBRATION_TITLE = "Calibration of predicted answerability"


def calibration(found: Calibration | None) -> Figure | LeftOut:
    """A point for each bin of predictions, the diagonal being perfect."""
    if found is None:
        return LeftOut(CALIBRATION_NAME, CALIBRATION_TITLE, "No question was asked in these runs.")
    skill = "" if found.skill is None else f", skill {found.skill:+.3f}"
    far = max(found.bins, key=lambda one: abs(one.observed - one.predicted))
    drawn = spec(
        [_points(found)],
        height=360,
        legend=False,
        xaxis=percent_axis("predicted to be answered (%)", room=2),
        yaxis=percent_axis("answered (%)", room=2),
        shapes=[{"type": "line", "x0": 0, "y0": 0, "x1": 100, "y1": 100, "line": {"dash": "dot"}}],
    )
    return Figure(
        CALIBRATION_NAME,
        CALIBRATION_TITLE,
        f"Out-of-fold predictions of n = {found.n:,} questions in tenths, with Wilson's 95 % intervals; on the dotted "
        f"line they would be exact. Brier score {found.brier:.3f}{skill}.",
        f"Of {number_of(len(found.bins), 'bin')} the one farthest from the diagonal was predicted "
        f"{far.predicted:.0%} and observed {far.observed:.0%} (n = {far.n:,}).",
        drawn,
    )


def _points(found: Calibration) -> Spec:
    intervals = [wilson(one.known, one.n) or (0.0, 1.0) for one in found.bins]
    return points(
        "questions",
        [100 * one.predicted for one in found.bins],
        [100 * one.observed for one in found.bins],
        y_interval=[(100 * low, 100 * high) for low, high in intervals],
        hover=[
            f"predicted {one.predicted:.1%}\nanswered {one.known:,} of {one.n:,} ({one.observed:.1%})"
            for one in found.bins
        ],
    )
