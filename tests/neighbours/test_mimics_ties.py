"""P@1 and MRR with ties: by hand, by all orders, and drawn around the exact values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.mimics_duo import ties
from cts_async.neighbours.mimics_duo.ties import (
    Ideal,
    TiedLists,
    drawn,
    expected,
    expected_by_query,
    ideal_items,
    rerank,
    tied_lists,
    unscored,
)

SIZES = np.array([2, 3])


def test_levels_rank_the_scores_and_the_highest_labels_are_ideal() -> None:
    lists = tied_lists([0.5, 0.1, 7, 0.5, 7], [1, 2, 3, 3, 0], SIZES)
    assert lists.levels.tolist() == [[1, 0, -1], [2, 1, 2]]
    assert lists.ideal.tolist() == [[False, True, False], [True, True, False]]
    assert (lists.queries, lists.items) == (2, 5)
    assert unscored(lists).levels.tolist() == [[0, 0, -1], [0, 0, 0]]


def test_untied_queries_have_one_best_item_and_one_ideal_one() -> None:
    tied_label = [1, 2, 3, 3, 0]
    tied_score = [1, 2, 3, 3, 0]
    clear = [1, 2, 3, 1, 0]
    assert tied_lists(clear, clear, SIZES).untied().queries == 2
    assert tied_lists(clear, tied_label, SIZES).untied().items == 2
    assert tied_lists(tied_score, clear, SIZES).untied().items == 2


IDEALS: tuple[Ideal, ...] = ("any", "one")
items = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4)


def some_lists(rows: list[list[tuple[int, int]]]) -> TiedLists:
    flat = [item for row in rows for item in row]
    sizes = np.array([len(row) for row in rows])
    return tied_lists([score for score, _ in flat], [label for _, label in flat], sizes)


@pytest.mark.parametrize("ideal", IDEALS)
@given(rows=st.lists(items, min_size=1, max_size=4))
def test_means_of_many_draws_are_near_the_expectation(
    rows: list[list[tuple[int, int]]], ideal: Ideal
) -> None:
    """Six standard errors of a mean of 4,000 draws: with another seed it would fail once in 10^8."""
    lists = some_lists(rows)
    for seen, (exact, sd) in zip(drawn(lists, ideal, 4000, 0), expected(lists, ideal), strict=True):
        assert abs(seen.mean() - exact) <= 6 / np.sqrt(4000) * sd + 1e-7


def test_same_seed_gives_the_same_draws_and_another_gives_others() -> None:
    lists = some_lists([[(0, 1), (0, 0), (0, 0)]] * 20)
    again = [drawn(lists, "any", 100, seed)[1] for seed in (1, 1, 2)]
    assert (again[0] == again[1]).all()
    assert (again[0] != again[2]).any()


def test_draws_are_made_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "_BLOCK", 10)
    assert drawn(some_lists([[(0, 1), (0, 0)]] * 3), "one", 7, 0)[1].shape == (7,)


def test_reranking_has_draws_and_expectations_side_by_side() -> None:
    """A pair of tied items: the ideal one is first in half of the orders, else second."""
    lists = some_lists([[(0, 1), (0, 0)]])
    assert rerank(lists.untied()) is None
    found = rerank(lists, draws=1000)
    assert found is not None
    p_at_1, mrr = found
    assert (p_at_1.exact, p_at_1.exact_sd) == (0.5, 0.5)
    assert (mrr.exact, mrr.exact_sd) == (0.75, 0.25)
    assert mrr.mean == pytest.approx(0.75, abs=6 * 0.25 / np.sqrt(1000))
    assert p_at_1.sd == pytest.approx(0.5, rel=0.05)


rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5)


def every_rank(scores: Sequence[int], labels: Sequence[int], ideal: Ideal) -> Iterator[int]:
    """The rank of the ideal item for every order of the items that sorts the scores, each equally likely."""
    best = [i for i, label in enumerate(labels) if label == max(labels)]
    for order in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            ranks = [order.index(i) + 1 for i in best]
            yield from [min(ranks)] if ideal == "any" else ranks


@pytest.mark.parametrize("ideal", IDEALS)
@given(row=rows)
def test_one_list_is_the_mean_over_all_its_orders(row: list[tuple[int, int]], ideal: Ideal) -> None:
    scores, labels = zip(*row, strict=True)
    ranks = np.array(list(every_rank(scores, labels, ideal)))
    p_at_1, mrr = expected(tied_lists(scores, labels, np.array([len(row)])), ideal)
    assert p_at_1 == pytest.approx(((ranks == 1).mean(), (ranks == 1).std()), abs=1e-7)
    assert mrr == pytest.approx(((1 / ranks).mean(), (1 / ranks).std()), abs=1e-7)


@pytest.mark.parametrize(
    ("scores", "labels", "p_at_1", "mrr"),
    [
        ([3, 2, 1], [9, 1, 1], 1, 1),
        ([1, 2, 3], [9, 1, 1], 0, 1 / 3),
        ([0, 0, 0], [9, 1, 1], 1 / 3, 11 / 18),  # 1/3 each for ranks 1, 2 and 3: (1 + 1/2 + 1/3) / 3
        ([0, 0, 0], [9, 9, 1], 2 / 3, 5 / 6),  # rank 1 in two cases of three, else rank 2: (2 + 1/2) / 3
        ([9, 7, 7, 7], [0, 2, 2, 1], 0, 4 / 9),  # second in 2 of 3 orders, else third: 2/3 / 2 + 1/3 / 3
        ([0.1 + 0.2, 0.3], [1, 0], 0.5, 0.75),  # scores that differ in the last bit are tied
    ],
)
def test_expectation_is_that_by_hand(
    scores: list[float], labels: list[float], p_at_1: float, mrr: float
) -> None:
    found = reached(scores, labels, [0] * len(scores))
    assert (found[0][0], found[1][0]) == pytest.approx((p_at_1, mrr))


def test_mean_over_queries_has_the_variance_of_its_parts() -> None:
    """Two lists of two tied items: P@1 1/2 each, variance (1/4 + 1/4) / 4 = 1/8."""
    p_at_1, mrr = expected(tied_lists([0, 0, 0, 0], [1, 0, 1, 0], np.array([2, 2])), "any")
    assert p_at_1 == pytest.approx((0.5, math.sqrt(1 / 8)))
    assert mrr == pytest.approx((0.75, math.sqrt(1 / 8) / 2))


ITEMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5)
"""(score, label) of a query's items."""


def reached(scores: list[float], labels: list[float], query: list[int]) -> tuple[list[float], list[float]]:
    numbers = np.array(query)
    precision, reciprocal = expected_by_query(
        np.array(scores), ideal_items(np.array(labels), numbers), numbers
    )
    return precision.tolist(), reciprocal.tolist()


def test_many_rankings_are_scored_at_once() -> None:
    query = np.array([0, 0, 1, 1])
    is_ideal = np.array([True, False, False, True])
    precision, reciprocal = expected_by_query(np.array([[1, 0, 1, 0], [0, 1, 0, 1]]), is_ideal, query)
    assert precision.tolist() == [[1, 0], [0, 1]]
    assert reciprocal.tolist() == [[1, 0.5], [0.5, 1]]


@given(ITEMS, ITEMS)
def test_means_are_those_of_tie_chances(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    items, each = [*first, *second], np.array([len(first), len(second)])
    scores, labels = [s for s, _ in items], [y for _, y in items]
    precision, reciprocal = reached(scores, labels, np.repeat([0, 1], each).tolist())
    (p_at_1, _), (mrr, _) = expected(tied_lists(scores, labels, each), "any")
    assert (np.mean(precision), np.mean(reciprocal)) == pytest.approx((p_at_1, mrr))
