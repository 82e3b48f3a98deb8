"""Which items are ideal, which are level, and which queries have no tie at the top."""

from __future__ import annotations

import numpy as np
import pytest

from cts_async.neighbours.mimics_duo.ties import tied_lists, unscored

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
