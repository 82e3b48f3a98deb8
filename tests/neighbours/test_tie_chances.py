"""The closed forms are what looking at every order of tied items gives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.mimics_duo.ties import Ideal, expected, rank_chances, tied_lists

IDEALS: tuple[Ideal, ...] = ("any", "one")
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5)


def every_rank(scores: Sequence[int], labels: Sequence[int], ideal: Ideal) -> Iterator[int]:
    """The rank of the ideal item for every order of the items that sorts the scores, each equally likely."""
    best = [i for i, label in enumerate(labels) if label == max(labels)]
    for order in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            ranks = [order.index(i) + 1 for i in best]
            yield from [min(ranks)] if ideal == "any" else ranks


def of(scores: Sequence[float], labels: Sequence[float], *sizes: int) -> tuple[float, float]:
    found = expected(tied_lists(scores, labels, np.array(sizes or [len(scores)])), "any")
    return found.p_at_1, found.mrr


@pytest.mark.parametrize("ideal", IDEALS)
@given(row=rows)
def test_one_list_is_the_mean_over_all_its_orders(row: list[tuple[int, int]], ideal: Ideal) -> None:
    scores, labels = zip(*row, strict=True)
    ranks = np.array(list(every_rank(scores, labels, ideal)))
    found = expected(tied_lists(scores, labels, np.array([len(row)])), ideal)
    assert found.p_at_1 == pytest.approx((ranks == 1).mean())
    assert found.mrr == pytest.approx((1 / ranks).mean())
    assert found.p_at_1_sd == pytest.approx((ranks == 1).std(), abs=1e-7)
    assert found.mrr_sd == pytest.approx((1 / ranks).std(), abs=1e-7)


@given(above=st.integers(0, 4), tied=st.integers(1, 8), data=st.data())
def test_chances_are_of_some_rank_for_sure(above: int, tied: int, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(1, tied))
    assert math.fsum(chance for _, chance in rank_chances(above, tied, wanted)) == pytest.approx(1)


def test_a_clear_first_place_is_certain() -> None:
    assert of([3, 2, 1], [9, 1, 1]) == (1.0, 1.0)


def test_the_ideal_pane_in_last_place_has_a_third() -> None:
    assert of([1, 2, 3], [9, 1, 1]) == (0.0, pytest.approx(1 / 3))


def test_a_random_order_of_three_finds_one_ideal_pane_first_in_a_third() -> None:
    """1/3 each for ranks 1, 2 and 3: (1 + 1/2 + 1/3) / 3 = 11/18."""
    assert of([0, 0, 0], [9, 1, 1]) == (pytest.approx(1 / 3), pytest.approx(11 / 18))


def test_two_ideal_panes_of_three_count_from_the_first() -> None:
    """Rank 1 in two cases of three, else rank 2: (2 + 1/2) / 3 = 5/6."""
    assert of([0, 0, 0], [9, 9, 1]) == (pytest.approx(2 / 3), pytest.approx(5 / 6))


def test_one_ideal_pane_drawn_of_two_is_as_good_as_one() -> None:
    found = expected(tied_lists([0, 0, 0], [9, 9, 1], np.array([3])), "one")
    assert (found.p_at_1, found.mrr) == (pytest.approx(1 / 3), pytest.approx(11 / 18))


def test_a_mean_over_queries_has_the_variance_of_its_parts() -> None:
    """Two lists of two tied items: P@1 1/2 each, variance (1/4 + 1/4) / 4 = 1/8."""
    found = expected(tied_lists([0, 0, 0, 0], [1, 0, 1, 0], np.array([2, 2])), "any")
    assert (found.p_at_1, found.p_at_1_sd) == (0.5, pytest.approx(math.sqrt(1 / 8)))
    assert (found.mrr, found.mrr_sd) == (0.75, pytest.approx(math.sqrt(1 / 8) / 2))


def test_no_query_has_no_expectation() -> None:
    assert math.isnan(expected(tied_lists([1, 1], [1, 0], np.array([2])).untied(), "any").mrr)
