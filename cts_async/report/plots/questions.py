"""Figures of questions: types, answerability, unknown answers by turn, known answers, asking less, calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from cts_async.analysis.diagnose import BudgetDiagnosis, Calibration, Frontier, Point, SystemDiagnosis
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.analysis.stats import wilson
from cts_async.report.plots.figure import (
    Figure,
    Interval,
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

_Row: TypeAlias = tuple[QuestionType, float, Interval, str]
"""A type with its value, the interval of that, and the text on hover."""
_Counts: TypeAlias = Sequence[tuple[int, int]]
"""By turn from the first on: questions, and those whose answer is `unknown`."""
NO_GAIN: Final = "No instance was scored both in a Clarifier's run and in orig."
MAX_FRONTIER: Final = 101
"""Points of a frontier that are drawn."""


def question_types(systems: Sequence[SystemDiagnosis]) -> Figure | LeftOut:
    """A 100 % bar for each system: its questions by primary type."""
    name, title = "question_types", "Types of questions"
    asked = [one for one in systems if one.profiles and one.profiles[0].of]
    if not asked:
        return LeftOut(name, title, "No question was asked in these runs.")
    names = [name_of(one) for one in asked]
    of = [one.profiles[0].of for one in asked]
    by_kind = {
        kind: [next((profile.n for profile in one.profiles if profile.kind == kind), 0) for one in asked]
        for kind in QUESTION_TYPES
    }
    drawn = spec(
        [share_bars(kind, names, n, of, place=place) for place, (kind, n) in enumerate(by_kind.items())],
        height=rows_height(names),
        legend=True,
        barmode="stack",
        bargap=0.3,
        xaxis=percent_axis("share of questions (%)"),
        yaxis=rows_axis(names),
    )
    most, total = max(by_kind, key=lambda kind: sum(by_kind[kind])), sum(of)
    alt = (
        f"The most frequent type is {most}: {sum(by_kind[most]):,} of {total:,} questions "
        f"({sum(by_kind[most]) / total:.1%}) of {number_of(len(asked), 'system')}."
    )
    return Figure(
        name,
        title,
        f"Questions by their primary type, n = {counts(of)} questions of each system.",
        alt,
        drawn,
    )


def answerability(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOut:
    """A row for each type: the share of its questions that were answered, by budget, with Wilson's intervals."""

    def rows(budget: BudgetDiagnosis) -> Iterable[_Row]:
        for one in budget.profiles:
            if one.interval and one.answerability is not None:
                low, high = one.interval
                text = f"{one.kind}, k = {budget.k}\n{one.known:,} of {one.n:,} answered ({one.answerability:.1%})"
                yield one.kind, 100 * one.answerability, (100 * low, 100 * high), text

    name, title = "answerability", "Answerability by type of question"
    traces = _by_type(budgets, rows)
    if not traces:
        return LeftOut(name, title, "No question was answered in these runs.")
    caption = (
        "Share of questions whose answer is not “unknown”, all systems of a budget together; whiskers are Wilson's "
        "95 % intervals."
    )
    alt = f"Answered are {_extremes((one for budget in budgets for one in rows(budget)), '{:.1f} %')}."
    return Figure(name, title, caption, alt, _type_rows(traces, percent_axis("answered (%)", room=2)))


