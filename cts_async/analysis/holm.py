"""Holm's step-down correction for several tests (Holm 1979, "A simple sequentially rejective ... procedure")."""

from __future__ import annotations

from collections.abc import Sequence


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
