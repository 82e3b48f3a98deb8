"""Figures of runs, as plotly draws them.

`figures` makes all that there is data for as plain data, `template` gives the colours that they are drawn in,
`plotly_js` what draws them in a page, and `write_figures` writes them as files for papers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cts_async.analysis.diagnose import Diagnosis
from cts_async.analysis.retrieval import TurnRetrieval
from cts_async.analysis.summary import RunSummary
from cts_async.pages.plots import questions, scores
from cts_async.pages.plots.figure import (
    THEMES,
    Figure,
    LeftOutFigure,
    Theme,
    joined_names,
    scored_systems,
    template,
    versus,
)
from cts_async.pages.plots.image_files import FORMATS, check_export, plotly_js, write_figures
from cts_async.records import MADE_UP, SMOKE_TEST, Caveat
from cts_async.tables.comparison import RunsCompared
from cts_async.tables.diagnosis import DiagnosisReport
from cts_async.tables.table import marked

__all__ = [
    "FORMATS",
    "THEMES",
    "Drawn",
    "Figure",
    "LeftOutFigure",
    "Theme",
    "check_export",
    "figures",
    "plotly_js",
    "template",
    "write_figures",
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


def figures(
    compared: RunsCompared | None = None,
    diagnosed: DiagnosisReport | None = None,
    *,
    summaries: Sequence[RunSummary] = (),
    turns: Sequence[TurnRetrieval] = (),
    judgments: str = "",
    embedded_talks: Collection[str] = (),
) -> Drawn:
    """Every figure that there is data for. Names are distinct, and suitable as file names and anchors.

    `compared` may be of one run alone, whose baseline is then itself. Summaries belong to systems by directory. There is
    one of `turns` for each Clarifier of `cts converse`; those in `embedded_talks` were played by the embedded model.
    `judgments` names the documents searched for `turns`, and who judged them: pseudo-judgments must be recognisable.
    """
    systems = [(one.label, one.caveat) for one in compared.board.entrants] if compared else []
    if diagnosed:
        systems += [(one.system.label, one.system.caveat) for one in diagnosed.diagnosis.systems]
    series = {label: place for place, label in enumerate(dict(systems))}
    made: list[Figure | LeftOutFigure] = []
    if compared:
        made += _of_scores(compared, summaries, series)
    if diagnosed:
        made += _of_questions(diagnosed.diagnosis, series)
    made += _of_turns(turns, compared.seed if compared else 0, judgments, embedded_talks)
    labels = {caveat: [name for name, own in dict(systems).items() if own == caveat] for _, caveat in systems}
    return Drawn(
        tuple(_with_marks(one, labels) for one in made if isinstance(one, Figure)),
        tuple(one for one in made if isinstance(one, LeftOutFigure)),
    )


def _of_scores(compared: RunsCompared, summaries: Sequence[RunSummary], series: Mapping[str, int]) -> _Made:
    """Figures of scores by the first judge, which give a system the same colour (its place in `series`)."""
    board, baseline = compared.board, compared.baseline
    if compared.judged and compared.judged[0].standings:
        judge, standings = compared.judged[0].judge, compared.judged[0].standings
        systems = scored_systems(board, judge, compared.seed)
        against = versus(systems, baseline)
        # As in tables: means over other instances each can order two systems otherwise than their pairs do.
        yield scores.leaderboard_figure(scored_systems(board, judge, compared.seed, common=True), judge)
        yield scores.gain(standings, {one.label: one.name for one in systems}, baseline, judge)
        yield scores.distribution(systems)
        yield scores.better_or_worse(against, baseline)
        yield scores.gain_by_instance(against, board.ids, series, baseline)
        yield scores.cost(systems, summaries, series)
        yield scores.time(systems, summaries, series)
    names = {one.label: marked(one.label, one.caveat) for one in board.entrants}
    yield scores.judges(compared.robustness, names)
    yield scores.agreement(compared.robustness)


def _of_questions(found: Diagnosis, series: Mapping[str, int]) -> _Made:
    yield questions.unknown_by_turn(found.systems, series)
    yield questions.region_unknown_by_turn(found.systems, series)
    yield questions.question_types(found.systems)
    yield questions.answerability(found.budgets)
    yield questions.type_gain(found.budgets)
    yield questions.known_answers(found.systems, series)
    yield questions.ask_or_not_figure(found.systems, series)
    yield questions.calibration(found.calibration)


def _of_turns(
    turns: Sequence[TurnRetrieval], seed: int, judgments: str, embedded_talks: Collection[str]
) -> _Made:
    clarifiers = [found for found in turns if found.cells]
    for place, found in enumerate(clarifiers, start=1):
        for measure in found.measures:
            caveat: Caveat = SMOKE_TEST if found.clarifier in embedded_talks else ""
            figure = scores.turns(found, measure, seed, caveat=caveat, judgments=judgments)
            yield scores.for_clarifier(figure, found.name, place) if len(clarifiers) > 1 else figure


_PLAYED: Final[Mapping[Caveat, str]] = {SMOKE_TEST: "the embedded model", MADE_UP: "scripts, no model,"}


def _with_marks(figure: Figure, labels: Mapping[Caveat, Sequence[str]]) -> Figure:
    """Mark a figure in itself and in its texts, given the systems by caveat.

    For a smoke test only if it shows no names of systems, which are marked themselves.
    """
    for caveat, player in _PLAYED.items():
        if labels.get(caveat) and (caveat == MADE_UP or figure.name in _UNNAMED):
            figure = _with_mark(
                figure, caveat, f" {caveat.capitalize()}: {player} played for {joined_names(labels[caveat])}."
            )
    return figure


def _with_mark(figure: Figure, mark: str, remark: str) -> Figure:
    """The figure with `mark` in its corner, and `remark` after its texts."""
    layout = figure.spec["layout"]
    corner = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}
    changed = {
        "annotations": [
            *layout.get("annotations", ()),
            {**corner, "text": mark, "showarrow": False},
        ],
        "margin": {**layout.get("margin", {}), "t": _MARK_PX},
        "height": layout["height"] + _MARK_PX,
    }
    spec = {**figure.spec, "layout": {**layout, **changed}}
    return replace(figure, alt=figure.alt + remark, caption=figure.caption + remark, spec=spec)
