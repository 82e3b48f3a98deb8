"""Which difference n instances can show, and how many instances an observed one needs.

Normal approximation to a two-sided paired test at level alpha (Cohen 1988, chapter 2; Card et al. 2020, "With
Little Power Comes Great Responsibility"): a true mean difference of (z(1 - alpha/2) + z(power)) * sd / sqrt(n) is
found with the given power, where sd is the standard deviation of the differences by instance.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

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
