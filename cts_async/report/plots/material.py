"""What figures are made of: the results of the analyses, and the systems' scores, put together once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.board import Board
from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.analysis.resampling import RESAMPLES, Difference, paired_differences
from cts_async.analysis.stats import Z
from cts_async.analysis.turn_retrieval import TurnRetrieval
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.diagnosis import DiagnosisReport
from cts_async.report.plots.figure import Figure, counts, listed
from cts_async.report.summary import RunSummary
from cts_async.report.tables import printable

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BOOTSTRAPPED: Final = 5_000
"""Up to so many scores an interval of their mean is bootstrapped; beyond, the normal one is the same and free."""


@dataclass(frozen=True, slots=True)
class Material:
    """All that there is to draw; what is missing leaves out the figures that need it.

    `compared` may be of one run alone, whose baseline is then itself. Directories tell which summary belongs to
    which of its systems.
    """

    compared: RunsCompared | None = None
    diagnosed: DiagnosisReport | None = None
    summaries: Sequence[RunSummary] = ()
    turns: Sequence[TurnRetrieval] = ()
    """One for each Clarifier of `cts converse`."""
    judge: str | None = None
    """Whose scores are drawn; None for the first judge of `compared`."""
    judgments: str = ""
    """What was searched for `turns` and who judged it: stand-in judgments are to be told from people's."""
    embedded_talks: frozenset[str] = frozenset()
    """Clarifiers of `turns` in whose conversations the embedded model played."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One system under one judge; at least one instance is scored."""

    label: str
    name: str
    """Its label for readers, marked where the embedded model played."""
    k: int
    reference: bool
    """orig or gold: nobody asked anything."""
    directory: Path
    scores: Array
    """By row of the board, NaN where there is none."""
    mean: Difference


def series_of(material: Material) -> dict[str, int]:
    """The place of every system in the series, by label: its colour, marker and dash in all figures."""
    labels = [entrant.label for entrant in material.compared.board.entrants] if material.compared else []
    labels += [one.system.label for one in material.diagnosed.diagnosis.systems] if material.diagnosed else []
    return {label: place for place, label in enumerate(dict.fromkeys(labels))}


def judged_by(compared: RunsCompared, judge: str | None) -> Judged | None:
    """The standings under that judge, the first one's where none is named; None where it judged nothing here."""
    return next((one for one in compared.judged if judge in (None, one.judge)), None)


def scored_systems(board: Board, judge: str, seed: int) -> tuple[Scored, ...]:
    """The systems with a score, in the order of the board."""
    scores = board.scores[judge]
    found = []
    for entrant, column, mean in zip(
        board.entrants, scores.T, means_with_intervals(scores, seed), strict=True
    ):
        if mean:
            name = marked(entrant.label, embedded=entrant.embedded)
            reference = entrant.system in ("orig", "gold")
            found.append(Scored(entrant.label, name, entrant.k, reference, entrant.directory, column, mean))
    return tuple(found)


def method_of(n_rows: int) -> str:
    """How `means_with_intervals` finds the intervals of a matrix of so many rows."""
    return "bootstrap" if n_rows <= BOOTSTRAPPED else "normal"


def whiskers(systems: Sequence[Scored]) -> str:
    """What the whiskers of these systems are, of the same board and at least one."""
    method, n = method_of(len(systems[0].scores)), counts(one.mean.n for one in systems)
    return f"Whiskers are 95 % {method} intervals of the mean over n = {n} scored instances"


def means_with_intervals(values: Array, seed: int, resamples: int = RESAMPLES) -> list[Difference | None]:
    """The mean of each column of `values` (instances, systems; NaN for none) with a 95 % interval.

    Percentile bootstrap, for more than BOOTSTRAPPED instances the normal interval; None for a column of no values.
    """
    if len(values) <= BOOTSTRAPPED:
        return paired_differences(values, seed=seed, resamples=resamples)
    return [_normal(column) for column in values.T]


