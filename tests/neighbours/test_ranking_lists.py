"""Lists as arrays: where queries begin, what can be ranked in them, and which pairs they prefer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.mimics_duo.rankers import RankingLists, decided, preferences
from cts_async.neighbours.mimics_duo.ties import sizes, starts

QUERY = np.array([0, 0, 2, 2, 2, 5])
LABELS = np.array([1, 1, 3, 1, 3, 4])


def test_queries_begin_where_their_number_changes() -> None:
    assert starts(QUERY).tolist() == [0, 2, 5]
    assert sizes(QUERY).tolist() == [2, 3, 1]
    assert starts(np.zeros(0, int)).tolist() == sizes(np.zeros(0, int)).tolist() == []


def test_tied_queries_and_single_items_decide_nothing() -> None:
    assert decided(LABELS, QUERY).tolist() == [False, False, True, True, True, False]
    assert decided(np.zeros(0), np.zeros(0, int)).tolist() == []


def test_pairs_are_of_one_query_and_better_comes_first() -> None:
    better, worse = preferences(LABELS, QUERY)
    assert sorted(zip(better.tolist(), worse.tolist(), strict=True)) == [(2, 3), (4, 3)]


def test_lists_have_a_row_for_each_item_and_queries_together() -> None:
    with pytest.raises(ValueError, match="a row for each item"):
        RankingLists(np.zeros((2, 1)), np.zeros(2), np.zeros(3, int))
    with pytest.raises(ValueError, match="stand together"):
        RankingLists(np.zeros((3, 1)), np.zeros(3), np.array([0, 1, 0]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_every_pair_is_told_once(items: list[tuple[int, int]]) -> None:
    items = sorted(items, key=lambda item: item[0])
    query, labels = (np.array([item[place] for item in items], int) for place in (0, 1))
    wanted = [
        (i, j)
        for i in range(len(items))
        for j in range(len(items))
        if items[i][0] == items[j][0] and items[i][1] > items[j][1]
    ]
    better, worse = preferences(labels, query)
    assert sorted(zip(better.tolist(), worse.tolist(), strict=True)) == wanted
