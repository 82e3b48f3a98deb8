"""Rankers of clarification panes, cross-validated by query (MIMICS-Duo, SIGIR 2022, section 3.1.2).

All that is learned comes from the training folds: document frequencies of the features, their smallest and largest
values, and the ranking. A label to train on and another to test on give the paper's tables 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.ideal_rank import expected, ideal
from cts_async.analysis.labelled_panes import LabelledPanes
from cts_async.analysis.pane_features import (
    FEATURES,
    PaneWords,
    collections,
    features,
    words_of,
)
from cts_async.analysis.pane_rankers import PaneRanker
from cts_async.analysis.ranking_lists import RankingLists, decided, starts
from cts_async.errors import UsageError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FOLDS: Final = 5
RANDOM: Final = "random"
WORST: Final = "worst"
"""What stands beside the rankers: all panes in random order, and the ideal ones last."""


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """What each ranker, and `RANDOM` and `WORST`, reached on each query while it was in the fold left out.

    `precision` and `reciprocal` are P@1 and 1 / rank by ranker, over `queries`. `weights` are the features' weights
    by ranker, of each fold scaled to 1 in the sum of their sizes, and averaged over the folds.
    """

    queries: tuple[str, ...]
    panes: int
    """How many panes these queries have."""
    tied: int
    """Queries that are not tested on: all their panes have the same label, or there is only one."""
    precision: Mapping[str, Array]
    reciprocal: Mapping[str, Array]
    weights: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class _Panes:
    """Panes ordered by query, as words, with both labels; `query` numbers the `names`."""

    names: tuple[str, ...]
    query: Array
    words: Sequence[PaneWords]
    train: Array
    test: Array


def cross_validate(
    data: LabelledPanes, rankers: Mapping[str, PaneRanker], *, folds: int = FOLDS, seed: int = 0
) -> CrossValidated:
    """Train and test each ranker `folds` times; UsageError where the data do not allow it."""
    panes = _ordered(data)
    if not 2 <= folds <= len(panes.names):
        raise UsageError(f"folds must be from 2 to the number of queries, {len(panes.names)}; not {folds}")
    fold = folds_of(len(panes.names), folds, seed)[panes.query]
    scores = {name: np.zeros(len(panes.query)) for name in rankers}
    weights = {name: np.zeros(len(FEATURES)) for name in rankers}
    for number in range(folds):
        held_out = fold == number
        rows = _normalised(panes.words, held_out)
        lists = _training(panes, rows, held_out)
        for name, ranker in rankers.items():
            learned = ranker.fit(lists, seed + number)
            scores[name][held_out] = learned.scores(rows[held_out])
            weights[name] += learned.weights / (np.abs(learned.weights).sum() or 1.0) / folds
    return _tested(panes, scores, weights)


def folds_of(queries: int, folds: int, seed: int) -> Array:
    """The fold of each query, (queries,) int: at random, and as even as can be."""
    return np.random.default_rng(seed).permutation(np.arange(queries) % folds)


def _ordered(data: LabelledPanes) -> _Panes:
    """The panes with those of a query together, queries in order of first appearance."""
    numbers: dict[str, int] = {}
    query = np.array([numbers.setdefault(pane.query, len(numbers)) for pane in data.panes], int)
    order = np.argsort(query, kind="stable")
    words = [words_of(data.panes[i]) for i in order]
    train, test = (np.asarray(labels, float)[order] for labels in (data.train, data.test))
    return _Panes(tuple(numbers), query[order], words, train, test)


def _normalised(words: Sequence[PaneWords], held_out: Array) -> Array:
    """All panes' features on the training panes' statistics and scale: those lie from 0 to 1, others may not."""
    known = collections([pane for pane, out in zip(words, held_out, strict=True) if not out])
    rows = features(words, known)
    low, high = rows[~held_out].min(axis=0), rows[~held_out].max(axis=0)
    normal: Array = (rows - low) / np.where(high > low, high - low, 1.0)
    return normal


def _training(panes: _Panes, rows: Array, held_out: Array) -> RankingLists:
    """The training panes of queries that prefer some pane to another; the rest teach nothing (section 3.1.1)."""
    learn = decided(panes.train, panes.query) & ~held_out
    if not learn.any():
        raise UsageError(
            "nothing to learn from: no query of the training folds has panes with different labels"
        )
    return RankingLists(rows[learn], panes.train[learn], panes.query[learn])


def _tested(panes: _Panes, scores: Mapping[str, Array], weights: Mapping[str, Array]) -> CrossValidated:
    tested = decided(panes.test, panes.query)
    if not tested.any():
        raise UsageError("nothing to test on: no query has panes with different labels")
    query = panes.query[tested]
    is_ideal = ideal(panes.test[tested], query)
    rankings = {name: found[tested] for name, found in scores.items()}
    rankings |= {RANDOM: np.zeros(len(query)), WORST: -is_ideal.astype(float)}
    reached = {name: expected(found, is_ideal, query) for name, found in rankings.items()}
    names = tuple(panes.names[number] for number in query[starts(query)])
    return CrossValidated(
        names,
        len(query),
        len(panes.names) - len(names),
        {name: precision for name, (precision, _) in reached.items()},
        {name: reciprocal for name, (_, reciprocal) in reached.items()},
        weights,
    )
