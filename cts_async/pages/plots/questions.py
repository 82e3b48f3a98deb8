"""Figures of questions: types, answerability, unknown answers by turn, known answers, asking less, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cts_async.analysis import diagnose as policies
from cts_async.analysis.diagnose import BudgetDiagnosis, SystemDiagnosis
from cts_async.analysis.question_types import QUESTION_TYPES
from cts_async.pages.plots import figure as draw
from cts_async.pages.plots.figure import Dot, Figure, LeftOutFigure, Spec
from cts_async.tables.table import difference_text

NO_GAIN: Final = "No instance was scored both in a Clarifier's run and in orig."
NO_QUESTION: Final = "No question was asked in these runs."
NO_ANSWER: Final = "No question was answered in these runs."
MAX_FRONTIER: Final = 101
"""Points of a frontier that are drawn."""


# --- By type of question


def question_types(systems: Sequence[SystemDiagnosis]) -> Figure | LeftOutFigure:
    """A 100 % bar for each system: its questions by primary type."""
    name, title = "question_types", "Types of questions"
    asked = [one for one in systems if one.profiles and one.profiles[0].of]
    if not asked:
        return LeftOutFigure(name, title, NO_QUESTION)
    names = [draw.name_of(one) for one in asked]
    of = [one.profiles[0].of for one in asked]
    bars = []
    for place, kind in enumerate(QUESTION_TYPES):
        n = [next((profile.n for profile in one.profiles if profile.kind == kind), 0) for one in asked]
        bars.append(draw.share_bars(kind, names, n, of, place=place))
    return draw.rows_figure(
        name,
        title,
        f"Questions by their primary type, n = {draw.counts(of)} questions of each system.",
        bars,
        names,
        barmode="stack",
        bargap=0.3,
        xaxis=draw.percent_axis("share of questions (%)"),
    )


def answerability(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOutFigure:
    """A row for each type: the share of its questions that were answered, by budget, with Wilson's intervals."""
    name, title = "answerability", "Answerability by type of question"
    points = {
        budget.k: [
            draw.share_point(QUESTION_TYPES.index(one.kind), one.known, one.n, f"{one.kind}, k = {budget.k}")
            for one in budget.profiles
            if one.n
        ]
        for budget in budgets
    }
    if not any(points.values()):
        return LeftOutFigure(name, title, NO_ANSWER)
    caption = (
        "Share of questions whose answer is not “unknown”, all systems of a budget together; whiskers are Wilson's "
        "95 % intervals."
    )
    return _by_type(name, title, caption, points, draw.percent_axis("questions answered (%)", room=2))


