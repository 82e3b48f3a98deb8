"""Paired percentile bootstrap of a mean difference (Efron & Tibshirani 1993; paper, table 3).

Instances are resampled with replacement, each with its own pair of scores, 10,000 times; the interval
is the 2.5th to the 97.5th percentile of the resampled means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Numbers = Sequence[float] | np.ndarray[Any, np.dtype[Any]]

RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of n paired differences with its interval, in points of restore_score_100."""

    n: int
    mean: float
    low: float
    high: float


def paired_difference(
    scores: Numbers, baseline: Numbers, *, seed: int = 0, resamples: int = RESAMPLES
) -> Difference | None:
    """`scores[i] - baseline[i]` over instances; None for no instance. Raises ValueError for unequal lengths."""
    import numpy as np

    if len(scores) != len(baseline):
        raise ValueError("scores and baseline must be of the same instances")
    if not len(scores):
        return None
    differences = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    rng = np.random.default_rng(seed)
    n = len(differences)
    # Drawn in slices: 10,000 x n indices at once would be large for a large n.
    step = max(1, 4_000_000 // n)
    means = np.concatenate(
        [
            differences[rng.integers(0, n, size=(min(step, resamples - done), n))].mean(axis=1)
            for done in range(0, resamples, step)
        ]
    )
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Difference(n, float(differences.mean()), float(low), float(high))
