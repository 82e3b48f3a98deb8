"""Kendall's tau-b between two rankings of the same systems (Kendall 1945, on ties in ranking problems)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Agreement of two orders in [-1, 1]: 1 is the same order, -1 the reverse.

    (concordant - discordant) / sqrt((pairs - ties in a) * (pairs - ties in b)); None where one of them has no
    order. Raises ValueError for unequal lengths.
    """
    if len(a) != len(b):
        raise ValueError("both must rank the same systems")
    balance = untied_a = untied_b = 0
    for i, j in combinations(range(len(a)), 2):
        x, y = _sign(a[i] - a[j]), _sign(b[i] - b[j])
        balance += x * y
        untied_a += x != 0
        untied_b += y != 0
    return balance / math.sqrt(untied_a * untied_b) if untied_a and untied_b else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