def type_gain(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOutFigure:
    """A row for each type: the points that one question of it brings over orig, by budget."""
    name, title = "type_gain", "Gain by type of question"
    points: dict[int, list[Dot]] = {budget.k: [] for budget in budgets}
    for budget in budgets:
        for kind, one in budget.gains.items():
            text = f"{kind}, k = {budget.k}\n{difference_text(one, '+.2f')}\nn = {one.n:,} questions"
            points[budget.k].append(Dot(QUESTION_TYPES.index(kind), one.mean, text, one.interval))
    if not any(points.values()):
        return LeftOutFigure(name, title, NO_GAIN)
    caption = (
        "Points of restore_score_100 over orig per question of each type, by least squares; whiskers are 95 % "
        "bootstrap intervals over instances. Types are not asked at random: this describes, and proves no cause."
    )
    x = draw.axis("gain by a question (points)")
    return _by_type(name, title, caption, points, x, shapes=[draw.vertical_line(0)])


def _by_type(
    name: str, title: str, caption: str, budgets: Mapping[int, Sequence[Dot]], x: Spec, **layout: Any
) -> Figure:
    """A trace for each budget, its points beside those of the others."""
    traces = [
        draw.row_points(f"k = {k}", points, series=place)
        for place, (k, points) in enumerate(
            zip(budgets, draw.side_by_side(list(budgets.values()), draw.BESIDE_IN_ROWS), strict=True)
        )
        if points
    ]
    row_px = draw.SERIES_ROW_PX if len(traces) > 1 else draw.ROW_PX
    return draw.rows_figure(name, title, caption, traces, QUESTION_TYPES, row_px=row_px, xaxis=x, **layout)


# --- By system


def unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOutFigure:
    """Share of `unknown` answers turn by turn (paper, table 4): a line for each system."""
    name, title, of = "unknown_by_turn", "Unknown answers by turn", "answers that are “unknown”"
    return _unknown(name, title, [(one, one.unknowns.by_turn) for one in systems], series, of, NO_ANSWER)


def region_unknown_by_turn(
    systems: Sequence[SystemDiagnosis], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """The same for questions that ask for a region and nothing else (paper, table 10)."""
    name, title = "region_unknown_by_turn", "Unknown answers about regions by turn"
    found = [(one, [(turn.region_only, turn.region_only_unknown) for turn in one.regions]) for one in systems]
    of = "answers that are “unknown” among questions for a region and nothing else"
    return _unknown(name, title, found, series, of, "No question in these runs is region-only.")


def _unknown(
    name: str,
    title: str,
    systems: Sequence[tuple[SystemDiagnosis, Sequence[tuple[int, int]]]],
    series: Mapping[str, int],
    share_of: str,
    none_asked: str,
) -> Figure | LeftOutFigure:
    """`systems` have questions and unknown answers of each turn, from the first on."""
    found = []
    for one, by_turn in systems:
        points = [
            draw.share_point(turn, unknown, n, f"{draw.name_of(one)}, turn {turn}")
            for turn, (n, unknown) in enumerate(by_turn, start=1)
            if n
        ]
        if points:
            found.append((one, points))
    if not found:
        return LeftOutFigure(name, title, none_asked)
    turns = round(max(points[-1].at for _, points in found))
    return draw.figure(
        name,
        title,
        f"Share of {share_of}; whiskers are Wilson's 95 % intervals. Failed instances are excluded.",
        _system_lines(found, series),
        xaxis=draw.axis("turn", tickvals=list(range(1, turns + 1)), range=[0.5, turns + 0.5]),
        yaxis=draw.axis("unknown answers (%)", rangemode="tozero"),
    )


def _system_lines(
    found: Sequence[tuple[SystemDiagnosis, Sequence[Dot]]], series: Mapping[str, int]
) -> list[Spec]:
    """A line for each system, its points beside those of the others."""
    traces = {}
    for (one, _), points in zip(found, draw.side_by_side([points for _, points in found]), strict=True):
        number = series[one.system.label]
        traces[number] = draw.lines(draw.name_of(one), points, series=number)
    return draw.in_series(traces)


def known_answers(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOutFigure:
    """The gain of instances with 0, 1, ... k known answers (classes of the paper's table 7): a line for each system."""
    name, title = "known_answers", "Gain by known answers"
    found = []
    for one in systems:
        points = [
            draw.mean_point(of.known_cnt, of.gain, f"{draw.name_of(one)}, {of.known_cnt} known", "+.2f")
            for of in one.known_counts
            if of.gain
        ]
        if points:
            found.append((one, points))
    if not found:
        return LeftOutFigure(name, title, NO_GAIN)
    most = max(len(one.known_counts) for one, _ in found)
    return draw.figure(
        name,
        title,
        "Mean paired difference to orig of the instances with so many answers that are not “unknown”; whiskers are "
        "95 % paired bootstrap intervals.",
        _system_lines(found, series),
        xaxis=draw.axis("answers that are known", tickvals=list(range(most)), range=[-0.5, most - 0.5]),
        yaxis=draw.axis("mean gain in restore score (points)"),
        shapes=[draw.horizontal_line(0)],
    )


def ask_or_not_figure(
    systems: Sequence[SystemDiagnosis], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """Mean score against the share of instances that are asked (paper, section 7.3): a frontier for each system."""
    name, title = "ask_or_not", "Asking less"
    found = [(one, one.frontier) for one in systems if one.frontier]
    if not found:
        return LeftOutFigure(name, title, NO_GAIN)
    traces = {}
    for one, frontier in found:
        number, points, name_of_one = series[one.system.label], thinned(frontier), draw.name_of(one)
        texts = [f"{name_of_one}\n{p.share_asked:.1%} asked: {p.mean_score:.2f}" for p in points]
        dots = [Dot(100 * p.share_asked, p.mean_score, text) for p, text in zip(points, texts, strict=True)]
        trace = draw.lines(name_of_one, dots, series=number)
        ends = (frontier.never, frontier.best, frontier.always)
        trace["marker"] |= {"opacity": 1, "size": [10 if point in ends else 0 for point in points]}
        traces[number] = trace
    return draw.figure(
        name,
        title,
        "Mean restore_score_100 when only those instances are asked whose questions are most likely to be answered, by "
        "out-of-fold prediction, and others are searched as they are; "
        f"n = {draw.counts(f.n for _, f in found)} instances. Markers: never, best in this sample, always.",
        draw.in_series(traces),
        xaxis=draw.percent_axis("instances asked (%)", room=2),
        yaxis=draw.axis(draw.SCORE_AXIS),
    )


def thinned(frontier: policies.Frontier) -> list[policies.FrontierPoint]:
    """About MAX_FRONTIER points of it, evenly spaced, including both ends and the best."""
    last = len(frontier.points) - 1
    if last < MAX_FRONTIER:
        return list(frontier.points)
    places = {round(i * last / (MAX_FRONTIER - 1)) for i in range(MAX_FRONTIER)}
    return [frontier.points[place] for place in sorted(places | {frontier.points.index(frontier.best)})]


def calibration(found: policies.Calibration | None) -> Figure | LeftOutFigure:
    """Predicted against observed answerability, on which `ask_or_not` rests: a point for each bin of predictions."""
    name, title = "calibration", "Calibration of predicted answerability"
    if found is None:
        return LeftOutFigure(name, title, NO_QUESTION)
    points = [
        draw.share_point(100 * one.predicted, one.known, one.n, f"predicted {one.predicted:.1%}")
        for one in found.bins
    ]
    skill = "" if found.skill is None else f", skill {found.skill:+.3f}"
    return draw.figure(
        name,
        title,
        f"Out-of-fold predictions of n = {found.n:,} questions in tenths, with Wilson's 95 % intervals; on the dotted "
        f"line they would be exact. Brier score {found.brier:.3f}{skill}.",
        [draw.dots("questions", points)],
        height=360,
        legend=False,
        xaxis=draw.percent_axis("predicted to be answered (%)", room=2),
        yaxis=draw.percent_axis("questions answered (%)", room=2),
        shapes=[{"type": "line", "x0": 0, "y0": 0, "x1": 100, "y1": 100, "line": {"dash": "dot"}}],
    )
