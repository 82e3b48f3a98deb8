"""P@1 and 1 / rank of the ideal item query by query, for many rankings at once (MIMICS-Duo, SIGIR 2022, section 3.1.2).

Ideal are the items of a query with its highest label; the reciprocal rank is that of the first of them. Items with
equal scores come in random order, and what is given is the expectation over all orders, so nothing is drawn: the
random ranker is the one that scores all alike, and the worst one puts the ideal items last. `tie_chances` says the
same of one ranking's means; a ranker that learns, and a test over queries, ask for this.
"""

from __future__ import annotations

from functools import lru_cache
from math import fsum
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.ranking_lists import sizes, starts
from cts_async.analysis.tie_chances import rank_chances

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DECIMALS: Final = 9
"""Scores count as tied if they agree to so many: one and the same sum may differ in its last bits."""


def ideal(labels: Array, query: Array) -> Array:
    """Whether each item has the highest label of its query, (items,) bool."""
    is_ideal: Array = labels == np.repeat(np.maximum.reduceat(labels, starts(query)), sizes(query))
    return is_ideal


def expected(scores: Array, is_ideal: Array, query: Array) -> tuple[Array, Array]:
    """P@1 and reciprocal rank of every query, shape (..., queries) for scores of shape (..., items)."""
    first, each = starts(query), sizes(query)
    rounded = np.round(scores, DECIMALS)
    best = np.maximum.reduceat(np.where(is_ideal, rounded, -np.inf), first, axis=-1)
    level = np.repeat(best, each, axis=-1)
    above = np.add.reduceat(rounded > level, first, axis=-1, dtype=int)
    tied = np.add.reduceat(rounded == level, first, axis=-1, dtype=int)
    wanted = np.add.reduceat((rounded == level) & is_ideal, first, axis=-1, dtype=int)
    return np.where(above == 0, wanted / tied, 0.0), _reciprocals(above, tied, wanted)


@lru_cache(maxsize=4096)
def expected_reciprocal(above: int, tied: int, wanted: int) -> float:
    """The mean of 1 / rank of the first of `wanted` items among `tied` in random order, with `above` items before."""
    return fsum(chance / rank for rank, chance in rank_chances(above, tied, wanted))


def _reciprocals(above: Array, tied: Array, wanted: Array) -> Array:
    base = int(max(above.max(initial=0), tied.max(initial=0))) + 1
    codes, places = np.unique((above * base + tied) * base + wanted, return_inverse=True)
    values = [
        expected_reciprocal(code // base // base, code // base % base, code % base) for code in codes.tolist()
    ]
    return np.array(values)[places].reshape(above.shape)
