"""P@1 and MRR with ties: by hand, by all orders, and drawn around the exact values."""

from __future__ import annotations

import math
import tracemalloc
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
    rank_chances,
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


def test_untied_queries_have_one_best_item_and_one_ideal_one() -> None:
    tied_label = [1, 2, 3, 3, 0]
    tied_score = [1, 2, 3, 3, 0]
    clear = [1, 2, 3, 1, 0]
    assert tied_lists(clear, clear, SIZES).untied().queries == 2
    assert tied_lists(clear, tied_label, SIZES).untied().items == 2
    assert tied_lists(tied_score, clear, SIZES).untied().items == 2


def test_ties_below_the_top_do_not_count() -> None:
    assert tied_lists([3, 1, 1], [0, 0, 5], np.array([3])).untied().queries == 1


def test_without_scores_all_items_are_level() -> None:
    lists = unscored(tied_lists([1, 2, 3, 4, 5], [1, 2, 3, 3, 0], SIZES))
    assert lists.levels.tolist() == [[0, 0, -1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("scores", "labels", "sizes"),
    [([1], [1, 2], [2]), ([1, 2], [1, 2], [3]), ([1, 2], [1, 2], [2, 0]), ([1, float("nan")], [1, 2], [2])],
)
def test_lists_that_do_not_fit_are_refused(
    scores: list[float], labels: list[float], sizes: list[int]
) -> None:
    with pytest.raises(ValueError, match="must"):
        tied_lists(scores, labels, np.array(sizes))


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
    seen, exact = drawn(lists, ideal, draws=4000), expected(lists, ideal)
    margin = 6 / np.sqrt(4000)
    assert abs(seen.p_at_1.mean() - exact.p_at_1) <= margin * exact.p_at_1_sd + 1e-9
    assert abs(seen.mrr.mean() - exact.mrr) <= margin * exact.mrr_sd + 1e-7


@pytest.mark.parametrize("ideal", IDEALS)
def test_without_ties_every_draw_is_the_same(ideal: Ideal) -> None:
    lists = some_lists([[(2, 0), (1, 5), (0, 1)], [(1, 1), (2, 2)]])
    seen = drawn(lists, ideal, draws=50)
    assert (set(seen.p_at_1), set(seen.mrr)) == ({0.5}, {0.75})


def test_same_seed_gives_the_same_draws_and_another_gives_others() -> None:
    lists = some_lists([[(0, 1), (0, 0), (0, 0)]] * 20)
    again = [drawn(lists, "any", seed=seed).mrr for seed in (1, 1, 2)]
    assert (again[0] == again[1]).all()
    assert (again[0] != again[2]).any()


def test_more_draws_than_fit_one_block_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "_NUMBERS_AT_ONCE", 10)
    assert drawn(some_lists([[(0, 1), (0, 0)]] * 3), "one", draws=7).mrr.shape == (7,)


