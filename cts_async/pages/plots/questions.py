"""Figures of questions: types, answerability, unknown answers by turn, known answers, asking less, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cts_async.analysis.diagnose import (
    BudgetDiagnosis,
    Calibration,
    Frontier,
    FrontierPoint,
    SystemDiagnosis,
)
from cts_async.analysis.question_types import QUESTION_TYPES
from cts_async.pages.plots import figure as draw
from cts_async.pages.plots.figure import Dot, Figure, LeftOutFigure, Spec
from cts_async.tables.table import difference_text

NO_GAIN: Final = "No instance was scored both in a Clarifier's run and in orig."
NO_QUESTION: Final = "No question was asked in these runs."
NO_ANSWER: Final = "No question was answered in these runs."
MAX_FRONTIER: Final = 101
"""Points of a frontier that are drawn."""
_FRONTIER_MARKER_PX: Final = 10


# --- By type of question


def question_types(systems: Sequence[SystemDiagnosis]) -> Figure | LeftOutFigure:
    """A 100 % bar for each system: its questions by primary type."""
    name, title = "question_types", "Types of questions"
    names: list[str] = []
    totals: list[int] = []
    counts_by_type: dict[str, list[int]] = {kind: [] for kind in QUESTION_TYPES}
    for system in systems:
        # Every profile has the number of all questions of its system.
        if not system.profiles or not system.profiles[0].of:
            continue
        names.append(draw.diagnosed_name(system))
        totals.append(system.profiles[0].of)
        n_of_type = {profile.kind: profile.n for profile in system.profiles}
        for kind in QUESTION_TYPES:
            counts_by_type[kind].append(n_of_type.get(kind, 0))
    if not names:
        return LeftOutFigure(name, title, NO_QUESTION)
    bars: list[Spec] = []
    for place, kind in enumerate(QUESTION_TYPES):
        bars.append(draw.share_bars(kind, names, counts_by_type[kind], totals, place=place))
    return draw.rows_figure(
        name,
        title,
        f"Questions by their primary type, n = {draw.count_range(totals)} questions of each system.",
        bars,
        names,
        barmode="stack",
        bargap=0.3,
        xaxis=draw.percent_axis("share of questions (%)"),
    )


def answerability(budgets: Sequence[BudgetDiagnosis]) -> Figure | LeftOutFigure:
    """A row for each type: the share of its questions that were answered, by budget, with Wilson's intervals."""
    name, title = "answerability", "Answerability by type of question"
    points: dict[int, list[Dot]] = {budget.k: [] for budget in budgets}
    for budget in budgets:
        for profile in budget.profiles:
            # A share of no questions is not 0 %: the row stays empty.
            if not profile.n:
                continue
            row = QUESTION_TYPES.index(profile.kind)
            label = f"{profile.kind}, k = {budget.k}"
            points[budget.k].append(draw.share_point(row, profile.known, profile.n, label))
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
        for kind, gain in budget.gains.items():
            text = f"{kind}, k = {budget.k}\n{difference_text(gain, '+.2f')}\nn = {gain.n:,} questions"
            points[budget.k].append(Dot(QUESTION_TYPES.index(kind), gain.mean, text, gain.interval))
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
    moved = draw.side_by_side(list(budgets.values()), draw.BESIDE_IN_ROWS)
    traces: list[Spec] = []
    # A budget without points counts as a series, so that a budget has one marker in all figures by type.
    for place, (k, points) in enumerate(zip(budgets, moved, strict=True)):
        if points:
            traces.append(draw.row_points(f"k = {k}", points, series=place))
    row_px = draw.ROW_PX
    if len(traces) > 1:
        row_px = draw.SERIES_ROW_PX
    return draw.rows_figure(name, title, caption, traces, QUESTION_TYPES, row_px=row_px, xaxis=x, **layout)


# --- By system


