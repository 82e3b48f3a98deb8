"""Figures of runs, as plotly draws them.

`figures` makes all that there is data for as plain data, `template` gives the colours that they are drawn in,
`plotly_js` what draws them in a page, and `export` writes them as files for papers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cts_async.analysis.diagnose import Diagnosis
from cts_async.report.comparison import RunsCompared
from cts_async.report.plots import questions, scores
from cts_async.report.plots.figure import (
    THEMES,
    Figure,
    LeftOutFigure,
    Material,
    Theme,
    listed,
    marked,
    scored_systems,
    series_of,
    template,
    versus,
)
from cts_async.report.plots.image_files import FORMATS, check_export, export, plotly_js

__all__ = [
    "FORMATS",
    "THEMES",
    "Drawn",
    "Figure",
    "LeftOutFigure",
    "Material",
    "Theme",
    "check_export",
    "export",
    "figures",
    "plotly_js",
    "template",
]

_Made: TypeAlias = Iterator[Figure | LeftOutFigure]

_UNNAMED: Final = frozenset({"agreement", "answerability", "type_gain", "calibration"})
"""Figures without names of systems, which carry the mark of a smoke test in the others."""
_MARK_PX: Final = 28
"""Height above the axes for the mark."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of `figures`."""

    figures: tuple[Figure, ...]
    left_out: tuple[LeftOutFigure, ...]


def figures(material: Material) -> Drawn:
    """Every figure of the material. Names are distinct, and suitable as file names and anchors."""
    made = list(_made(material))
    embedded = _embedded(material)
    return Drawn(
        tuple(_with_mark(one, embedded) for one in made if isinstance(one, Figure)),
        tuple(one for one in made if isinstance(one, LeftOutFigure)),
    )


def _made(material: Material) -> _Made:
    series = series_of(material)
    if material.compared:
        yield from _of_scores(material, material.compared, series)
    if material.diagnosed:
        yield from _of_questions(material.diagnosed.diagnosis, series)
    yield from _of_turns(material)


def _of_scores(material: Material, compared: RunsCompared, series: Mapping[str, int]) -> _Made:
    """Scores are those of the first judge."""
    board, baseline = compared.board, compared.baseline
    if compared.judged and compared.judged[0].standings:
        judge, standings = compared.judged[0].judge, compared.judged[0].standings
        systems = scored_systems(board, judge, compared.seed)
        against = versus(systems, baseline)
        yield scores.leaderboard(systems, judge)
        yield scores.gain(standings, {one.label: one.name for one in systems}, baseline, judge)
        yield scores.distribution(systems)
        yield scores.better_or_worse(against, baseline)
        yield scores.gain_by_instance(against, board.ids, series, baseline)
        yield scores.cost(systems, material.summaries, series)
        yield scores.time(systems, material.summaries, series)
    names = {one.label: marked(one.label, embedded=one.embedded) for one in board.entrants}
    yield scores.judges(compared.robustness, names)
    yield scores.agreement(compared.robustness)


def _of_questions(found: Diagnosis, series: Mapping[str, int]) -> _Made:
    yield questions.unknown_by_turn(found.systems, series)
    yield questions.region_unknown_by_turn(found.systems, series)
    yield questions.question_types(found.systems)
    yield questions.answerability(found.budgets)
    yield questions.type_gain(found.budgets)
    yield questions.known_answers(found.systems, series)
    yield questions.ask_or_not(found.systems, series)
    yield questions.calibration(found.calibration)


def _of_turns(material: Material) -> _Made:
    seed = material.compared.seed if material.compared else 0
    clarifiers = [found for found in material.turns if found.cells]
    for place, found in enumerate(clarifiers, start=1):
        for measure in found.measures:
            smoke = found.clarifier in material.embedded_talks
            figure = scores.turns(found, measure, seed, smoke=smoke, judgments=material.judgments)
            yield scores.for_clarifier(figure, found.name, place) if len(clarifiers) > 1 else figure


# --- The mark of the embedded model


def _embedded(material: Material) -> list[str]:
    """The systems for which the embedded model played."""
    found = []
    if material.compared:
        found += [one.label for one in material.compared.board.entrants if one.embedded]
    if material.diagnosed:
        systems = [one.system for one in material.diagnosed.diagnosis.systems]
        found += [one.label for one in systems if one.embedded]
    return list(dict.fromkeys(found))


def _with_mark(figure: Figure, embedded: list[str]) -> Figure:
    """Mark a figure in itself and in its texts if it shows no names of systems, which are marked themselves."""
    if not embedded or figure.name not in _UNNAMED:
        return figure
    remark = f" Smoke test: the embedded model played for {listed(embedded)}."
    layout = figure.spec["layout"]
    corner = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}
    changed = {
        "annotations": [
            *layout.get("annotations", ()),
            {**corner, "text": "smoke test", "showarrow": False},
        ],
        "margin": {**layout.get("margin", {}), "t": _MARK_PX},
        "height": layout["height"] + _MARK_PX,
    }
    spec = {**figure.spec, "layout": {**layout, **changed}}
    return replace(figure, alt=figure.alt + remark, caption=figure.caption + remark, spec=spec)