def _normal(column: Array) -> Difference | None:
    import numpy as np

    values = column[~np.isnan(column)]
    n = len(values)
    if n < 2:
        return Difference(n, float(values[0]), None, None) if n else None
    mean, half = float(values.mean()), Z * float(values.std(ddof=1)) / sqrt(n)
    return Difference(n, mean, mean - half, mean + half)


def marked(label: str, *, embedded: bool) -> str:
    """A system's name where its scores are shown."""
    return f"{label} (smoke test)" if embedded else label


def name_of(one: SystemDiagnosis) -> str:
    """A diagnosed system's name where something of it is shown."""
    return marked(one.system.label, embedded=one.system.embedded)


_SAME: Final = 1e-9
"""Scores that differ by no more are the same: what is left is the rounding of sums."""


@dataclass(frozen=True, slots=True, eq=False)
class Versus:
    """One system's differences to the baseline over the instances that both have, greatest first; at least one."""

    label: str
    name: str
    gains: Array
    rows: Array
    """The board's row of each."""

    @property
    def better(self) -> int:
        return int((self.gains > _SAME).sum())

    @property
    def worse(self) -> int:
        return int((self.gains < -_SAME).sum())

    @property
    def same(self) -> int:
        return len(self.gains) - self.better - self.worse


def versus(systems: Sequence[Scored], baseline: str) -> tuple[Versus, ...]:
    """Every other system against the baseline; none where that has no score, or is ""."""
    base = next((one.scores for one in systems if one.label == baseline), None)
    if base is None:
        return ()
    others = (one for one in systems if one.label != baseline)
    return tuple(_all_paired(others, base))


def nothing_shared(baseline: str) -> str:
    """Why a figure of differences is left out."""
    if not baseline:
        return "There is no run of orig here that differences could refer to."
    return f"No other system shares a scored instance with {printable(baseline)}."


def _all_paired(systems: Iterator[Scored], base: Array) -> Iterator[Versus]:
    import numpy as np

    for one in systems:
        gains = one.scores - base
        rows = np.flatnonzero(~np.isnan(gains))
        if len(rows):
            order = np.argsort(-gains[rows], kind="stable")
            yield Versus(one.label, one.name, gains[rows][order], rows[order])


_MARK: Final = "smoke test"
_TOGETHER: Final = frozenset({"agreement", "answerability", "type_gain", "calibration"})
"""Figures without systems' names."""
_ROOM_PX: Final = 28
"""Above the axes, for the mark."""


def embedded_systems(material: Material) -> tuple[list[str], int]:
    """The systems that the embedded model played for, and how many there are in all."""
    played = {}
    if material.compared:
        played = {one.label: one.embedded for one in material.compared.board.entrants}
    if material.diagnosed:
        systems = [one.system for one in material.diagnosed.diagnosis.systems]
        played = {one.label: one.embedded for one in systems} | played
    return [name for name, by_it in played.items() if by_it], len(played)


def with_mark(figure: Figure, embedded: Sequence[str], n_systems: int) -> Figure:
    """The figure, marked in itself and its texts if it takes all systems together.

    Others have marked names. Where the embedded model played for every system, their text alternatives say so, too.
    """
    if not embedded:
        return figure
    whose = "" if len(embedded) == n_systems else f" for {listed(embedded)}"
    told = f" Smoke test: the embedded model played{whose}."
    if figure.name in _TOGETHER:
        marked = _marked(figure.spec)
        return replace(figure, alt=figure.alt + told, caption=figure.caption + told, spec=marked)
    if whose or _MARK in figure.alt:
        return figure
    return replace(figure, alt=figure.alt + told)


def _marked(spec: Any) -> dict[str, Any]:
    layout = spec["layout"]
    corner = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}
    marks = [*layout.get("annotations", ()), {**corner, "text": _MARK, "showarrow": False}]
    margin = {**layout.get("margin", {}), "t": _ROOM_PX}
    height = layout["height"] + _ROOM_PX
    return {**spec, "layout": {**layout, "annotations": marks, "margin": margin, "height": height}}
