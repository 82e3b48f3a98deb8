"""Tables 7 and 11 of panes made by hand: what is ideal, what is untied, what is worst."""

from __future__ import annotations

import pytest
from made_panes import panes_of

from cts_async.neighbours.mimics_duo.panes import Pane
from cts_async.neighbours.mimics_duo.statistics import Figures, aspect_reranking, pane_reranking
from cts_async.neighbours.mimics_duo.ties import Measured

CLEAR = panes_of("clear", [5, 0, 0], offline_rating=[5, 3, 3], pane_quality=[1, 2, 3])
TIED_LABEL = panes_of("tied label", [0, 7, 0], offline_rating=[4, 4, 1], pane_quality=[1, 5, 1])
TIED_ENGAGEMENT = panes_of(
    "tied engagement", [3, 3, 0, 0], offline_rating=[1, 2, 3, 4], pane_quality=[4, 3, 2, 1]
)
PANES = [*CLEAR, *TIED_LABEL, *TIED_ENGAGEMENT]


def exact(figures: Figures, row: str, column: str) -> float:
    figure = figures[row, column]
    assert isinstance(figure, Measured)
    return figure.exact


@pytest.fixture(scope="module")
def table() -> Figures:
    return pane_reranking(PANES, draws=20)


def test_untied_queries_have_one_top_pane_in_both_lists(table: Figures) -> None:
    """By rating only the first query is so, by quality the first two."""
    assert (table["Offline Rating", "queries untied"], table["Offline Rating", "panes untied"]) == (1, 3)
    assert (table["Quality Labelling", "queries untied"], table["Quality Labelling", "panes untied"]) == (
        2,
        6,
    )


def test_a_rating_tied_at_the_top_is_right_half_the_time(table: Figures) -> None:
    """First for sure, first in half of the orders, and third: P@1 (1 + 1/2 + 0) / 3; MRR (1 + 3/4 + 1/3) / 3."""
    assert exact(table, "Offline Rating", "P@1 all") == pytest.approx(0.5)
    assert exact(table, "Offline Rating", "MRR all") == pytest.approx(25 / 36)


def test_one_ideal_pane_of_two_is_found_later(table: Figures) -> None:
    """The third query's ideal panes stand third and fourth: 1/3 or 1/4, 7/24 on average."""
    assert exact(table, "Offline Rating", "MRR all, one") == pytest.approx((1 + 3 / 4 + 7 / 24) / 3)


def test_quality_without_ties_is_certain(table: Figures) -> None:
    """Last of three, then first: P@1 1/2, MRR (1/3 + 1) / 2."""
    found = table["Quality Labelling", "MRR untied"]
    assert isinstance(found, Measured)
    assert (found.mean, found.sd, found.exact_sd) == (pytest.approx(2 / 3), pytest.approx(0), 0)
    assert exact(table, "Quality Labelling", "P@1 untied") == 0.5


def test_the_random_ranker_finds_k_of_n(table: Figures) -> None:
    """1/3, 1/3 and 2/4."""
    assert exact(table, "Random Ranker", "P@1 all") == pytest.approx(7 / 18)
    assert exact(table, "Random, by quality", "P@1 untied") == pytest.approx(1 / 3)


def test_the_spread_of_the_draws_stands_behind_their_mean(table: Figures) -> None:
    """One query of three panes: P@1 is 1 with chance 1/3, sd sqrt(2)/3."""
    assert exact(table, "Random, by rating", "sd of P@1 untied") == pytest.approx(2**0.5 / 3)


def test_the_worst_case_has_the_ideal_panes_last(table: Figures) -> None:
    """Ranks 3, 3 and, of two ideal panes in the last two places, 3. Untied by quality: 3 and 3."""
    assert exact(table, "Worst Possible Case", "P@1 all") == 0
    assert exact(table, "Worst Possible Case", "MRR all") == pytest.approx(1 / 3)
    assert exact(table, "Worst Possible Case", "MRR untied") == pytest.approx(1 / 3)


def test_without_an_untied_query_there_are_no_untied_figures() -> None:
    table = pane_reranking(TIED_ENGAGEMENT, draws=2)
    assert ("Offline Rating", "P@1 untied") not in table
    assert table["Offline Rating", "queries untied"] == 0


def aspects(**labels: list[int]) -> list[Pane]:
    return panes_of("q", [0, 9, 0], pane_quality=[5, 5, 1], offline_rating=[1, 2, 3], **labels)


def test_each_aspect_meets_three_ideal_rankings() -> None:
    """Coverage puts the second pane first: the most engaging one, one of the two best, second by rating."""
    table = aspect_reranking(aspects(coverage=[2, 3, 1]), draws=20)
    assert exact(table, "Coverage", "P@1 engagement") == 1
    assert exact(table, "Coverage", "P@1 quality") == 0.5
    assert exact(table, "Coverage", "MRR quality") == 0.75
    assert exact(table, "Coverage", "MRR rating") == pytest.approx(1 / 3)


def test_an_aspect_that_says_nothing_is_the_random_ranker() -> None:
    table = aspect_reranking(aspects(), draws=20)
    for column in ("P@1 engagement", "MRR quality"):
        assert exact(table, "Diversity", column) == exact(table, "Random Ranker", column)
