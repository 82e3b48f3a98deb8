"""Lists to learn a ranking from: the items of each query with features and labels, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class RankingLists:
    """Items in rows, a query's items one after another.

    `features` (items, features) float; `labels` (items,) higher is better; `query` (items,) int, never falling.
    """

    features: Array
    labels: Array
    query: Array

    def __post_init__(self) -> None:
        if not len(self.features) == len(self.labels) == len(self.query):
            raise ValueError("features, labels and query must have a row for each item")
        if (np.diff(self.query) < 0).any():
            raise ValueError("the items of a query must stand together, queries in rising order")

    @property
    def starts(self) -> Array:
        """The first row of each query, shape (queries,)."""
        return starts(self.query)


def starts(query: Array) -> Array:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.diff(query, prepend=query[:1] - 1))


def decided(labels: Array, query: Array) -> Array:
    """Whether each item's query has two different labels, (items,) bool: the others cannot be ranked (section 3.1.1)."""
    if not len(query):
        return np.zeros(0, bool)
    first = starts(query)
    differs = np.maximum.reduceat(labels, first) > np.minimum.reduceat(labels, first)
    return np.repeat(differs, sizes(query))


def sizes(query: Array) -> Array:
    """How many items each query has, shape (queries,)."""
    return np.diff(starts(query), append=len(query))


def preferences(labels: Array, query: Array) -> tuple[Array, Array]:
    """Rows (better, worse) of all pairs of one query whose labels differ, each pair once."""
    better: list[Array] = [np.zeros(0, int)]
    worse: list[Array] = [np.zeros(0, int)]
    rows = np.arange(len(query))
    # The k-th neighbour of every item at once: as many rounds as the longest list is long.
    for step in range(1, int(sizes(query).max(initial=0))):
        left, right = rows[:-step], rows[step:]
        together = query[left] == query[right]
        for high, low in ((left, right), (right, left)):
            chosen = together & (labels[high] > labels[low])
            better.append(high[chosen])
            worse.append(low[chosen])
    return np.concatenate(better), np.concatenate(worse)


@dataclass(frozen=True, slots=True)
class LearnedRanking:
    """A ranking function: `scores` takes (items, features) to (items,), higher first.

    `weights` (features,) tell what counts in it; negative where more of a feature ranks lower and the kind of
    model can tell.
    """

    scores: Callable[[Array], Array]
    weights: Array


Fit: TypeAlias = Callable[[RankingLists, int], LearnedRanking]
"""Learn from lists with at least one preference, with a seed: the same lists and seed give the same ranking."""
