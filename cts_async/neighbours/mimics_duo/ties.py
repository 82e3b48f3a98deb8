"""P@1 and MRR of rankings with ties, over random draws of their order and exactly (SIGIR 2022, section 5.1).

The items of a query are ranked by score, higher first; ideal are the items with the query's highest label. Where
`above` items score higher than the best ideal one, and `tied_ideal` of the `tied` items that score as it does are ideal,
the first ideal item comes at rank above + j with chance C(tied - j, tied_ideal - 1) / C(tied, tied_ideal). One ideal
item drawn of several is that with tied_ideal = 1, averaged over them. Queries are independent, so the variance of a mean
over queries is the sum of their variances over the square of their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Ideal: TypeAlias = Literal["any", "one"]
"""What counts where several items of a query share its highest label: each of them, or one drawn at random."""

DRAWS: Final = 1000
"""As often as the paper repeats its random ranker (table 7)."""
_BLOCK: Final = 500_000
"""Random numbers of one block: 4 MB of them, however many draws there are."""
_ROUNDING: Final = 1e-12
DECIMALS: Final = 9
"""Scores that agree to so many decimals are tied: the same sum may differ in its last bits."""


@dataclass(frozen=True, slots=True)
class TiedLists:
    """The items of each query, padded to one length: both arrays have the shape (queries, longest).

    `levels` are the scores of a query as ranks from 0, the lowest: equal scores, equal levels; -1 behind the end of a
    list. `ideal` marks the items with the query's highest label, at least one in each row.
    """

    levels: Array
    ideal: Array

    @property
    def queries(self) -> int:
        return len(self.levels)

    @property
    def items(self) -> int:
        return int((self.levels >= 0).sum())

    @property
    def alone(self) -> Array:
        """True where one item alone has the highest label, and one alone the highest score; (queries,) bool."""
        best = self.levels == self.levels.max(axis=1, keepdims=True)
        is_alone: Array = (best.sum(axis=1) == 1) & (self.ideal.sum(axis=1) == 1)
        return is_alone

    def select(self, queries: Array) -> TiedLists:
        """The lists of `queries`, (queries,) bool."""
        return TiedLists(self.levels[queries], self.ideal[queries])

    def untied(self) -> TiedLists:
        """The queries without a tie at the top, of scores or labels."""
        return self.select(self.alone)


def tied_lists(scores: Sequence[float] | Array, labels: Sequence[float] | Array, sizes: Array) -> TiedLists:
    """Lists of `sizes` items each (at least one), their scores and labels one after another; higher is better."""
    length = int(sizes.max(initial=1))
    present = np.arange(length) < sizes[:, None]
    levels = np.full(present.shape, -1)
    levels[present] = np.unique(np.asarray(scores, float), return_inverse=True)[1]
    padded = np.full(present.shape, -np.inf)
    padded[present] = np.asarray(labels, float)
    return TiedLists(levels, present & (padded == padded.max(axis=1, keepdims=True)))


def unscored(lists: TiedLists) -> TiedLists:
    """The same lists with equal scores: with ties broken at random this is the random ranker."""
    return TiedLists(np.where(lists.levels >= 0, 0, -1), lists.ideal)


# --- One ranking, with the spread of its ties ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure in [0, 1]: `mean` and `sd` (ddof 1) over the draws; `exact` and `exact_sd` are what they estimate."""

    mean: float
    sd: float
    exact: float
    exact_sd: float


def rerank(
    lists: TiedLists, ideal: Ideal = "any", *, draws: int = DRAWS, seed: int = 0
) -> tuple[Measured, Measured] | None:
    """P@1: the first item is ideal. MRR: the mean of 1 / rank of the ideal item, of the first of them with "any".

    None where there is no query. At least two draws; the same arguments give the same numbers to the last digit.
    """
    if not lists.queries:
        return None
    drawn_p_at_1, drawn_mrr = drawn(lists, ideal, draws, seed)
    exact_p_at_1, exact_mrr = expected(lists, ideal)
    return _measured(drawn_p_at_1, exact_p_at_1), _measured(drawn_mrr, exact_mrr)


def _measured(draws: Array, expectation: tuple[float, float]) -> Measured:
    exact, exact_sd = expectation
    return Measured(float(draws.mean()), float(draws.std(ddof=1)), exact, exact_sd)


def drawn(lists: TiedLists, ideal: Ideal, draws: int, seed: int) -> tuple[Array, Array]:
    """P@1 and MRR of each draw, both of the shape (draws,): all ties are broken at random."""
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK // lists.levels.size)
    p_at_1, mrr = np.empty(draws), np.empty(draws)
    for done in range(0, draws, step):
        ranks = _ranks(lists, ideal, min(step, draws - done), rng)
        block = slice(done, done + len(ranks))
        p_at_1[block] = (ranks == 1).mean(axis=1)
        mrr[block] = (1 / ranks).mean(axis=1)
    return p_at_1, mrr


def _ranks(lists: TiedLists, ideal: Ideal, draws: int, rng: np.random.Generator) -> Array:
    """The rank of each list's ideal item, shape (draws, queries).

    An item's height is its level and a random number below 1: heights sort as scores do, equal ones at random.
    """
    heights = lists.levels + rng.random((draws,) + lists.levels.shape)
    if ideal == "any":
        ideal_heights = np.where(lists.ideal, heights, -1.0).max(axis=2)
    else:
        positions = _drawn_ideal_items(lists.ideal, draws, rng)[:, :, None]
        ideal_heights = np.take_along_axis(heights, positions, axis=2)[:, :, 0]
    # Padding behind the end of a list is below 0 and so below every item in it.
    n_higher: Array = (heights > ideal_heights[:, :, None]).sum(axis=2)
    return n_higher + 1


