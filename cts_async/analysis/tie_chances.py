"""Exact P@1 and MRR of lists with ties, over all orders of tied items: nothing is drawn.

Where `above` items score higher than the best ideal one, and `wanted` ideal items are among the `tied` that score
as it does, the first ideal item comes at rank above + j with chance C(tied - j, wanted - 1) / C(tied, wanted). One
ideal item drawn of several is that with wanted = 1, averaged over them. Queries are independent, so the variance of
a mean over queries is the sum of theirs over the square of their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from cts_async.analysis.tied_lists import Array, Ideal, TiedLists

_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Expected:
    """P@1 and MRR: the expectation, and the standard deviation of a single draw of all ties. NaN for no query."""

    p_at_1: float
    p_at_1_sd: float
    mrr: float
    mrr_sd: float


def expected(lists: TiedLists, ideal: Ideal) -> Expected:
    """Over random orders of equal scores, and with `ideal` "one" over the random choice of the ideal item."""
    moments = [_query_moments(*row, ideal) for row in zip(lists.levels, lists.ideal, strict=True)]
    if not moments:
        return Expected(math.nan, math.nan, math.nan, math.nan)
    first, reciprocal, square = (np.array(column) for column in zip(*moments, strict=True))
    n = len(moments)
    return Expected(
        p_at_1=float(first.mean()),
        p_at_1_sd=math.sqrt((first - first**2).sum()) / n,
        mrr=float(reciprocal.mean()),
        mrr_sd=math.sqrt(_variances(reciprocal, square).sum()) / n,
    )


def _variances(mean: Array, square: Array) -> Array:
    """Those of queries without a tie are 0, whatever rounding leaves of them."""
    found = square - mean**2
    return np.where(found > _ROUNDING, found, 0.0)


def _query_moments(levels: Array, ideal: Array, which: Ideal) -> tuple[float, float, float]:
    """Chance of rank 1, and the expectations of 1 / rank and its square."""
    if which == "any":
        return _moments(*_place(levels, levels[ideal].max(), ideal))
    one = [_moments(*_place(levels, level, None)) for level in levels[ideal]]
    first, reciprocal, square = (sum(column) / len(one) for column in zip(*one, strict=True))
    return first, reciprocal, square


def _place(levels: Array, level: Any, ideal: Array | None) -> tuple[int, int, int]:
    """Items above `level`, on it, and ideal among those on it (1 where `ideal` is not given)."""
    tied = levels == level
    wanted = 1 if ideal is None else int((tied & ideal).sum())
    return int((levels > level).sum()), int(tied.sum()), wanted


@lru_cache(maxsize=4096)
def _moments(above: int, tied: int, wanted: int) -> tuple[float, float, float]:
    chances = list(rank_chances(above, tied, wanted))
    return (
        sum(chance for rank, chance in chances if rank == 1),
        math.fsum(chance / rank for rank, chance in chances),
        math.fsum(chance / rank**2 for rank, chance in chances),
    )


def rank_chances(above: int, tied: int, wanted: int) -> Iterator[tuple[int, float]]:
    """The ranks, from 1, at which the first of `wanted` ideal items can come, each with its chance."""
    cases = math.comb(tied, wanted)
    for j in range(1, tied - wanted + 2):
        yield above + j, math.comb(tied - j, wanted - 1) / cases
