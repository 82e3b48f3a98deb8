"""P@1 and reciprocal rank of the ideal item, worked by hand and by drawing every order."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.mimics_duo import ties
from cts_async.neighbours.mimics_duo.ties import expected_by_query, ideal_items, tied_lists

ITEMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5)
"""(score, label) of a query's items."""


def reached(scores: list[float], labels: list[float], query: list[int]) -> tuple[list[float], list[float]]:
    numbers = np.array(query)
    precision, reciprocal = expected_by_query(
        np.array(scores), ideal_items(np.array(labels), numbers), numbers
    )
    return precision.tolist(), reciprocal.tolist()


def test_the_ideal_item_first_and_third() -> None:
    assert reached([3, 2, 1, 3, 2, 1], [5, 1, 1, 0, 0, 9], [0, 0, 0, 1, 1, 1]) == (
        [1, 0],
        [1, pytest.approx(1 / 3)],
    )


def test_two_ideal_items_count_by_the_first() -> None:
    assert reached([3, 2, 1], [1, 4, 4], [0, 0, 0]) == ([0], [0.5])


def test_a_tie_is_the_mean_over_its_orders() -> None:
    """The ideal item is first, second or third of three: P@1 1/3, (1 + 1/2 + 1/3) / 3 = 11/18."""
    assert reached([7, 7, 7], [2, 1, 1], [0, 0, 0]) == ([pytest.approx(1 / 3)], [pytest.approx(11 / 18)])


def test_two_ideal_items_of_three_tied_after_a_better_one() -> None:
    """After one better item the first ideal one comes second in 2 of 3 orders, else third: 2/3 / 2 + 1/3 / 3 = 4/9."""
    assert reached([9, 7, 7, 7], [0, 2, 2, 1], [0] * 4) == ([0], [pytest.approx(4 / 9)])


def test_scores_that_differ_in_the_last_bit_are_tied() -> None:
    assert reached([0.1 + 0.2, 0.3], [1, 0], [0, 0]) == ([0.5], [0.75])


def test_many_rankings_are_scored_at_once() -> None:
    query = np.array([0, 0, 1, 1])
    is_ideal = np.array([True, False, False, True])
    precision, reciprocal = expected_by_query(np.array([[1, 0, 1, 0], [0, 1, 0, 1]]), is_ideal, query)
    assert precision.tolist() == [[1, 0], [0, 1]]
    assert reciprocal.tolist() == [[1, 0.5], [0.5, 1]]


@given(ITEMS)
def test_it_is_the_mean_over_all_orders_that_respect_the_scores(items: list[tuple[int, int]]) -> None:
    best = max(label for _, label in items)
    orders = [o for o in permutations(items) if all(a[0] >= b[0] for a, b in pairwise(o))]
    ranks = [next(i for i, (_, label) in enumerate(order, 1) if label == best) for order in orders]
    precision, reciprocal = reached([s for s, _ in items], [y for _, y in items], [0] * len(items))
    assert precision[0] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert reciprocal[0] == pytest.approx(np.mean([1 / rank for rank in ranks]))


@given(ITEMS, ITEMS)
def test_the_means_are_those_of_tie_chances(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    items, each = [*first, *second], np.array([len(first), len(second)])
    scores, labels = [s for s, _ in items], [y for _, y in items]
    precision, reciprocal = reached(scores, labels, np.repeat([0, 1], each).tolist())
    same = ties.expected(tied_lists(scores, labels, each), "any")
    assert np.mean(precision) == pytest.approx(same.p_at_1)
    assert np.mean(reciprocal) == pytest.approx(same.mrr)
