"""All figures that there is data for, in the order of a report, and why others are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cts_async.analysis.diagnose import Diagnosis
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.plots.cost import cost, time
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.judges import agreement, judges
from cts_async.report.plots.material import (
    Material,
    embedded_systems,
    judged_by,
    marked,
    scored_systems,
    series_of,
    versus,
    with_mark,
)
from cts_async.report.plots.questions import (
    answerability,
    ask_or_not,
    calibration,
    known_answers,
    question_types,
    region_unknown_by_turn,
    type_gain,
    unknown_by_turn,
)
from cts_async.report.plots.scores import better_or_worse, distribution, gain, gain_by_instance, leaderboard
from cts_async.report.plots.turns import apart, turns

_Made: TypeAlias = Iterator[Figure | LeftOut]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What `figures` made."""

    figures: tuple[Figure, ...]
    left_out: tuple[LeftOut, ...]


def figures(material: Material) -> Drawn:
    """Every figure of the material. Names are distinct, and good for files and anchors."""
    made, embedded = list(_made(material)), embedded_systems(material)
    return Drawn(
        tuple(with_mark(one, *embedded) for one in made if isinstance(one, Figure)),
        tuple(one for one in made if isinstance(one, LeftOut)),
    )


def _made(material: Material) -> _Made:
    series = series_of(material)
    if material.compared:
        judged = judged_by(material.compared, material.judge)
        if judged and judged.standings:
            yield from _of_scores(material, material.compared, judged, series)
        names = {
            one.label: marked(one.label, embedded=one.embedded) for one in material.compared.board.entrants
        }
        yield judges(material.compared.robustness, names)
        yield agreement(material.compared.robustness)
    if material.diagnosed:
        yield from _of_questions(material.diagnosed.diagnosis, series)
    yield from _of_turns(material)


def _of_scores(
    material: Material, compared: RunsCompared, judged: Judged, series: Mapping[str, int]
) -> _Made:
    systems = scored_systems(compared.board, judged.judge, compared.seed)
    names = {one.label: one.name for one in systems}
    against = versus(systems, compared.baseline)
    yield leaderboard(systems, judged.judge)
    yield gain(judged.standings, names, compared.baseline, judged.judge)
    yield distribution(systems)
    yield better_or_worse(against, compared.baseline)
    yield gain_by_instance(against, compared.board.ids, series, compared.baseline)
    yield cost(systems, material.summaries, series)
    yield time(systems, material.summaries, series)


def _of_questions(found: Diagnosis, series: Mapping[str, int]) -> _Made:
    yield unknown_by_turn(found.systems, series)
    yield region_unknown_by_turn(found.systems, series)
    yield question_types(found.systems)
    yield answerability(found.budgets)
    yield type_gain(found.budgets)
    yield known_answers(found.systems, series)
    yield ask_or_not(found.systems, series)
    yield calibration(found.calibration)


def _of_turns(material: Material) -> _Made:
    seed = material.compared.seed if material.compared else 0
    told = [found for found in material.turns if found.cells]
    for place, found in enumerate(told, start=1):
        for measure in found.measures:
            smoke = found.clarifier in material.embedded_talks
            figure = turns(found, measure, seed, smoke=smoke, judgments=material.judgments)
            yield apart(figure, found.name, place) if len(told) > 1 else figure
