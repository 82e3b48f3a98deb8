"""Lists to be ranked where scores and labels may tie: the items of each query, padded to one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Ideal: TypeAlias = Literal["any", "one"]
"""What counts where several items of a query share its highest label: each of them, or one drawn at random."""


@dataclass(frozen=True, slots=True)
class TiedLists:
    """`levels` and `ideal` have the shape (queries, longest); behind the end of a list they are -1 and False.

    `levels` are the scores of a query as ranks from 0, the lowest: equal scores, equal levels. `ideal` marks the
    items with the query's highest label, at least one in each row.
    """

    levels: Array
    ideal: Array

    @property
    def queries(self) -> int:
        return len(self.levels)

    @property
    def items(self) -> int:
        return int((self.levels >= 0).sum())

    def untied(self) -> TiedLists:
        """The queries where one item alone has the highest label, and one alone the highest score."""
        best = (self.levels == self.levels.max(axis=1, keepdims=True)).sum(axis=1) == 1
        kept = best & (self.ideal.sum(axis=1) == 1)
        return TiedLists(self.levels[kept], self.ideal[kept])


def tied_lists(scores: Sequence[float] | Array, labels: Sequence[float] | Array, sizes: Array) -> TiedLists:
    """Lists of `sizes` items each (at least one), their scores and labels one after another; higher is better.

    Raises ValueError for unequal lengths, an empty list, or a score or label that is not a number.
    """
    flat_scores, flat_labels = np.asarray(scores, float), np.asarray(labels, float)
    if not len(flat_scores) == len(flat_labels) == sizes.sum() or (sizes < 1).any():
        raise ValueError("scores and labels must be of all items, and every list must have one")
    if np.isnan(flat_scores).any() or np.isnan(flat_labels).any():
        raise ValueError("scores and labels must be numbers")
    length = int(sizes.max(initial=1))
    there = np.arange(length) < sizes[:, None]
    levels = np.full(there.shape, -1)
    levels[there] = np.unique(flat_scores, return_inverse=True)[1]
    padded = np.full(there.shape, -np.inf)
    padded[there] = flat_labels
    highest = padded.max(axis=1, keepdims=True)
    return TiedLists(levels, there & (padded == highest))


def unscored(lists: TiedLists) -> TiedLists:
    """The same lists with equal scores: broken at random, this is the random ranker."""
    return TiedLists(np.where(lists.levels >= 0, 0, -1), lists.ideal)
