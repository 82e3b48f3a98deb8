"""Pearson's r between labels, and the computation that gives the printed cells of engagement."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_panes import pane, panes_of

from cts_async.neighbours.mimics_duo.statistics import (
    MISALIGNED,
    label_correlations,
    option_reranking,
    pearson,
    sorted_within,
)


def test_r_is_one_for_a_line_up_and_minus_one_for_a_line_down() -> None:
    assert pearson(np.array([1, 2, 4]), np.array([3, 5, 9])) == pytest.approx(1)
    assert pearson(np.array([1, 2, 4]), np.array([9, 7, 3])) == pytest.approx(-1)


def test_r_by_hand() -> None:
    """Deviations (-1, 0, 1) and (-1, 1, 0): the sum of products is 1, both squares sum to 2, so r = 1/2."""
    assert pearson(np.array([1, 2, 3]), np.array([1, 3, 2])) == pytest.approx(0.5)


@pytest.mark.parametrize(("a", "b"), [([1, 1], [1, 2]), ([1, 2], [3, 3]), ([1], [2]), ([], [])])
def test_what_does_not_vary_has_no_correlation(a: list[int], b: list[int]) -> None:
    assert math.isnan(pearson(np.array(a), np.array(b)))


def test_sorting_within_queries_leaves_each_value_in_its_query() -> None:
    assert sorted_within(np.array([1, 3, 2, 0, 5]), np.array([3, 2])).tolist() == [3, 2, 1, 5, 0]


def test_engagement_is_taken_aligned_and_sorted_within_its_query() -> None:
    """Aligned, coverage falls as engagement rises; sorted in descending order beside it, it rises with it."""
    panes = [*panes_of("q1", [0, 2, 4], coverage=[5, 3, 1]), *panes_of("q2", [1, 3], coverage=[4, 2])]
    figures = label_correlations(panes)
    assert figures["Coverage", "Eng. Level"] == pytest.approx(-1)
    assert figures[MISALIGNED, "Coverage"] == pytest.approx(1)


def test_every_pair_is_there_once_and_seven_cells_again() -> None:
    figures = label_correlations(panes_of("q", [1, 2]))
    assert len(figures) == 28 + 7
    assert len({frozenset(pair) for pair in figures}) == 35


def test_options_are_compared_with_their_pane_and_with_their_clicks() -> None:
    """Mean labels 2 and 4 beside pane labels 1 and 5: r = 1. Labels 1, 3, 3, 5 beside clicks 1, 0, 0, 0:

    deviations (-2, 0, 0, 2) and (3/4, -1/4, -1/4, -1/4): products sum to -2, squares to 8 and 3/4, so r = -2 / sqrt(6).
    """
    panes = [
        pane("q", ("a", "b"), option_qualities=(1, 3), pane_quality=1, click_probabilities=(1.0, 0.0)),
        pane("q", ("c", "d"), option_qualities=(3, 5), pane_quality=5),
    ]
    figures = option_reranking(panes, draws=2)
    assert figures["Mean option quality", "r, pane quality"] == pytest.approx(1)
    assert figures["Options by quality", "r, clicks"] == pytest.approx(-2 / math.sqrt(8 * 0.75))
