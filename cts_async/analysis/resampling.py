"""Bootstrap intervals and sign-flip permutation tests of paired differences."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.stats import ALPHA

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    Numbers = Sequence[float] | Array

# --- bootstrap
#
# Paired percentile bootstrap of a mean difference (Efron & Tibshirani 1993; paper, table 3).
#
# Instances are resampled with replacement, each with its own pair of scores, 10,000 times; the interval
# is the 2.5th to the 97.5th percentile of the resampled means. Of few instances it is too short: at n = 8 it
# covers the truth in 90 % of samples or less, of skewed differences far less (`benchmarks/coverage.py`). Student's t
# and the bias-corrected bootstrap (BCa) miss it as well there, so short intervals are marked instead of replaced.

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


# --- permutation
#
# Paired permutation test of a mean difference by flipping signs (Fisher 1935; Good 2005, section 3.2).
#
# If two systems were the same, each instance's difference could as well have the other sign. p is the share of
# all 2^n ways to choose the signs whose mean difference lies at least as far from 0 as the observed one, two-sided:
#
# - exact up to EXACT differences other than 0;
# - from MANY on by the normal distribution, which the sum of so many flipped differences has: of a symmetric sum
# the first error term is of the order z^4 / (24 n), below 1 % of p at z = 6;
# - else estimated from random choices as (b + 1) / (m + 1), which is never 0 and never too small on average
# (Phipson & Smyth 2010). It cannot fall below 1 / (m + 1), so m has to grow with the family: see `flips_for`.

EXACT: Final = 20
"""Up to so many differences other than 0 all 2^n choices of signs are looked at; 0 has no sign to flip."""
FLIPS: Final = 10_000
_FLOOR_OF_ALPHA: Final = 20
"""The smallest p that can be sampled lies this many times below ALPHA after correction for the whole family."""
_TOLERANCE: Final = 1e-9
"""Sums of the same numbers in another order count as equal: relative to the sum of all sizes."""
_FLIPPED_AT_ONCE: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class SignFlips:
    """p in (0, 1] of one pair, whether it is exact, and the smallest p that the test could have given."""

    p: float
    exact: bool
    floor: float


def flips_for(n_tests: int) -> int:
    """Random choices of signs for a family of tests: times `n_tests`, as by Holm, the smallest p is ALPHA / 20."""
    return max(FLIPS, math.ceil(_FLOOR_OF_ALPHA * n_tests / ALPHA))


def sign_flip_test(differences: Sequence[float] | Array, *, seed: int = 0, flips: int = FLIPS) -> SignFlips:
    """The test of one pair's differences by instance. No difference at all is p = 1."""
    import numpy as np

    column = np.asarray(differences, dtype=float)[:, None]
    return sign_flip_tests(column, np.zeros_like(column), [(0, 0)], seed=seed, flips=flips)[0]


def sign_flip_tests(
    scores: Array,
    baselines: Array,
    pairs: Sequence[tuple[int, int]],
    *,
    seed: int = 0,
    flips: int = FLIPS,
) -> list[SignFlips]:
    """For each pair (i, j) the test of column i of `scores` against column j of `baselines`.

    Both have the shape (instances, systems) with NaN where there is no score; such an instance is left out of
    that pair. All pairs share the random signs, so a pair's p does not depend on which others there are.
    """
    import numpy as np

    found: dict[int, SignFlips] = {}
    sampled: dict[int, Array] = {}
    for number, (i, j) in enumerate(pairs):
        # A difference of 0 adds nothing to a sum, whatever its sign: what a pair lacks may stand as 0.
        differences = np.nan_to_num(scores[:, i] - baselines[:, j])
        others = differences[differences != 0]
        if len(others) <= EXACT:
            found[number] = SignFlips(_exact(others), True, min(1.0, 2.0 ** (1 - len(others))))
        elif len(others) >= MANY:
            found[number] = SignFlips(_normal(others), False, 0.0)
        else:
            sampled[number] = differences
    if sampled:
        estimates = _sampled(np.column_stack([*sampled.values()]), seed, flips)
        for number, p in zip(sampled, estimates, strict=True):
            found[number] = SignFlips(p, False, 1 / (flips + 1))
    return [found[number] for number in range(len(pairs))]


def _normal(differences: Array) -> float:
    """The two-sided tail; a flipped sum has the mean 0 and the variance sum(d^2)."""
    z = abs(float(differences.sum())) / math.sqrt(float((differences**2).sum()))
    return max(math.erfc(z / math.sqrt(2)), sys.float_info.min)


def _exact(differences: Array) -> float:
    """The share of all signed sums that lie as far out; each is a sum of the left half plus one of the right."""
    import numpy as np

    half = len(differences) // 2
    left, right = (_signed_sums(part) for part in (differences[:half], differences[half:]))
    at_least = _far(differences.sum(), np.abs(differences).sum())
    return float((np.abs(left[:, None] + right) >= at_least).mean())


def _signed_sums(values: Array) -> Array:
    """All 2^len sums of the values with either sign."""
    import numpy as np

    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _sampled(values: Array, seed: int, flips: int) -> list[float]:
    """The estimate of every column."""
    import numpy as np

    at_least = _far(values.sum(axis=0), np.abs(values).sum(axis=0))
    rng = np.random.default_rng(seed)
    n = len(values)
    step = max(1, _FLIPPED_AT_ONCE // n)
    beyond = np.zeros(values.shape[1], int)
    for done in range(0, flips, step):
        size = min(step, flips - done)
        bits = np.unpackbits(
            np.frombuffer(rng.bytes(size * ((n + 7) // 8)), np.uint8).reshape(size, -1), axis=1
        )
        signs = bits[:, :n] * 2.0 - 1.0
        beyond += (np.abs(signs @ values) >= at_least).sum(axis=0)
    return [float((b + 1) / (flips + 1)) for b in beyond]


def _far(observed: Any, sizes: Any) -> Any:
    return abs(observed) - _TOLERANCE * sizes
