"""Coordinate ascent on a linear ranking (Metzler & Croft 2007, "Linear feature-based models for IR").

One weight is changed at a time, to the value among a few that gives the training lists the highest MRR, until no
pass over the weights brings more. The measure itself is climbed, not a smooth stand-in, so there are several starts.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.ideal_rank import expected, ideal
from cts_async.analysis.ranking_lists import LearnedRanking, RankingLists

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

STARTS: Final = 5
"""Even weights, then random ones: as many as RankLib, which the paper used."""
PASSES: Final = 25
TOLERANCE: Final = 1e-3
"""A pass has to gain so much MRR to be followed by another."""
_STEPS: Final = 0.05 * 2.0 ** np.arange(7)
_CHANGES: Final = np.concatenate([-_STEPS[::-1], _STEPS])


def coordinate_ascent(lists: RankingLists, seed: int = 0) -> LearnedRanking:
    """Learn weights whose sizes sum to 1, from features of about unit size."""
    rng = np.random.default_rng(seed)
    columns = lists.features.shape[1]
    begins = [np.full(columns, 1 / columns), *rng.uniform(-1, 1, (STARTS - 1, columns))]
    # The first of equally good ends stays, so the even start wins a draw.
    _, weights = max((_climbed(lists, begin, rng) for begin in begins), key=lambda end: end[0])
    return LearnedRanking(lambda rows: rows @ weights, weights)


def _climbed(lists: RankingLists, weights: Array, rng: np.random.Generator) -> tuple[float, Array]:
    """The MRR reached from `weights`, and the weights that reach it."""
    is_ideal = ideal(lists.labels, lists.query)
    weights = weights / np.abs(weights).sum()
    reached = float(_mrr(lists, (lists.features @ weights)[None], is_ideal)[0])
    for _ in range(PASSES):
        before = reached
        for column in rng.permutation(len(weights)):
            changes = np.append(_CHANGES, -weights[column])
            scores = lists.features @ weights + changes[:, None] * lists.features[:, column]
            found = _mrr(lists, scores, is_ideal)
            best = int(np.argmax(found))
            changed = weights.copy()
            changed[column] += changes[best]
            if found[best] > reached + 1e-12 and (size := np.abs(changed).sum()) > 0:
                reached, weights = float(found[best]), changed / size
        if reached - before < TOLERANCE:
            break
    return reached, weights


def _mrr(lists: RankingLists, scores: Array, is_ideal: Array) -> Array:
    """MRR of each row of `scores` (candidates, items)."""
    mean: Array = expected(scores, is_ideal, lists.query)[1].mean(axis=-1)
    return mean
