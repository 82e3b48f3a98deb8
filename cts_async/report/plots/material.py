"""What figures are made of: results of the analyses as they are, and the systems' scores put together once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.board import Board
from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.analysis.resampling import RESAMPLES, Difference, paired_differences
from cts_async.analysis.stats import Z
from cts_async.analysis.turn_retrieval import TurnRetrieval
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.diagnosis import Report
from cts_async.report.plots.words import counts
from cts_async.report.summary import RunSummary

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
    diagnosed: Report | None = None
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
