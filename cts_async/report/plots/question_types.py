"""Which types of questions are asked, by system; and how often each type can be answered, and what it brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from cts_async.analysis.diagnose import BudgetDiagnosis, SystemDiagnosis
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import (
    Spec,
    axis,
    beside,
    percent_axis,
    points,
    rows_axis,
    rows_height,
    share_bars,
    spec,
    vertical_line,
)
from cts_async.report.plots.material import name_of
from cts_async.report.plots.words import counts, number_of
from cts_async.report.tables import with_interval

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
