"""All figures that there is data for, in the order of a report, and why the others are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cts_async.analysis.diagnose import Diagnosis
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.plots.cost import cost, time
from cts_async.report.plots.figure import Figure, LeftOut, listed
from cts_async.report.plots.judges import agreement, judges
from cts_async.report.plots.material import Material, judged_by, marked, scored_systems, series_of, versus
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

_MARK: Final = "smoke test"
_UNNAMED: Final = frozenset({"agreement", "answerability", "type_gain", "calibration"})
"""Figures without names of systems, which carry the mark in the others."""
_MARK_PX: Final = 28
"""Height above the axes for the mark."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of `figures`."""

    figures: tuple[Figure, ...]
    left_out: tuple[LeftOut, ...]


def figures(material: Material) -> Drawn:
    """Every figure of the material. Names are distinct, and suitable as file names and anchors."""
    made, played = list(_made(material)), _embedded(material)
    embedded = [name for name, by_embedded in played.items() if by_embedded]
    return Drawn(
        tuple(_with_mark(one, embedded, len(played)) for one in made if isinstance(one, Figure)),
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
    clarifiers = [found for found in material.turns if found.cells]
    for place, found in enumerate(clarifiers, start=1):
        for measure in found.measures:
            smoke = found.clarifier in material.embedded_talks
            figure = turns(found, measure, seed, smoke=smoke, judgments=material.judgments)
            yield apart(figure, found.name, place) if len(clarifiers) > 1 else figure


# --- The mark of the embedded model


def _embedded(material: Material) -> Mapping[str, bool]:
    """By system, whether the embedded model played for it."""
    played = {}
    if material.diagnosed:
        systems = [one.system for one in material.diagnosed.diagnosis.systems]
        played = {one.label: one.embedded for one in systems}
    if material.compared:
        played |= {one.label: one.embedded for one in material.compared.board.entrants}
    return played


def _with_mark(figure: Figure, embedded: Sequence[str], n_systems: int) -> Figure:
    """The figure, marked in itself and in its texts if it shows no names of systems, which are marked themselves.

    If the embedded model played for every system, all text alternatives say so.
    """
    if not embedded:
        return figure
    whose = "" if len(embedded) == n_systems else f" for {listed(embedded)}"
    remark = f" Smoke test: the embedded model played{whose}."
    if figure.name not in _UNNAMED:
        return figure if whose or _MARK in figure.alt else replace(figure, alt=figure.alt + remark)
    layout = figure.spec["layout"]
    corner = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}
    changed = {
        "annotations": [*layout.get("annotations", ()), {**corner, "text": _MARK, "showarrow": False}],
        "margin": {**layout.get("margin", {}), "t": _MARK_PX},
        "height": layout["height"] + _MARK_PX,
    }
    spec = {**figure.spec, "layout": {**layout, **changed}}
    return replace(figure, alt=figure.alt + remark, caption=figure.caption + remark, spec=spec)