def unknown_by_turn(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOutFigure:
    """Share of `unknown` answers turn by turn (paper, table 4): a line for each system."""
    name, title = "unknown_by_turn", "Unknown answers by turn"
    by_turn = [system.unknowns.by_turn for system in systems]
    caption = _unknown_caption("answers that are “unknown”")
    figure = _unknown_figure(name, title, caption, systems, by_turn, series)
    return figure or LeftOutFigure(name, title, NO_ANSWER)


def region_unknown_by_turn(
    systems: Sequence[SystemDiagnosis], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """The same for questions that ask for a region and nothing else (paper, table 10)."""
    name, title = "region_unknown_by_turn", "Unknown answers about regions by turn"
    by_turn: list[list[tuple[int, int]]] = []
    for system in systems:
        by_turn.append([(turn.region_only, turn.region_only_unknown) for turn in system.regions])
    caption = _unknown_caption("answers that are “unknown” among questions for a region and nothing else")
    figure = _unknown_figure(name, title, caption, systems, by_turn, series)
    return figure or LeftOutFigure(name, title, "No question in these runs is region-only.")


def _unknown_caption(share_of: str) -> str:
    return f"Share of {share_of}; whiskers are Wilson's 95 % intervals. Failed instances are excluded."


def _unknown_figure(
    name: str,
    title: str,
    caption: str,
    systems: Sequence[SystemDiagnosis],
    by_turn: Sequence[Sequence[tuple[int, int]]],
    series: Mapping[str, int],
) -> Figure | None:
    """`by_turn` has, for each system, questions and unknown answers of each turn. None if nothing was asked."""
    points_by_system: list[tuple[SystemDiagnosis, list[Dot]]] = []
    n_turns = 0
    for system, turns in zip(systems, by_turn, strict=True):
        points: list[Dot] = []
        for turn, (n_asked, n_unknown) in enumerate(turns, start=1):
            if n_asked:
                label = f"{draw.diagnosed_name(system)}, turn {turn}"
                points.append(draw.share_point(turn, n_unknown, n_asked, label))
                n_turns = max(n_turns, turn)
        if points:
            points_by_system.append((system, points))
    if not points_by_system:
        return None
    return draw.figure(
        name,
        title,
        caption,
        _system_lines(points_by_system, series),
        xaxis=draw.axis("turn", tickvals=list(range(1, n_turns + 1)), range=[0.5, n_turns + 0.5]),
        yaxis=draw.axis("unknown answers (%)", rangemode="tozero"),
    )


def _system_lines(
    points_by_system: Sequence[tuple[SystemDiagnosis, Sequence[Dot]]], series: Mapping[str, int]
) -> list[Spec]:
    """A line for each system, its points beside those of the others."""
    moved = draw.side_by_side([points for _, points in points_by_system])
    traces: dict[int, Spec] = {}
    for (system, _), points in zip(points_by_system, moved, strict=True):
        number = series[system.system.label]
        traces[number] = draw.lines(draw.diagnosed_name(system), points, series=number)
    return draw.in_series(traces)


def known_answers(systems: Sequence[SystemDiagnosis], series: Mapping[str, int]) -> Figure | LeftOutFigure:
    """The gain of instances with 0, 1, ... k known answers (classes of the paper's table 7): a line for each system."""
    name, title = "known_answers", "Gain by known answers"
    points_by_system: list[tuple[SystemDiagnosis, list[Dot]]] = []
    # Classes are those of 0, 1, ... k known answers: one more than the greatest budget.
    n_classes = 0
    for system in systems:
        points: list[Dot] = []
        for known_class in system.known_counts:
            if known_class.gain is not None:
                label = f"{draw.diagnosed_name(system)}, {known_class.known_cnt} known"
                points.append(draw.mean_point(known_class.known_cnt, known_class.gain, label, "+.2f"))
        if points:
            points_by_system.append((system, points))
            n_classes = max(n_classes, len(system.known_counts))
    if not points_by_system:
        return LeftOutFigure(name, title, NO_GAIN)
    return draw.figure(
        name,
        title,
        "Mean paired difference to orig of the instances with so many answers that are not “unknown”; whiskers are "
        "95 % paired bootstrap intervals.",
        _system_lines(points_by_system, series),
        xaxis=draw.axis(
            "answers that are known", tickvals=list(range(n_classes)), range=[-0.5, n_classes - 0.5]
        ),
        yaxis=draw.axis("mean gain in restore score (points)"),
        shapes=[draw.horizontal_line(0)],
    )


def ask_or_not_figure(
    systems: Sequence[SystemDiagnosis], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """Mean score against the share of instances that are asked (paper, section 7.3): a frontier for each system."""
    name, title = "ask_or_not", "Asking less"
    traces: dict[int, Spec] = {}
    n_instances: list[int] = []
    for system in systems:
        if system.frontier is None:
            continue
        number = series[system.system.label]
        traces[number] = _frontier_line(draw.diagnosed_name(system), system.frontier, number)
        n_instances.append(system.frontier.n)
    if not traces:
        return LeftOutFigure(name, title, NO_GAIN)
    return draw.figure(
        name,
        title,
        "Mean restore_score_100 when only those instances are asked whose questions are most likely to be answered, by "
        "out-of-fold prediction, and others are searched as they are; "
        f"n = {draw.count_range(n_instances)} instances. Markers: never, best in this sample, always.",
        draw.in_series(traces),
        xaxis=draw.percent_axis("instances asked (%)", room=2),
        yaxis=draw.axis(draw.SCORE_AXIS),
    )


def _frontier_line(name: str, frontier: Frontier, number: int) -> Spec:
    """A line through the points of a frontier, with markers at never, best and always only."""
    marked_points = (frontier.never, frontier.best, frontier.always)
    dots: list[Dot] = []
    sizes: list[int] = []
    for point in thinned(frontier):
        text = f"{name}\n{point.share_asked:.1%} asked: {point.mean_score:.2f}"
        dots.append(Dot(100 * point.share_asked, point.mean_score, text))
        size = 0
        if point in marked_points:
            size = _FRONTIER_MARKER_PX
        sizes.append(size)
    line = draw.lines(name, dots, series=number)
    line["marker"] |= {"opacity": 1, "size": sizes}
    return line


def thinned(frontier: Frontier) -> list[FrontierPoint]:
    """About MAX_FRONTIER points of it, evenly spaced, including both ends and the best."""
    end = len(frontier.points) - 1
    if end < MAX_FRONTIER:
        return list(frontier.points)
    places = {round(i * end / (MAX_FRONTIER - 1)) for i in range(MAX_FRONTIER)}
    # The best has a marker of its own, wherever it falls.
    places.add(frontier.points.index(frontier.best))
    return [frontier.points[place] for place in sorted(places)]


def calibration_figure(calibration: Calibration | None) -> Figure | LeftOutFigure:
    """Predicted against observed answerability, on which `ask_or_not` rests: a point for each bin of predictions."""
    name, title = "calibration", "Calibration of predicted answerability"
    if calibration is None:
        return LeftOutFigure(name, title, NO_QUESTION)
    points: list[Dot] = []
    for predictions in calibration.bins:
        label = f"predicted {predictions.predicted:.1%}"
        place = 100 * predictions.predicted
        points.append(draw.share_point(place, predictions.known, predictions.n, label))
    brier = f"Brier score {calibration.brier:.3f}"
    if calibration.skill is not None:
        brier += f", skill {calibration.skill:+.3f}"
    return draw.figure(
        name,
        title,
        f"Out-of-fold predictions of n = {calibration.n:,} questions in tenths, with Wilson's 95 % intervals; on the "
        f"dotted line they would be exact. {brier}.",
        [draw.dots("questions", points)],
        height=360,
        legend=False,
        xaxis=draw.percent_axis("predicted to be answered (%)", room=2),
        yaxis=draw.percent_axis("questions answered (%)", room=2),
        shapes=[{"type": "line", "x0": 0, "y0": 0, "x1": 100, "y1": 100, "line": {"dash": "dot"}}],
    )
