"""Figures of runs, as plotly draws them.

`figures` makes all that there is data for as plain data, `template` gives the colours that they are drawn in,
`plotly_js` what draws them in a page, and `write_figures` writes them as files for papers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cts_async.analysis.diagnose import Diagnosis
from cts_async.analysis.retrieval import TurnRetrieval
from cts_async.analysis.summary import RunSummary
from cts_async.pages.plots import asking, questions, scores
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

_Candidates: TypeAlias = Iterator[Figure | LeftOutFigure]

_UNNAMED: Final = frozenset({"agreement", "answerability", "type_gain", "calibration"})
"""Figures without names of systems, which carry the mark of a smoke test in the others."""
_MARK_PX: Final = 28
"""Height above the axes for the mark."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of `figures`."""

    figures: tuple[Figure, ...]
    left_out: tuple[LeftOutFigure, ...]
    in_chinese: tuple[Figure, ...] = ()
    """Figures that there are with Chinese words, too: written as files for papers, and in no page."""


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
    caveats: dict[str, Caveat] = {}
    if compared:
        for entrant in compared.board.entrants:
            caveats[entrant.label] = entrant.caveat
    if diagnosed:
        for diagnosis in diagnosed.diagnosis.systems:
            caveats[diagnosis.system.label] = diagnosis.system.caveat
        if diagnosed.asking:
            for system in diagnosed.asking.systems:
                caveats.setdefault(system.label, system.caveat)
    # One numbering for all figures, so that a system has the same colour in each.
    series = {label: place for place, label in enumerate(caveats)}
    seed = 0
    candidates: list[Figure | LeftOutFigure] = []
    if compared:
        seed = compared.seed
        candidates += _score_figures(compared, summaries, series)
    chinese: list[Figure] = []
    if diagnosed:
        if diagnosed.asking:
            candidates.append(asking.question_worth(diagnosed.asking, series))
            chinese += asking.in_chinese(diagnosed.asking, series)
        candidates += _question_figures(diagnosed.diagnosis, series)
    candidates += _turn_figures(turns, seed, judgments, embedded_talks)
    labels: dict[Caveat, list[str]] = defaultdict(list)
    for label, caveat in caveats.items():
        labels[caveat].append(label)
    drawn: list[Figure] = []
    left_out: list[LeftOutFigure] = []
    for candidate in candidates:
        if isinstance(candidate, Figure):
            drawn.append(_with_marks(candidate, labels))
        else:
            left_out.append(candidate)
    return Drawn(tuple(drawn), tuple(left_out), tuple(_with_marks(figure, labels) for figure in chinese))


def _score_figures(
    compared: RunsCompared, summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> _Candidates:
    """Figures of scores by the first judge, which give a system the same colour (its place in `series`)."""
    board, baseline = compared.board, compared.baseline
    names = {entrant.label: marked(entrant.label, entrant.caveat) for entrant in board.entrants}
    if compared.judged and compared.judged[0].standings:
        judge, standings = compared.judged[0].judge, compared.judged[0].standings
        systems = scored_systems(board, judge, compared.seed)
        against = versus(systems, baseline)
        # As in tables: means over other instances each can order two systems otherwise than their pairs do.
        yield scores.leaderboard_figure(scored_systems(board, judge, compared.seed, common=True), judge)
        yield scores.gain(standings, names, baseline, judge)
        yield scores.distribution(systems)
        yield scores.better_or_worse(against, baseline)
        yield scores.gain_by_instance(against, board.ids, series, baseline)
        yield scores.cost(systems, summaries, series)
        yield scores.time(systems, summaries, series)
    yield scores.judges(compared.robustness, names)
    yield scores.agreement(compared.robustness)


def _question_figures(diagnosis: Diagnosis, series: Mapping[str, int]) -> _Candidates:
    yield questions.unknown_by_turn(diagnosis.systems, series)
    yield questions.region_unknown_by_turn(diagnosis.systems, series)
    yield questions.question_types(diagnosis.systems)
    yield questions.answerability(diagnosis.budgets)
    yield questions.type_gain(diagnosis.budgets)
    yield questions.known_answers(diagnosis.systems, series)
    yield questions.ask_or_not_figure(diagnosis.systems, series)
    yield questions.calibration_figure(diagnosis.calibration)


def _turn_figures(
    turns: Sequence[TurnRetrieval], seed: int, judgments: str, embedded_talks: Collection[str]
) -> _Candidates:
    clarifiers = [retrieval for retrieval in turns if retrieval.cells]
    for place, retrieval in enumerate(clarifiers, start=1):
        caveat: Caveat = ""
        if retrieval.clarifier in embedded_talks:
            caveat = SMOKE_TEST
        for measure in retrieval.measures:
            figure = scores.turns(retrieval, measure, seed, caveat=caveat, judgments=judgments)
            # Names are files' and anchors', and those of two Clarifiers would be the same.
            if len(clarifiers) > 1:
                figure = scores.for_clarifier(figure, retrieval.name, place)
            yield figure


_PLAYERS: Final[Mapping[Caveat, str]] = {SMOKE_TEST: "the embedded model", MADE_UP: "scripts, no model,"}


def _with_marks(figure: Figure, labels: Mapping[Caveat, Sequence[str]]) -> Figure:
    """Mark a figure in itself and in its texts, given the systems by caveat.

    For a smoke test only if it shows no names of systems, which are marked themselves.
    """
    for caveat, player in _PLAYERS.items():
        if not labels.get(caveat):
            continue
        if caveat == MADE_UP or figure.name in _UNNAMED:
            remark = f" {caveat.capitalize()}: {player} played for {joined_names(labels[caveat])}."
            figure = _with_mark(figure, caveat, remark)
    return figure


def _with_mark(figure: Figure, mark: str, remark: str) -> Figure:
    """The figure with `mark` in its corner, and `remark` after its texts."""
    layout = dict(figure.spec["layout"])
    corner = {
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "text": mark,
        "showarrow": False,
    }
    layout["annotations"] = list(layout.get("annotations", ())) + [corner]
    # Higher by what the mark takes, so that the axes keep their size.
    layout["margin"] = dict(layout.get("margin", {})) | {"t": _MARK_PX}
    layout["height"] += _MARK_PX
    spec = dict(figure.spec) | {"layout": layout}
    return replace(figure, alt=figure.alt + remark, caption=figure.caption + remark, spec=spec)
