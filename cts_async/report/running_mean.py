"""A mean of scores that come in one by one, with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

_Z: Final = 1.959964
_T_975: Final = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""Student's t, its 97.5 % point for 1 to 10 degrees of freedom."""


class RunningMean:
    """Mean and variance after Welford (1962): no score is kept, and nothing is lost to rounding."""

    __slots__ = ("_squares", "mean", "n")

    def __init__(self) -> None:
        self.n, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, scores: Iterable[float]) -> None:
        """Take in further scores."""
        for score in scores:
            self.n += 1
            off = score - self.mean
            self.mean += off / self.n
            self._squares += off * (score - self.mean)

    def interval(self) -> tuple[float, float] | None:
        """mean ± t · s / sqrt(n), Student's t with n - 1 degrees of freedom; None for less than two scores."""
        if self.n < 2:
            return None
        half = t_975(self.n - 1) * math.sqrt(self._squares / (self.n - 1) / self.n)
        return self.mean - half, self.mean + half


def t_975(df: int) -> float:
    """The point below which Student's t with `df` >= 1 degrees of freedom lies with 97.5 %, to within 0.0002.

    Beyond the table by Abramowitz and Stegun, 26.7.5: loading a library of distributions would hold up the run.
    """
    if df <= len(_T_975):
        return _T_975[df - 1]
    z, z3, z5, z7 = _Z, _Z**3, _Z**5, _Z**7
    first, second = (z3 + z) / 4, (5 * z5 + 16 * z3 + 3 * z) / 96
    third = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3
