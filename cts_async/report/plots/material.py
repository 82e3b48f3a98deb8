"""What figures are made of: the results of the analyses, and each system's scores with their mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.board import Board
from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.analysis.stats import RESAMPLES, Difference, Z, paired_differences
from cts_async.analysis.turn_retrieval import TurnRetrieval
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.diagnosis import DiagnosisReport
from cts_async.report.plots.figure import counts
from cts_async.report.summary import RunSummary
from cts_async.report.tables import printable

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_BOOTSTRAPPED: Final = 5_000
"""With more scores the normal interval of the mean is used: it is the same, and takes no time."""
_SAME: Final = 1e-9
"""Scores that differ by no more are equal up to the rounding of sums."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that figures may show; figures whose part is missing are left out.

    `compared` may be of one run alone, whose baseline is then itself. Summaries belong to systems by directory.
    """

    compared: RunsCompared | None = None
    diagnosed: DiagnosisReport | None = None
    summaries: Sequence[RunSummary] = ()
    turns: Sequence[TurnRetrieval] = ()
    """One for each Clarifier of `cts converse`."""
    judge: str | None = None
    """Whose scores are drawn; None for the first judge of `compared`."""
    judgments: str = ""
    """The documents searched for `turns` and who judged them: stand-in judgments must be recognisable."""
    embedded_talks: frozenset[str] = frozenset()
    """Clarifiers of `turns` in whose conversations the embedded model played."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One system under one judge, with at least one score."""

    label: str
    name: str
    """Its label for readers, marked if the embedded model played."""
    k: int
    reference: bool
    """orig or gold: no questions were asked."""
    directory: Path
    scores: Array
    """By row of the board, NaN if there is none."""
    mean: Difference


def series_of(material: Material) -> dict[str, int]:
    """The series of every system by label: its colour, marker and dash in all figures."""
    labels = [entrant.label for entrant in material.compared.board.entrants] if material.compared else []
    labels += [one.system.label for one in material.diagnosed.diagnosis.systems] if material.diagnosed else []
    return {label: place for place, label in enumerate(dict.fromkeys(labels))}


def judged_by(compared: RunsCompared, judge: str | None) -> Judged | None:
    """The standings under a judge, by default the first; None if it judged nothing here."""
    return next((one for one in compared.judged if judge in (None, one.judge)), None)


def scored_systems(board: Board, judge: str, seed: int) -> tuple[Scored, ...]:
    """The systems with a score, in the order of the board."""
    scores = board.scores[judge]
    means = means_with_intervals(scores, seed)
    found = []
    for entrant, column, mean in zip(board.entrants, scores.T, means, strict=True):
        if mean:
            name = marked(entrant.label, embedded=entrant.embedded)
            reference = entrant.system in ("orig", "gold")
            found.append(Scored(entrant.label, name, entrant.k, reference, entrant.directory, column, mean))
    return tuple(found)


def method_of(n_rows: int) -> str:
    """The method of `means_with_intervals` for a matrix with so many rows."""
    return "bootstrap" if n_rows <= MAX_BOOTSTRAPPED else "normal"


def whiskers(systems: Sequence[Scored]) -> str:
    """A caption's words for the whiskers of systems of one board."""
    method, n = method_of(len(systems[0].scores)), counts(one.mean.n for one in systems)
    return f"Whiskers are 95 % {method} intervals of the mean over n = {n} scored instances"


def means_with_intervals(values: Array, seed: int, resamples: int = RESAMPLES) -> list[Difference | None]:
    """The mean of each column of `values`, shape (instances, systems), with a 95 % interval.

    Percentile bootstrap up to MAX_BOOTSTRAPPED instances, else the normal interval; None for a column of NaN.
    """
    if len(values) <= MAX_BOOTSTRAPPED:
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
    """A system's name beside its scores."""
    return f"{label} (smoke test)" if embedded else label


def name_of(one: SystemDiagnosis) -> str:
    """A diagnosed system's name beside its numbers."""
    return marked(one.system.label, embedded=one.system.embedded)


@dataclass(frozen=True, slots=True, eq=False)
class Versus:
    """One system's differences to the baseline over the instances scored in both (one at least), greatest first."""

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
    """Every other system against the baseline; none if that is "" or has no score."""
    base = next((one.scores for one in systems if one.label == baseline), None)
    if base is None:
        return ()
    return tuple(_paired((one for one in systems if one.label != baseline), base))


def _paired(systems: Iterator[Scored], base: Array) -> Iterator[Versus]:
    import numpy as np

    for one in systems:
        gains = one.scores - base
        rows = np.flatnonzero(~np.isnan(gains))
        if len(rows):
            order = np.argsort(-gains[rows], kind="stable")
            yield Versus(one.label, one.name, gains[rows][order], rows[order])


def nothing_shared(baseline: str) -> str:
    """Why a figure of differences is left out."""
    if not baseline:
        return "These runs include no run of orig to compare with."
    return f"No other system shares a scored instance with {printable(baseline)}."
