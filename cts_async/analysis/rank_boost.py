"""RankBoost (Freund, Iyer, Schapire & Singer 2003, "An efficient boosting algorithm for combining preferences").

Weak rankers say whether one feature exceeds a threshold. Each round takes the one with the largest |r|, the weighted
share of pairs it orders rightly less those it orders wrongly, gives it alpha = 1/2 ln((1 + r) / (1 - r)) (their
third method), and shifts the pairs' weights to those that are still wrong.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.ranking_lists import LearnedRanking, RankingLists, preferences

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ROUNDS: Final = 300
THRESHOLDS: Final = np.arange(10) / 10
"""Rounds and ten even steps as in RankLib, which the paper used; features lie between 0 and 1."""
_CERTAIN: Final = 1 - 1e-6
"""A weak ranker without any mistake would get an infinite weight."""


def rank_boost(lists: RankingLists, seed: int = 0, *, rounds: int = ROUNDS) -> LearnedRanking:
    """Learn from features between 0 and 1. Nothing in it is random: `seed` is there because a `Fit` takes one.

    The weights are the alphas by feature: by how much its largest value raises a score above its smallest.
    """
    better, worse = preferences(lists.labels, lists.query)
    levels = _levels(lists.features)
    features = levels.shape[1]
    steps = np.zeros((features, len(THRESHOLDS)))
    weights = np.full(len(better), 1 / len(better))
    for _ in range(rounds):
        feature, threshold, r = _best(levels, _potential(weights, better, worse, len(levels)))
        if abs(r) < 1e-9:
            break
        r = min(_CERTAIN, max(-_CERTAIN, r))
        alpha = 0.5 * np.log((1 + r) / (1 - r))
        steps[feature, threshold] += alpha
        above = (levels[:, feature] > threshold).astype(float)
        weights = weights * np.exp(-alpha * (above[better] - above[worse]))
        weights /= weights.sum()
    heights = np.concatenate([np.zeros((features, 1)), steps.cumsum(axis=1)], axis=1)
    return LearnedRanking(lambda rows: _heights_of(_levels(rows), heights), steps.sum(axis=1))


def _levels(features: Array) -> Array:
    """How many thresholds each value exceeds, shape (items, features)."""
    return np.searchsorted(THRESHOLDS, features, side="left")


def _potential(weights: Array, better: Array, worse: Array, items: int) -> Array:
    """What raising each item's score would gain: the weight of pairs it should win less of those it should lose."""
    return np.bincount(better, weights, items) - np.bincount(worse, weights, items)


def _best(levels: Array, potential: Array) -> tuple[int, int, float]:
    """The feature and threshold with the largest |r|, and r: the summed potential of the items above it."""
    features, bins = levels.shape[1], len(THRESHOLDS) + 1
    codes = (levels + np.arange(features) * bins).ravel()
    mass = np.bincount(codes, np.repeat(potential, features), features * bins).reshape(features, bins)
    gains = mass[:, :0:-1].cumsum(axis=1)[:, ::-1]
    feature, threshold = np.unravel_index(np.argmax(np.abs(gains)), gains.shape)
    return int(feature), int(threshold), float(gains[feature, threshold])


def _heights_of(levels: Array, heights: Array) -> Array:
    scores: Array = heights[np.arange(heights.shape[0]), levels].sum(axis=1)
    return scores
