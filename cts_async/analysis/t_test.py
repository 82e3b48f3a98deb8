"""The paired t-test of a mean difference (Student 1908): two-sided, as `scipy.stats.ttest_rel` gives it.

t = d / (s / sqrt(n)), with d the mean of the n paired differences and s their standard deviation (ddof 1); p is the
chance that Student's t with n - 1 degrees of freedom lies at least as far from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
