"""Wilson's score interval for a proportion (Wilson, 1927, JASA 22), at 95 %."""

from __future__ import annotations

from math import sqrt
from typing import Final

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
