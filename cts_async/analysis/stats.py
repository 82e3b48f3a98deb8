"""Small statistics: Wilson's interval, Holm's correction, the paired t-test, and power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Final

# --- wilson
#
# Wilson's score interval for a proportion (Wilson, 1927, JASA 22), at 95 %.

Z: Final = 1.959963984540054
"""The normal distribution's 97.5th percentile."""


def wilson(successes: int, n: int) -> tuple[float, float] | None:
    """The interval of successes / n; None for n = 0. Holds also near 0 and 1, and for few trials."""
    if not n:
        return None
    rate, spread = successes / n, Z * Z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = Z * sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return low, high


# --- holm
#
# Holm's step-down correction for several tests (Holm 1979, "A simple sequentially rejective ... procedure").


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: a test is significant at alpha if its adjusted p is at most alpha.

    The i-th smallest of m is multiplied by m - i + 1; none is smaller than one before it, none exceeds 1. This
    bounds the chance of any false discovery in the family, whatever the dependence between its tests.
    """
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for rank, i in enumerate(sorted(range(m), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


# --- t_test
#
# The paired t-test of a mean difference (Student 1908): two-sided, as `scipy.stats.ttest_rel` gives it.
#
# t = d / (s / sqrt(n)), with d the mean of the n paired differences and s their standard deviation (ddof 1); p is the
# chance that Student's t with n - 1 degrees of freedom lies at least as far from 0.

ROUNDING: Final = 1e-12
"""Of the largest score: differences of so little are left by arithmetic, such as a mean of equal values."""


@dataclass(frozen=True, slots=True)
class PairedT:
    """`difference` is the mean of scores minus baselines, over `n` pairs; `t` is infinite where they never vary."""

    n: int
    difference: float
    t: float
    p: float


def paired_t_test(scores: Sequence[float], baselines: Sequence[float]) -> PairedT:
    """The test of pairs given in the same order. Raises ValueError for unequal lengths.

    No difference anywhere is t = 0 and p = 1. The same difference everywhere is p = 0, as in the limit; both up to
    `ROUNDING`. Fewer than two pairs show nothing: p = 1.
    """
    differences = [score - baseline for score, baseline in zip(scores, baselines, strict=True)]
    n = len(differences)
    if n == 0:
        return PairedT(0, 0.0, 0.0, 1.0)
    nothing = ROUNDING * max(map(abs, (*scores, *baselines)))
    differences = [0.0 if abs(one) <= nothing else one for one in differences]
    mean = math.fsum(differences) / n
    if n == 1 or not any(differences):
        return PairedT(n, mean, 0.0, 1.0)
    if max(differences) - min(differences) <= nothing:
        return PairedT(n, mean, math.copysign(math.inf, mean), 0.0)
    variance = math.fsum((one - mean) ** 2 for one in differences) / (n - 1)
    t = mean / math.sqrt(variance / n)
    return PairedT(n, mean, t, _two_sided(t, n - 1))


def _two_sided(t: float, degrees: int) -> float:
    from scipy.special import stdtr

    return float(2.0 * stdtr(degrees, -abs(t)))


# --- power
#
# Which difference n instances can show, and how many instances an observed one needs.
#
# Normal approximation to a two-sided paired test at level alpha (Cohen 1988, chapter 2; Card et al. 2020, "With
# Little Power Comes Great Responsibility"): a true mean difference of (z(1 - alpha/2) + z(power)) * sd / sqrt(n) is
# found with the given power, where sd is the standard deviation of the differences by instance.

POWER: Final = 0.8
ALPHA: Final = 0.05


def least_instances(alpha: float = ALPHA) -> int:
    """The fewest differing instances with which a sign-flip test can reach `alpha`: its smallest p is 2 / 2^n."""
    return math.ceil(math.log2(2 / alpha) - 1e-9)


def detectable_difference(n: int, sd: float, *, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest true difference, in points, that is found with probability `power`.

    None where n instances cannot reach `alpha` whatever they show. With m comparisons under Holm's correction the
    smallest p is held against alpha / m: that is the worst case.
    """
    return _reach(alpha, power) * sd / math.sqrt(n) if n >= least_instances(alpha) else None


def instances_needed(
    difference: float, sd: float, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """How many instances a true difference of that size needs; None for no difference, which none can show."""
    if not difference:
        return None
    # The quotient's rounding must not add one to a whole number.
    by_power = math.ceil((_reach(alpha, power) * sd / difference) ** 2 - 1e-9)
    return max(least_instances(alpha), by_power)


def _reach(alpha: float, power: float) -> float:
    """How many standard errors the true difference has to be from 0."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