def _drawn_ideal_items(ideal: Array, draws: int, rng: np.random.Generator) -> Array:
    """For each draw and list the position of one of its ideal items, all with equal chance."""
    # The ideal ones come before the others.
    positions = np.argsort(~ideal, axis=1, kind="stable")
    nth = (rng.random((draws, len(ideal))) * ideal.sum(axis=1)).astype(int)
    drawn_positions: Array = positions[np.arange(len(ideal)), nth]
    return drawn_positions


def expected(lists: TiedLists, ideal: Ideal) -> tuple[tuple[float, float], tuple[float, float]]:
    """Expectation and standard deviation of a single draw, of P@1 and of MRR; at least one query.

    Over random orders of equal scores, and with `ideal` "one" over the random choice of the ideal item.
    """
    moments = []
    for levels, is_ideal in zip(lists.levels, lists.ideal, strict=True):
        moments.append(_query_moments(levels, is_ideal, ideal))
    n = len(moments)
    top, reciprocal, square = np.array(moments).T
    variances = square - reciprocal**2
    # Queries without a tie have no variance; what floating point leaves of it is cut off.
    variances = np.where(variances > _ROUNDING, variances, 0.0)
    # Whether the first item is ideal is 0 or 1, with the variance p (1 - p).
    p_at_1 = (float(top.mean()), math.sqrt((top - top**2).sum()) / n)
    mrr = (float(reciprocal.mean()), math.sqrt(variances.sum()) / n)
    return p_at_1, mrr


def _query_moments(levels: Array, is_ideal: Array, ideal: Ideal) -> tuple[float, float, float]:
    """The chance of rank 1, and the expectations of 1 / rank and of its square."""
    if ideal == "any":
        level = levels[is_ideal].max()
        tied = levels == level
        return _moments(int((levels > level).sum()), int(tied.sum()), int((tied & is_ideal).sum()))
    # The mean over the items that may be drawn as the ideal one.
    moments = []
    for level in levels[is_ideal]:
        moments.append(_moments(int((levels > level).sum()), int((levels == level).sum()), 1))
    n = len(moments)
    tops, reciprocals, squares = zip(*moments, strict=True)
    return sum(tops) / n, sum(reciprocals) / n, sum(squares) / n


@lru_cache(maxsize=4096)
def _moments(above: int, tied: int, tied_ideal: int) -> tuple[float, float, float]:
    """The same of an item by three counts (module docstring); few of their combinations occur."""
    n_cases = math.comb(tied, tied_ideal)
    top = 0.0
    reciprocals, squares = [], []
    for j in range(1, tied - tied_ideal + 2):
        rank, chance = above + j, math.comb(tied - j, tied_ideal - 1) / n_cases
        if rank == 1:
            top = chance
        reciprocals.append(chance / rank)
        squares.append(chance / rank**2)
    return top, math.fsum(reciprocals), math.fsum(squares)


# --- Query by query, for many rankings at once -----------------------------------------------------------


def starts(query: Array) -> Array:
    """The first row of each run of equal numbers in `query`, which numbers the query of each item."""
    return np.flatnonzero(np.diff(query, prepend=query[:1] - 1))


def sizes(query: Array) -> Array:
    """How many items each query has, shape (queries,)."""
    return np.diff(starts(query), append=len(query))


def ideal_items(labels: Array, query: Array) -> Array:
    """True for items with the highest label of their query, (items,) bool."""
    is_ideal: Array = labels == np.repeat(np.maximum.reduceat(labels, starts(query)), sizes(query))
    return is_ideal


def expected_by_query(scores: Array, is_ideal: Array, query: Array) -> tuple[Array, Array]:
    """P@1 and reciprocal rank of every query, shape (..., queries) for scores of shape (..., items).

    The reciprocal rank is that of the first ideal item; both are expectations over all orders of tied items.
    """
    first_rows, n_items = starts(query), sizes(query)
    rounded = np.round(scores, DECIMALS)
    best = np.maximum.reduceat(np.where(is_ideal, rounded, -np.inf), first_rows, axis=-1)
    level = np.repeat(best, n_items, axis=-1)
    above = np.add.reduceat(rounded > level, first_rows, axis=-1, dtype=int)
    tied = np.add.reduceat(rounded == level, first_rows, axis=-1, dtype=int)
    tied_ideal = np.add.reduceat((rounded == level) & is_ideal, first_rows, axis=-1, dtype=int)
    # Few combinations of the three counts occur: each is computed once.
    base = int(max(above.max(initial=0), tied.max(initial=0))) + 1
    codes, places = np.unique((above * base + tied) * base + tied_ideal, return_inverse=True)
    moments = []
    for code in codes.tolist():
        pair, n_tied_ideal = divmod(code, base)
        n_above, n_tied = divmod(pair, base)
        moments.append(_moments(n_above, n_tied, n_tied_ideal))
    p_at_1, reciprocal, _ = np.array(moments).T
    return p_at_1[places].reshape(above.shape), reciprocal[places].reshape(above.shape)
