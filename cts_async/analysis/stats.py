"""Statistics of scores: bootstrap intervals, sign-flip tests, the paired t-test, Wilson, Holm, correlation, power.

They are written out, although scipy has some of them: results have to be the same to the last digit in whatever order
the pairs come, and those of earlier versions. `scipy.stats` agrees to 15 digits only (of 2,000 random t-tests 751 are
identical, and 1,312 change when the pairs are reversed), and takes 1 to 2 s to import.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    Numbers: TypeAlias = Sequence[float] | Array

Z: Final = 1.959963984540054
"""The 97.5th percentile of the normal distribution."""
ALPHA: Final = 0.05
"""Level of significance of the tests between systems."""
POWER: Final = 0.8
ROUNDING: Final = 1e-12
"""Relative to the largest score: differences below it are artefacts of rounding, such as a mean of equal values."""


def mean_or_none(values: Collection[float] | Array) -> float | None:
    """Return the mean, with an exact sum; None without values."""
    if not len(values):  # an array has no truth value
        return None
    return math.fsum(values) / len(values)


def wilson(successes: int, n: int) -> tuple[float, float] | None:
    """Return Wilson's 95 % score interval of successes / n (Wilson 1927, JASA 22); None for n = 0.

    It holds near 0 and 1 and for few trials.
    """
    if not n:
        return None
    rate, spread = successes / n, Z * Z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = Z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    low, high = centre - half, centre + half
    # Exactly, whatever the rounding.
    if successes == 0:
        low = 0.0
    if successes == n:
        high = 1.0
    return low, high


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down procedure (Holm 1979), in the order given.

    The i-th smallest of m is multiplied by m - i + 1; none is smaller than one before it, none exceeds 1. Rejecting
    where the adjusted p is at most alpha bounds the chance of any false discovery in the family by alpha, whatever
    the dependence between its tests.
    """
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for rank, i in enumerate(sorted(range(m), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


# Paired t-test (Student 1908), two-sided: t = d / (s / sqrt(n)), with d the mean of the n paired differences and s
# their standard deviation (ddof 1); p is the chance that Student's t with n - 1 degrees of freedom lies at least as
# far from 0. Up to rounding it is `scipy.stats.ttest_rel`.


@dataclass(frozen=True, slots=True)
class PairedT:
    """`difference` is the mean of scores minus baselines over `n` pairs; `t` is infinite if they never vary."""

    n: int
    difference: float
    t: float
    p: float


def paired_t_test(scores: Sequence[float], baselines: Sequence[float]) -> PairedT:
    """Test pairs given in the same order. Raises ValueError for unequal lengths.

    No difference anywhere is t = 0 and p = 1; the same difference everywhere is p = 0, as in the limit; both up to
    `ROUNDING`. With fewer than two pairs p = 1.
    """
    from scipy.special import stdtr

    differences = [score - baseline for score, baseline in zip(scores, baselines, strict=True)]
    n = len(differences)
    if n == 0:
        return PairedT(0, 0.0, 0.0, 1.0)
    largest = max(max(map(abs, scores)), max(map(abs, baselines)))
    negligible = ROUNDING * largest
    for i, difference in enumerate(differences):
        if abs(difference) <= negligible:
            differences[i] = 0.0
    mean = math.fsum(differences) / n
    if n == 1 or not any(differences):
        return PairedT(n, mean, 0.0, 1.0)
    if max(differences) - min(differences) <= negligible:
        return PairedT(n, mean, math.copysign(math.inf, mean), 0.0)
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (n - 1)
    t = mean / math.sqrt(variance / n)
    return PairedT(n, mean, t, float(2.0 * stdtr(n - 1, -abs(t))))


_T_975: Final = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""97.5 % points of Student's t for 1 to 10 degrees of freedom."""


class RunningMean:
    """Mean and variance after Welford (1962): no score is kept, and rounding errors do not accumulate."""

    __slots__ = ("_squares", "mean", "n")

    def __init__(self) -> None:
        self.n, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, scores: Iterable[float]) -> None:
        """Take in further scores."""
        n, mean, squares = self.n, self.mean, self._squares
        for score in scores:
            n += 1
            off = score - mean
            mean += off / n
            squares += off * (score - mean)
        self.n, self.mean, self._squares = n, mean, squares

    def interval(self) -> tuple[float, float] | None:
        """mean ± t · s / sqrt(n), Student's t with n - 1 degrees of freedom; None for fewer than two scores."""
        if self.n < 2:
            return None
        half = t_975(self.n - 1) * math.sqrt(self._squares / (self.n - 1) / self.n)
        return self.mean - half, self.mean + half


def t_975(df: int) -> float:
    """The 97.5 % point of Student's t with `df` >= 1 degrees of freedom, within 0.0002.

    Beyond the table the expansion of Abramowitz and Stegun, 26.7.5: importing scipy.stats would delay every run.
    """
    if df <= len(_T_975):
        return _T_975[df - 1]
    z = 1.959964  # these digits: the printed intervals are those of earlier versions
    z3, z5, z7 = z**3, z**5, z**7
    g1 = (z3 + z) / 4
    g2 = (5 * z5 + 16 * z3 + 3 * z) / 96
    g3 = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384
    return z + g1 / df + g2 / df**2 + g3 / df**3


def correlation(a: Numbers, b: Numbers) -> float | None:
    """Return Pearson's r in [-1, 1]; None for fewer than two pairs, or if one side never varies.

    Pairs are summed in the order of their values, so r does not depend on the order given. Raises ValueError for
    unequal lengths.
    """
    import numpy as np

    if len(a) != len(b):
        raise ValueError("scores must be of the same answers")
    if len(a) < 2:
        return None
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    x, y = np.asarray(a, float), np.asarray(b, float)
    order = np.lexsort((y, x))
    x, y = x[order] - x[order].mean(), y[order] - y[order].mean()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def rank_correlation(a: Numbers, b: Numbers) -> float | None:
    """Return Spearman's rho in [-1, 1] (Spearman 1904): Pearson's r of the ranks, equal values sharing their mean rank.

    None for fewer than two pairs, or if one side never varies. Raises ValueError for unequal lengths.
    """
    return correlation(_mean_ranks(a), _mean_ranks(b))


def _mean_ranks(values: Numbers) -> Array:
    """Ranks from 1 in ascending order."""
    import numpy as np

    _, places, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    ranks: Array = (last_ranks - (counts - 1) / 2)[places]
    return ranks


# Power, by the normal approximation to a two-sided paired test at level alpha (Cohen 1988, chapter 2; Card et al. 2020,
# "With Little Power Comes Great Responsibility"): a true mean difference of (z(1 - alpha/2) + z(power)) * sd / sqrt(n)
# is found with the given power, where sd is the standard deviation of the differences by instance. Since sd is
# estimated, z(1 - alpha/2)^2 / 2 instances more are needed (Guenther 1981, "Sample Size Formulas for Normal Theory t
# Tests"): without them 20 instances have a power of .7 where .8 is said (`benchmarks/power.py`).


def least_instances(alpha: float = ALPHA) -> int:
    """Return the fewest differing instances with which a sign-flip test can reach `alpha`: its smallest p is 2 / 2^n."""
    return math.ceil(math.log2(2 / alpha) - 1e-9)


def holm_alpha(n_tests: int, alpha: float = ALPHA) -> float:
    """Return the level that a comparison among `n_tests` is sure to be tested at: alpha / n_tests.

    Holm's procedure holds the smallest p against alpha / m, the next one against alpha / (m - 1), and so on: which of
    these levels meets a comparison depends on what the others show. Only the first is certain, so a number of instances
    that is enough for it is enough whatever they show.
    """
    return alpha / n_tests


def detectable_difference(
    n: int, sd: float, *, n_differ: int | None = None, alpha: float = ALPHA, power: float = POWER
) -> float | None:
    """Return the smallest true difference that is found with probability `power`, in the unit of `sd`.

    `n_differ` of the n instances differ (default: all). None if so few cannot reach `alpha` whatever they show, and for
    an `sd` of 0, which says nothing about other samples.
    """
    if n_differ is None:
        n_differ = n
    effective = n - _extra_instances(alpha)
    if n_differ < least_instances(alpha) or effective <= 0:
        return None
    if not sd:
        return None
    return _standard_errors(alpha, power) * sd / math.sqrt(effective)


def instances_needed(
    difference: float, sd: float, *, share_differing: float = 1.0, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Return how many instances a true difference of that size needs; None for a difference of 0.

    Of these the share `share_differing` differs, as among those that were seen: there must be enough for `alpha`.
    """
    if not difference:
        return None
    by_power = (_standard_errors(alpha, power) * sd / difference) ** 2
    if sd:
        by_power += _extra_instances(alpha)
    # 1e-9: the rounding of a quotient must not add one to a whole number.
    return max(
        math.ceil(least_instances(alpha) / share_differing - 1e-9),
        math.ceil(by_power - 1e-9),
    )


def _standard_errors(alpha: float, power: float) -> float:
    """How many standard errors the true difference has to be from 0."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)


def _extra_instances(alpha: float) -> float:
    """How many instances the estimate of the standard deviation costs."""
    return NormalDist().inv_cdf(1 - alpha / 2) ** 2 / 2


MANY: Final = 10_000
"""From so many instances on there are cheaper ways: resampling by value, and the normal distribution."""
_AT_ONCE: Final = 2_000_000
"""Random draws in one block: 16 MB, however many instances there are."""

# Bootstrap: instances are resampled with replacement, each with its own pair of scores, and the interval is the 2.5th to
# the 97.5th percentile of the resampled means (Efron & Tibshirani 1993; paper, table 3). Its length comes from the
# instances that differ: where few do, however many there are, it is too short (`benchmarks/coverage.py`). Student's t
# and the bias-corrected bootstrap (BCa) miss the truth there as well, so short intervals are marked instead of replaced.
# Where all values are the same, every resample is, too: that is no interval at all.

RESAMPLES: Final = 10_000
ENOUGH: Final = 30
"""With fewer instances that differ the interval is too short."""
FEWEST: Final = 5
"""With fewer instances no interval is shown: a resample of 4 often repeats one or two of them."""
_TAIL: Final = 100 * (1 - 0.95) / 2
"""2.5 but for rounding (2.5000000000000022), which the last digits of every published interval depend on."""
_REPEATED: Final = 8
"""Values are few if each occurs so many times on average."""
_DECIMALS: Final = 9
"""Values that agree in so many decimals are equal: sums of the same numbers differ in their last digits."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of n paired differences with its 95 % interval, in points of restore_score_100.

    `low` and `high` are data; what people read is `interval`. Both are None for a single difference, and where all
    differences are the same.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    n_differ: int | None = None
    """How many of them the interval draws on (see `count_differing`); None: all."""

    @property
    def too_short(self) -> bool:
        """True if there is an interval that covers the truth less often than its level promises."""
        n_drawn_on = self.n
        if self.n_differ is not None:
            n_drawn_on = self.n_differ
        return self.low is not None and n_drawn_on < ENOUGH

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval as it is shown; None below FEWEST instances."""
        if self.low is None or self.high is None or self.n < FEWEST:
            return None
        return self.low, self.high

    @property
    def ends(self) -> tuple[float, float]:
        """The interval as it is drawn: of length 0 if there is none."""
        return self.interval or (self.mean, self.mean)

    @property
    def nowhere(self) -> bool:
        """True if there are several differences, and all of them are 0."""
        return self.n > 1 and self.low is None and round(self.mean, _DECIMALS) == 0


def count_differing(values: Array) -> int:
    """Count the values that an interval of their mean draws on: all but zeros, or but those that most have in common.

    Differences of 0 move no resampled mean away from 0. Neither do equal scores of more than half of the instances move
    it away from their value.
    """
    import numpy as np

    distinct, counts = np.unique(np.round(values, _DECIMALS), return_counts=True)
    commonest = int(counts.max(initial=0))
    if 2 * commonest > len(values):
        return len(values) - commonest
    return len(values) - int(counts[distinct == 0].sum())


def paired_difference(
    scores: Numbers, baseline: Numbers, *, seed: int = 0, resamples: int = RESAMPLES
) -> Difference | None:
    """Estimate the mean of `scores[i] - baseline[i]`; None without instances. ValueError for unequal lengths."""
    import numpy as np

    if len(scores) != len(baseline):
        raise ValueError("scores and baseline must be of the same instances")
    differences = np.asarray(scores, dtype=float) - np.asarray(baseline, dtype=float)
    return paired_differences(differences[:, None], seed=seed, resamples=resamples)[0]


def paired_differences(
    differences: Array, *, seed: int = 0, resamples: int = RESAMPLES
) -> list[Difference | None]:
    """Estimate the mean of each column of `differences`, shape (instances, comparisons); NaN marks a missing score.

    Columns with the same instances share their resamples, so a column's interval does not depend on the columns
    beside it, but for the rounding of its last digit. None for a column without instances.
    """
    import numpy as np

    results: list[Difference | None] = [None] * differences.shape[1]
    present = ~np.isnan(differences)
    for columns in _equal_columns(present):
        rows = present[:, columns[0]]
        if not rows.any():
            continue
        values = differences[rows][:, columns]
        if len(values) == 1:
            for i, column in enumerate(columns):
                results[column] = Difference(1, float(values[0, i]), None, None)
            continue
        means = _bootstrap_means(values, seed, resamples)
        for i, column in enumerate(columns):
            low: float | None = None
            high: float | None = None
            n_differ = count_differing(values[:, i])
            if n_differ:
                low, high = np.percentile(means[:, i], [_TAIL, 100 - _TAIL]).tolist()
            results[column] = Difference(len(values), float(values[:, i].mean()), low, high, n_differ)
    return results


def _equal_columns(present: Array) -> list[list[int]]:
    """Group the columns of a boolean array (instances, columns) that are equal, in order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for column in range(present.shape[1]):
        groups.setdefault(present[:, column].tobytes(), []).append(column)
    return list(groups.values())


def _bootstrap_means(values: Array, seed: int, resamples: int) -> Array:
    """Resample the mean of every column, shape (resamples, columns), in the way that is cheap for it."""
    import numpy as np

    if len(values) < MANY:
        return resampled_means(values, seed, resamples)
    means = np.empty((resamples, values.shape[1]))
    one_by_one: list[int] = []
    for i, column in enumerate(values.T):
        distinct, counts = np.unique(column, return_counts=True)
        if len(distinct) > len(values) // _REPEATED:
            one_by_one.append(i)
        else:
            means[:, i] = _resampled_by_value(distinct, counts, seed, resamples)
    if one_by_one:
        means[:, one_by_one] = resampled_means(values[:, one_by_one], seed, resamples)
    return means


def _resampled_by_value(distinct: Array, counts: Array, seed: int, resamples: int) -> Array:
    """Resample the mean of many instances with few distinct values, by drawing how often each value occurs.

    The distribution is the same; the cost is that of the distinct values instead of the instances.
    """
    import numpy as np

    n = int(counts.sum())
    rng = np.random.default_rng(seed)
    means: list[Array] = []
    for size in _blocks(resamples, len(distinct)):
        times = rng.multinomial(n, counts / n, size=size)
        means.append(times @ distinct / n)
    return np.concatenate(means)


def resampled_means(values: Array, seed: int, resamples: int) -> Array:
    """Resample the mean of every column, shape (resamples, columns); a resample counts how often it draws each row."""
    import numpy as np

    rng = np.random.default_rng(seed)
    n = len(values)
    means: list[Array] = []
    for size in _blocks(resamples, n):
        # Each resample numbers the rows anew, so that one count is enough for a whole block.
        drawn = rng.integers(0, n, size=(size, n))
        drawn += np.arange(size)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        means.append(times.astype(float) @ values / n)
    return np.concatenate(means)


def clustered_mean(
    clusters: Sequence[str], values: Numbers, *, seed: int = 0, resamples: int = RESAMPLES
) -> Difference | None:
    """Estimate the mean of values that come in clusters (several answers of one instance) by resampling whole clusters.

    `n` counts clusters; None without values. ValueError for unequal lengths.
    """
    import numpy as np

    if len(clusters) != len(values):
        raise ValueError("each value must have a cluster")
    if not len(values):
        return None
    names, places = np.unique(np.asarray(clusters), return_inverse=True)
    data = np.asarray(values, dtype=float)
    sums = np.column_stack([np.bincount(places, data), np.bincount(places)])
    if len(names) == 1:
        return Difference(1, float(data.mean()), None, None)
    means = resampled_means(sums, seed, resamples)
    if not np.ptp(np.round(data, _DECIMALS)):
        return Difference(len(names), float(data.mean()), None, None)
    low, high = np.percentile(means[:, 0] / means[:, 1], [_TAIL, 100 - _TAIL])
    return Difference(len(names), float(data.mean()), float(low), float(high))


def ratio_of_sums(
    numerators: Numbers, denominators: Numbers, *, seed: int = 0, resamples: int = RESAMPLES
) -> Difference | None:
    """Estimate sum(numerators) / sum(denominators), of which each instance has one; denominators are not negative.

    The interval resamples instances, as elsewhere; a resample whose denominators add up to 0 has no ratio and is left
    out. None if all denominators are 0. Raises ValueError for unequal lengths.
    """
    import numpy as np

    if len(numerators) != len(denominators):
        raise ValueError("numerators and denominators must be of the same instances")
    values = np.column_stack([np.asarray(numerators, float), np.asarray(denominators, float)])
    n = len(values)
    if not n or not values[:, 1].any():
        return None
    ratio = math.fsum(values[:, 0]) / math.fsum(values[:, 1])
    n_differ = count_differing(values[:, 0])
    means = resampled_means(values, seed, resamples)
    ratios = means[:, 0][means[:, 1] > 0] / means[:, 1][means[:, 1] > 0]
    if n == 1 or not np.ptp(np.round(ratios, _DECIMALS)):
        return Difference(n, ratio, None, None, n_differ)
    low, high = np.percentile(ratios, [_TAIL, 100 - _TAIL])
    return Difference(n, ratio, float(low), float(high), n_differ)


def percentile_interval(
    scores: Numbers, q: float, *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """Return the bootstrap 95 % interval of the q-th percentile (0 <= q <= 100).

    None for fewer than two scores, and where all are the same.

    The sorted resample is not drawn as a whole: its element r of n is element floor(n u) of the sorted scores, with u
    the r-th smallest of n uniform numbers, which has the distribution Beta(r, n - r + 1) (David & Nagaraja 2003, 2.3).
    """
    import numpy as np

    n = len(scores)
    if n < 2:
        return None
    rng, ordered = np.random.default_rng(seed), np.sort(np.asarray(scores, dtype=float))
    if not np.ptp(np.round(ordered, _DECIMALS)):
        return None
    position = (n - 1) * (q / 100)
    below = math.floor(position)
    place = rng.beta(below + 1, n - below, resamples)
    drawn = ordered[np.minimum((n * place).astype(int), n - 1)]
    if below + 1 < n:
        # The rest of the resample lies above: its smallest is the next element, towards which is interpolated.
        place += (1 - place) * rng.beta(1, n - below - 1, resamples)
        drawn += (position - below) * (ordered[np.minimum((n * place).astype(int), n - 1)] - drawn)
    low, high = np.percentile(drawn, [_TAIL, 100 - _TAIL])
    return float(low), float(high)


def _blocks(total: int, width: int) -> list[int]:
    """Split `total` rows of `width` draws into blocks of at most `_AT_ONCE` draws."""
    step = max(1, _AT_ONCE // width)
    n_whole, n_left = divmod(total, step)
    blocks = [step] * n_whole
    if n_left:
        blocks.append(n_left)
    return blocks


# Permutation test by flipping signs (Fisher 1935; Good 2005, section 3.2). If two systems were the same, each
# instance's difference could as well have the other sign. p is the share of all 2^n ways to choose the signs whose mean
# difference lies at least as far from 0 as the observed one, two-sided:
#
# - exact up to EXACT differences other than 0;
# - from MANY on by the normal distribution, which the sum of so many flipped differences has: of a symmetric sum
#   the first error term is of the order z^4 / (24 n), below 1 % of p at z = 6;
# - else estimated from random choices as (b + 1) / (m + 1), which is never 0 and never too small on average
#   (Phipson & Smyth 2010). It cannot fall below 1 / (m + 1), so m has to grow with the family: see `flips_for`.

EXACT: Final = 20
"""Up to so many differences other than 0 all 2^n choices of signs are evaluated; 0 has no sign to flip."""
FLIPS: Final = 10_000
_FLOOR_OF_ALPHA: Final = 20
"""The smallest p that can be sampled lies this many times below ALPHA after correction for the whole family."""
_TOLERANCE: Final = 1e-9
"""Sums of the same numbers in another order count as equal: relative to the sum of all sizes."""


@dataclass(frozen=True, slots=True)
class SignFlips:
    """p in (0, 1] of one pair, whether it is exact, and the smallest p that the test could have given."""

    p: float
    exact: bool
    floor: float
    n_differ: int
    """Differences other than 0, which have a sign to flip."""


def flips_for(n_tests: int) -> int:
    """Return how many random choices a family of tests needs: times `n_tests` (Holm), the smallest p is ALPHA / 20."""
    return max(FLIPS, math.ceil(_FLOOR_OF_ALPHA * n_tests / ALPHA))


def sign_flip_tests(
    scores: Array, pairs: Sequence[tuple[int, int]], *, seed: int = 0, flips: int = FLIPS
) -> list[SignFlips]:
    """Test column i against column j of `scores` for each pair (i, j).

    The shape is (instances, systems) with NaN for a missing score; such an instance is left out of that pair. All pairs
    share the random signs, so a pair's p does not depend on the other pairs. No difference at all is p = 1.
    """
    import numpy as np

    results: dict[int, SignFlips] = {}
    sampled: dict[int, Array] = {}  # these share the random signs, so they wait for one another
    for number, (i, j) in enumerate(pairs):
        # A difference of 0 adds nothing to a sum whatever its sign, so it can stand for a missing score.
        differences = np.nan_to_num(scores[:, i] - scores[:, j])
        nonzero = differences[differences != 0]
        if len(nonzero) <= EXACT:
            floor = min(1.0, 2.0 ** (1 - len(nonzero)))
            results[number] = SignFlips(_exact_p(nonzero), True, floor, len(nonzero))
        elif len(nonzero) >= MANY:
            results[number] = SignFlips(_normal_p(nonzero), False, 0.0, len(nonzero))
        else:
            sampled[number] = differences
    if sampled:
        estimates = _sampled_p(np.column_stack(list(sampled.values())), seed, flips)
        for number, p in zip(sampled, estimates, strict=True):
            n_differ = int(np.count_nonzero(sampled[number]))
            results[number] = SignFlips(p, False, 1 / (flips + 1), n_differ)
    return [results[number] for number in range(len(pairs))]


def _normal_p(differences: Array) -> float:
    """The two-sided tail; a flipped sum has mean 0 and variance sum(d^2)."""
    z = abs(float(differences.sum())) / math.sqrt(float((differences**2).sum()))
    return max(math.erfc(z / math.sqrt(2)), sys.float_info.min)


def _exact_p(differences: Array) -> float:
    """The share of all signed sums that lie as far out; each is a sum of the left half plus one of the right."""
    import numpy as np

    half = len(differences) // 2
    left_sums, right_sums = _signed_sums(differences[:half]), _signed_sums(differences[half:])
    threshold = _threshold(differences.sum(), np.abs(differences).sum())
    return float((np.abs(left_sums[:, None] + right_sums) >= threshold).mean())


def _signed_sums(values: Array) -> Array:
    """All 2^len sums of the values with either sign."""
    import numpy as np

    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _sampled_p(values: Array, seed: int, flips: int) -> list[float]:
    """Estimate p of every column from random signs."""
    import numpy as np

    threshold = _threshold(values.sum(axis=0), np.abs(values).sum(axis=0))
    rng = np.random.default_rng(seed)
    n = len(values)
    beyond = np.zeros(values.shape[1], int)
    for size in _blocks(flips, n):
        n_bytes = (n + 7) // 8
        drawn = np.frombuffer(rng.bytes(size * n_bytes), np.uint8)
        bits = np.unpackbits(drawn.reshape(size, n_bytes), axis=1)
        signs = bits[:, :n] * 2.0 - 1.0
        beyond += (np.abs(signs @ values) >= threshold).sum(axis=0)
    return [float((n_beyond + 1) / (flips + 1)) for n_beyond in beyond]


def _threshold(observed: Any, sizes: Any) -> Any:
    """Return from where on a sum lies as far out as the observed one, rounding allowed for."""
    return abs(observed) - _TOLERANCE * sizes
