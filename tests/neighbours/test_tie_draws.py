"""Ties broken at random: the same numbers for the same seed, and on average what the closed forms say."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.mimics_duo import ties
from cts_async.neighbours.mimics_duo.ties import Ideal, TiedLists, drawn, expected, rerank, tied_lists

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


def test_the_same_seed_gives_the_same_draws_and_another_gives_others() -> None:
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
def test_nothing_to_draw_is_refused(draws: int) -> None:
    lists = some_lists([[(0, 1), (0, 0)]])
    with pytest.raises(ValueError, match="a list and a draw"):
        drawn(lists if draws == 0 else lists.untied(), "any", draws=draws)


def test_a_reranking_has_draws_and_expectations_side_by_side() -> None:
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