def type_gain(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOut:
    """A row for each type: the points that one question of it brings over orig, by budget."""

    def rows(budget: BudgetDiagnosis) -> Iterable[_Row]:
        for kind, one in budget.gains.items():
            points = with_interval(one.points, one.low, one.high, "+.2f", short=one.too_short)
            text = f"{kind}, k = {budget.k}\n{points}\nn = {one.n:,} questions"
            ends = (one.points, one.points) if one.low is None or one.high is None else (one.low, one.high)
            yield kind, one.points, ends, text

    name, title = "type_gain", "Gain by type of question"
    traces = _by_type(budgets, rows)
    if not traces:
        return LeftOut(name, title, NO_GAIN)
    caption = (
        "Points of restore_score_100 over orig that a question of each type brings, by least squares; whiskers are 95 % "
        "bootstrap intervals over instances. Types are not asked at random: this describes, and proves no cause."
    )
    alt = f"A question brings {_extremes((one for budget in budgets for one in rows(budget)), '{:+.1f} points')}."
    layout = _type_rows(traces, axis("gain of a question (points)"), shapes=[vertical_line(0)])
    return Figure(name, title, caption, alt, layout)


def _by_type(
    budgets: Sequence[BudgetDiagnosis], rows: Callable[[BudgetDiagnosis], Iterable[_Row]]
) -> list[Spec]:
    """A trace for each budget, its points beside those of the others."""
    row_of = {kind: row for row, kind in enumerate(QUESTION_TYPES)}
    return [
        points(
            f"k = {budget.k}",
            [value for _, value, _, _ in of],
            [row_of[kind] + beside(place, len(budgets)) for kind, _, _, _ in of],
            series=place,
            x_interval=[interval for _, _, interval, _ in of],
            hover=[text for _, _, _, text in of],
        )
        for place, budget in enumerate(budgets)
        if (of := list(rows(budget)))
    ]


def _type_rows(traces: list[Spec], x: Spec, **layout: Any) -> Spec:
    height, y = rows_height(QUESTION_TYPES), rows_axis(QUESTION_TYPES)
    return spec(traces, height=height, legend=True, xaxis=x, yaxis=y, **layout)


def _extremes(rows: Iterable[_Row], form: str) -> str:
    """The least and the most: `52.0 % (entity, least) to 85.0 % (region, most)`."""
    ranked = sorted((value, kind) for kind, value, _, _ in rows)
    (low, worst), (high, best) = ranked[0], ranked[-1]
    if form.format(low) == form.format(high):
        return f"{form.format(low)}, whatever the type"
    return f"{form.format(low)} ({worst}, least) to {form.format(high)} ({best}, most)"


def unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """Share of `unknown` answers turn by turn (paper, table 4): a line for each system."""
    name, title = "unknown_by_turn", "Unknown answers by turn"
    found = [(one, one.unknowns.by_turn) for one in systems]
    empty = LeftOut(name, title, "No question was answered in these runs.")
    return _unknown(name, title, found, series, "answers that are “unknown”") or empty


def region_unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """The same for questions that ask for a region and nothing else (paper, table 10)."""
    name, title = "region_unknown_by_turn", "Unknown answers about regions by turn"
    found = [(one, [(turn.region_only, turn.region_only_unknown) for turn in one.regions]) for one in systems]
    empty = LeftOut(name, title, "No question in these runs asks for a region alone.")
    of = "answers that are “unknown” among questions for a region and nothing else"
    return _unknown(name, title, found, series, of) or empty


def _unknown(
    name: str,
    title: str,
    systems: Sequence[tuple[SystemDiagnosis, _Counts]],
    series: Mapping[str, int],
    share_of: str,
) -> Figure | None:
    found = [(one, by_turn) for one, by_turn in systems if any(n for n, _ in by_turn)]
    if not found:
        return None
    turns = max(len(by_turn) for _, by_turn in found)
    traces = {}
    rates = []
    for place, (one, by_turn) in enumerate(found):
        system, number = name_of(one), series[one.system.label]
        asked = [(turn, n, unknown) for turn, (n, unknown) in enumerate(by_turn, start=1) if n]
        intervals = [wilson(unknown, n) or (0.0, 1.0) for _, n, unknown in asked]
        traces[number] = lines(
            system,
            [turn + beside(place, len(found)) for turn, _, _ in asked],
            [100 * unknown / n for _, n, unknown in asked],
            series=number,
            y_interval=[(100 * low, 100 * high) for low, high in intervals],
            hover=[f"{system}\nturn {turn}: {u:,} of {n:,} unknown ({u / n:.1%})" for turn, n, u in asked],
        )
        n, unknown = (sum(column) for column in zip(*by_turn, strict=True))
        rates.append((unknown / n, f"{unknown / n:.1%} of {n:,} for {printable(system)}"))
    drawn = spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=axis("turn", tickvals=list(range(1, turns + 1)), range=[0.5, turns + 0.5]),
        yaxis=axis("unknown answers (%)", rangemode="tozero"),
    )
    caption = f"Share of {share_of}; whiskers are Wilson's 95 % intervals. Failed instances are excluded."
    least, most = min(rates)[1], max(rates)[1]
    alt = f"Unknown answers: {least}." if len(found) == 1 else f"Unknown answers: least {least}, most {most}."
    return Figure(name, title, caption, alt, drawn)


def known_answers(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """The gain of instances with 0, 1, ... k known answers (classes of the paper's table 7): a line for each system."""
    name, title = "known_answers", "Gain by known answers"
    gains = [
        (one, [(known.known_cnt, known.gain) for known in one.known_counts if known.gain]) for one in systems
    ]
    found = [(one, of) for one, of in gains if of]
    if not found:
        return LeftOut(name, title, NO_GAIN)
    traces = {}
    for place, (one, of) in enumerate(found):
        system, number = name_of(one), series[one.system.label]
        traces[number] = lines(
            system,
            [count + beside(place, len(found)) for count, _ in of],
            [gain.mean for _, gain in of],
            series=number,
            y_interval=[gain.ends for _, gain in of],
            hover=[
                f"{system}\n{count} known: {interval(gain, '+.2f')}\nn = {gain.n:,}" for count, gain in of
            ],
        )
    most = max(len(one.known_counts) for one, _ in found)
    drawn = spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=axis("answers that are known", tickvals=list(range(most)), range=[-0.5, most - 0.5]),
        yaxis=axis("mean gain over orig (points)"),
        shapes=[horizontal_line(0)],
    )
    caption = (
        "Mean paired difference to orig of the instances with so many answers that are not “unknown”; whiskers are "
        "95 % paired bootstrap intervals."
    )
    last, of = found[-1]
    by_count = ", ".join(f"{gain.mean:+.1f} with {count} (n = {gain.n:,})" for count, gain in of)
    alt = f"Mean gain of {printable(name_of(last))} by known answers: {by_count}."
    return Figure(name, title, caption, alt, drawn)