def test_memory_does_not_grow_with_the_draws() -> None:
    """The ranks of 20,000 draws of 300 lists would be 48 MB."""
    lists = some_lists([[(0, 1), (0, 0)]] * 300)
    tracemalloc.start()
    drawn(lists, "any", draws=20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


@pytest.mark.parametrize("draws", [0, 5])
def test_drawing_without_lists_or_draws_is_refused(draws: int) -> None:
    lists = some_lists([[(0, 1), (0, 0)]])
    with pytest.raises(ValueError, match="a list and a draw"):
        drawn(lists if draws == 0 else lists.untied(), "any", draws=draws)


def test_reranking_has_draws_and_expectations_side_by_side() -> None:
    """A pair of tied items: the ideal one is first in half of the orders, else second."""
    found = rerank(some_lists([[(0, 1), (0, 0)]]), draws=1000)
    assert found is not None
    assert (found.queries, found.items) == (1, 2)
    assert (found.p_at_1.exact, found.p_at_1.exact_sd) == (0.5, 0.5)
    assert (found.mrr.exact, found.mrr.exact_sd) == (0.75, 0.25)
    assert found.measure("MRR").mean == pytest.approx(0.75, abs=6 * 0.25 / np.sqrt(1000))
    assert found.measure("P@1").sd == pytest.approx(0.5, rel=0.05)


def test_no_query_is_no_reranking() -> None:
    assert rerank(some_lists([[(0, 1), (0, 0)]]).untied()) is None


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


def test_clear_first_place_is_certain() -> None:
    assert of([3, 2, 1], [9, 1, 1]) == (1.0, 1.0)


def test_ideal_pane_in_last_place_has_a_third() -> None:
    assert of([1, 2, 3], [9, 1, 1]) == (0.0, pytest.approx(1 / 3))


def test_random_order_of_three_finds_one_ideal_pane_first_in_a_third() -> None:
    """1/3 each for ranks 1, 2 and 3: (1 + 1/2 + 1/3) / 3 = 11/18."""
    assert of([0, 0, 0], [9, 1, 1]) == (pytest.approx(1 / 3), pytest.approx(11 / 18))


def test_two_ideal_panes_of_three_count_from_the_first() -> None:
    """Rank 1 in two cases of three, else rank 2: (2 + 1/2) / 3 = 5/6."""
    assert of([0, 0, 0], [9, 9, 1]) == (pytest.approx(2 / 3), pytest.approx(5 / 6))


def test_one_ideal_pane_drawn_of_two_is_as_good_as_one() -> None:
    found = expected(tied_lists([0, 0, 0], [9, 9, 1], np.array([3])), "one")
    assert (found.p_at_1, found.mrr) == (pytest.approx(1 / 3), pytest.approx(11 / 18))


def test_mean_over_queries_has_the_variance_of_its_parts() -> None:
    """Two lists of two tied items: P@1 1/2 each, variance (1/4 + 1/4) / 4 = 1/8."""
    found = expected(tied_lists([0, 0, 0, 0], [1, 0, 1, 0], np.array([2, 2])), "any")
    assert (found.p_at_1, found.p_at_1_sd) == (0.5, pytest.approx(math.sqrt(1 / 8)))
    assert (found.mrr, found.mrr_sd) == (0.75, pytest.approx(math.sqrt(1 / 8) / 2))


def test_no_query_has_no_expectation() -> None:
    assert math.isnan(expected(tied_lists([1, 1], [1, 0], np.array([2])).untied(), "any").mrr)


ITEMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5)
"""(score, label) of a query's items."""


def reached(scores: list[float], labels: list[float], query: list[int]) -> tuple[list[float], list[float]]:
    numbers = np.array(query)
    precision, reciprocal = expected_by_query(
        np.array(scores), ideal_items(np.array(labels), numbers), numbers
    )
    return precision.tolist(), reciprocal.tolist()


def test_ideal_item_first_and_third() -> None:
    assert reached([3, 2, 1, 3, 2, 1], [5, 1, 1, 0, 0, 9], [0, 0, 0, 1, 1, 1]) == (
        [1, 0],
        [1, pytest.approx(1 / 3)],
    )


def test_two_ideal_items_count_by_the_first() -> None:
    assert reached([3, 2, 1], [1, 4, 4], [0, 0, 0]) == ([0], [0.5])


def test_tie_is_the_mean_over_its_orders() -> None:
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
def test_means_are_those_of_tie_chances(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    items, each = [*first, *second], np.array([len(first), len(second)])
    scores, labels = [s for s, _ in items], [y for _, y in items]
    precision, reciprocal = reached(scores, labels, np.repeat([0, 1], each).tolist())
    same = ties.expected(tied_lists(scores, labels, each), "any")
    assert np.mean(precision) == pytest.approx(same.p_at_1)
    assert np.mean(reciprocal) == pytest.approx(same.mrr)
