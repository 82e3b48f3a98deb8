"""How well predicted answerability agrees with what was answered, and what it says about the gain.

Brier score (Brier, 1950): the mean squared difference of prediction and outcome, 0 is best. Its reference is
the score of always predicting the rate that was observed, r (1 - r); skill = 1 - Brier / reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cts_async.analysis.answerability import Predictions
from cts_async.analysis.bootstrap import Difference, paired_difference
from cts_async.analysis.interactions import Interactions, Scores

BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Questions predicted between `low` and `high` (the latter not included, but for 1)."""

    low: float
    high: float
    n: int
    predicted: float
    """Mean prediction."""
    known: int
    gain: Difference | None
    """Mean difference to `orig` of the instances at k = 1 whose question is in this bin; None for none."""

    @property
    def observed(self) -> float:
        return self.known / self.n


@dataclass(frozen=True, slots=True)
class Calibration:
    """Over `n` questions; bins without any are left out."""

    n: int
    brier: float
    reference: float
    bins: tuple[Bin, ...]

    @property
    def skill(self) -> float | None:
        """How much of the reference's error the predictions save; None where there is none to save."""
        return 1 - self.brier / self.reference if self.reference else None


def calibrate(
    systems: Sequence[Interactions], predictions: Sequence[Predictions], orig: Scores, *, seed: int = 0
) -> Calibration | None:
    """Compare the predictions with the answers; None where nothing was asked."""
    bins = [_Open() for _ in range(BINS)]
    error, n, known = 0.0, 0, 0
    for system, predicted in zip(systems, predictions, strict=True):
        for row in system.rows:
            for turn, p in zip(row.turns, predicted[row.id], strict=True):
                error += (p - turn.known) ** 2
                n += 1
                known += turn.known
                pair = (row.score, orig[row.id]) if row.score is not None and row.id in orig else None
                bins[min(int(p * BINS), BINS - 1)].add(p, turn.known, pair if system.k == 1 else None)
    if not n:
        return None
    closed = tuple(_closed(bin, i, seed) for i, bin in enumerate(bins) if bin.n)
    return Calibration(n, error / n, known / n * (1 - known / n), closed)


class _Open:
    """A bin that is being filled."""

    def __init__(self) -> None:
        self.n = self.known = 0
        self.total = 0.0
        self.scores: list[float] = []
        self.bases: list[float] = []

    def add(self, p: float, known: bool, pair: tuple[float, float] | None) -> None:
        self.n += 1
        self.total += p
        self.known += known
        if pair:
            self.scores.append(pair[0])
            self.bases.append(pair[1])


def _closed(bin: _Open, place: int, seed: int) -> Bin:
    gain = paired_difference(bin.scores, bin.bases, seed=seed)
    return Bin(place / BINS, (place + 1) / BINS, bin.n, bin.total / bin.n, bin.known, gain)