def ask_or_not(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOut:
    """Mean score against the share of instances that are asked (paper, section 7.3): a frontier for each system."""
    name, title = "ask_or_not", "Asking less"
    found = [(one, one.frontier) for one in systems if one.frontier]
    if not found:
        return LeftOut(name, title, NO_GAIN)
    traces = {}
    for one, frontier in found:
        system, number, drawn_points = name_of(one), series[one.system.label], thinned(frontier)
        trace = lines(
            system,
            [100 * point.share_asked for point in drawn_points],
            [point.mean_score for point in drawn_points],
            series=number,
            hover=[
                f"{system}\n{point.share_asked:.1%} asked: {point.mean_score:.2f}" for point in drawn_points
            ],
        )
        ends = (frontier.never, frontier.best, frontier.always)
        trace["marker"] |= {"opacity": 1, "size": [10 if point in ends else 0 for point in drawn_points]}
        traces[number] = trace
    drawn = spec(
        in_series(traces),
        height=340,
        legend=True,
        xaxis=percent_axis("instances asked (%)", room=2),
        yaxis=axis("mean score (points of 100)"),
    )
    caption = (
        "Mean restore_score_100 when only those instances are asked whose questions are most likely to be answered, by "
        f"out-of-fold prediction, and others are searched as they are; n = {counts(f.n for _, f in found)} instances. "
        "Markers: never, best in this sample, always."
    )
    most, of = max(found, key=lambda pair: pair[1].best.mean_score - pair[1].always.mean_score)
    alt = (
        f"{printable(name_of(most))} would gain most by asking less: it scores {of.never.mean_score:.1f} never asking, "
        f"{of.always.mean_score:.1f} always asking and at best {of.best.mean_score:.1f} with "
        f"{of.best.share_asked:.0%} asked."
    )
    return Figure(name, title, caption, alt, drawn)


def thinned(frontier: Frontier) -> list[Point]:
    """About MAX_FRONTIER points of it, evenly spaced, including both ends and the best."""
    last = len(frontier.points) - 1
    if last < MAX_FRONTIER:
        return list(frontier.points)
    places = {round(i * last / (MAX_FRONTIER - 1)) for i in range(MAX_FRONTIER)}
    return [frontier.points[place] for place in sorted(places | {frontier.points.index(frontier.best)})]


def calibration(found: Calibration | None) -> Figure | LeftOut:
    """Predicted against observed answerability, on which `ask_or_not` rests: a point for each bin of predictions."""
    name, title = "calibration", "Calibration of predicted answerability"
    if found is None:
        return LeftOut(name, title, "No question was asked in these runs.")
    intervals = [wilson(one.known, one.n) or (0.0, 1.0) for one in found.bins]
    trace = points(
        "questions",
        [100 * one.predicted for one in found.bins],
        [100 * one.observed for one in found.bins],
        y_interval=[(100 * low, 100 * high) for low, high in intervals],
        hover=[
            f"predicted {one.predicted:.1%}\nanswered {one.known:,} of {one.n:,} ({one.observed:.1%})"
            for one in found.bins
        ],
    )
    drawn = spec(
        [trace],
        height=360,
        legend=False,
        xaxis=percent_axis("predicted to be answered (%)", room=2),
        yaxis=percent_axis("answered (%)", room=2),
        shapes=[{"type": "line", "x0": 0, "y0": 0, "x1": 100, "y1": 100, "line": {"dash": "dot"}}],
    )
    skill = "" if found.skill is None else f", skill {found.skill:+.3f}"
    caption = (
        f"Out-of-fold predictions of n = {found.n:,} questions in tenths, with Wilson's 95 % intervals; on the dotted "
        f"line they would be exact. Brier score {found.brier:.3f}{skill}."
    )
    far = max(found.bins, key=lambda one: abs(one.observed - one.predicted))
    alt = (
        f"Of {number_of(len(found.bins), 'bin')} the one farthest from the diagonal was predicted "
        f"{far.predicted:.0%} and observed {far.observed:.0%} (n = {far.n:,})."
    )
    return Figure(name, title, caption, alt, drawn)
