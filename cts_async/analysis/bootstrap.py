"""Paired percentile bootstrap of a mean difference (Efron & Tibshirani 1993; paper, table 3).

Instances are resampled with replacement, each with its own pair of scores, 10,000 times; the interval
is the 2.5th to the 97.5th percentile of the resampled means. Of few instances it is too short: at n = 8 it
covers the truth in 90 % of samples or less, of skewed differences far less (`benchmarks/coverage.py`). Student's t
and the bias-corrected bootstrap (BCa) miss it as well there, so short intervals are marked instead of replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    Numbers = Sequence[float] | Array

RESAMPLES = 10_000
LEVEL = 0.95
_TAIL: Final = 100 * (1 - LEVEL) / 2
_DRAWN_AT_ONCE: Final = 2_000_000
"""Instances drawn in one block: 16 MB of them, however many there are."""
ENOUGH: Final = 30
"""Of fewer instances the interval is too short."""
MANY: Final = 10_000
"""From so many instances on, resamples are drawn by value, if there are few values."""
_FEW: Final = 8
"""Values are few where so many instances share one, on average."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of n paired differences with its interval, in points of restore_score_100.

    A single difference has no interval: `low` and `high` are None.
    """

    n: int
    mean: float
    low: float | None
    high: float | None

    @property
    def too_short(self) -> bool:
        """Whether there is an interval that covers the truth less often than it says."""
        return 1 < self.n < ENOUGH

    @property
    def ends(self) -> tuple[float, float]:
        """The interval as it is drawn: of no length where there is none."""
        return (self.mean if self.low is None else self.low), (self.mean if self.high is None else self.high)


def paired_difference(
    scores: Numbers, baseline: Numbers, *, seed: int = 0, resamples: int = RESAMPLES
) -> Difference | None:
    """`scores[i] - baseline[i]` over instances; None for no instance. Raises ValueError for unequal lengths."""
    import numpy as np

    if len(scores) != len(baseline):
        raise ValueError("scores and baseline must be of the same instances")
    differences = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    return paired_differences(differences[:, None], seed=seed, resamples=resamples)[0]


def paired_differences(
    differences: Array, *, seed: int = 0, resamples: int = RESAMPLES
) -> list[Difference | None]:
    """One result for each column of `differences`, shape (instances, comparisons); NaN is a pair that lacks a score.

    Columns that have the same instances share their resamples, so a column's interval does not depend on
    what it is computed beside, but for the rounding of its last digit. None for a column without any instance.
    """
    import numpy as np

    found: list[Difference | None] = [None] * differences.shape[1]
    there = ~np.isnan(differences)
    for columns in same_instances(there):
        rows = there[:, columns[0]]
        if not rows.any():
            continue
        values = differences[rows][:, columns]
        if len(values) == 1:
            for i, column in enumerate(columns):
                found[column] = Difference(1, float(values[0, i]), None, None)
            continue
        means = _resampled(values, seed, resamples)
        for i, column in enumerate(columns):
            low, high = np.percentile(means[:, i], [_TAIL, 100 - _TAIL])
            found[column] = Difference(len(values), float(values[:, i].mean()), float(low), float(high))
    return found


def same_instances(there: Array) -> list[list[int]]:
    """Columns of `there` (instances, columns; bool) in groups that are equal, in order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for column in range(there.shape[1]):
        groups.setdefault(there[:, column].tobytes(), []).append(column)
    return list(groups.values())


def _resampled(values: Array, seed: int, resamples: int) -> Array:
    """Means of every column, shape (resamples, columns), each column by the way that is cheap for it."""
    import numpy as np

    if len(values) < MANY:
        return resampled_means(values, seed, resamples)
    means = np.empty((resamples, values.shape[1]))
    one_by_one: list[int] = []
    for i, column in enumerate(values.T):
        distinct, times = np.unique(column, return_counts=True)
        if len(distinct) > len(values) // _FEW:
            one_by_one.append(i)
        else:
            means[:, i] = _resampled_by_value(distinct, times, seed, resamples)
    if one_by_one:
        means[:, one_by_one] = resampled_means(values[:, one_by_one], seed, resamples)
    return means


def _resampled_by_value(distinct: Array, times: Array, seed: int, resamples: int) -> Array:
    """Means of very many instances by the few values that they have, `times` each: how often a resample draws each.

    That is the same distribution, at the price of the values instead of the instances.
    """
    import numpy as np

    n = int(times.sum())
    rng = np.random.default_rng(seed)
    step = max(1, _DRAWN_AT_ONCE // len(distinct))
    sizes = [min(step, resamples - done) for done in range(0, resamples, step)]
    means = [rng.multinomial(n, times / n, size=size) @ distinct / n for size in sizes]
    return np.concatenate(means)


def resampled_means(values: Array, seed: int, resamples: int) -> Array:
    """Means of every column, shape (resamples, columns); a resample is how often it draws each instance."""
    import numpy as np

    rng = np.random.default_rng(seed)
    n = len(values)
    step = max(1, _DRAWN_AT_ONCE // n)
    means = []
    for done in range(0, resamples, step):
        size = min(step, resamples - done)
        drawn = rng.integers(0, n, size=(size, n))
        drawn += np.arange(size)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        means.append(times.astype(float) @ values / n)
    return np.concatenate(means)
