"""Tables 8 and 9 of panes made by hand."""

from __future__ import annotations

import pytest
from made_panes import pane

from cts_async.neighbours.mimics_duo.statistics import aspect_distributions, quality_distributions

PANES = [
    pane("q", ("a", "b"), pane_quality=5, option_qualities=(1, 4), coverage=2),
    pane("q", ("a", "b", "c"), pane_quality=3, option_qualities=(3, 4, 2), coverage=2),
    pane("q", ("a", "b", "c", "d"), pane_quality=4, option_qualities=(5, 4, 4, 1), coverage=2),
]


def test_the_second_number_is_the_variance_not_its_root() -> None:
    """Labels 1, 3, 5: mean 3, variance (4 + 0 + 4) / 2 = 4, and a third each."""
    figures = quality_distributions(PANES)
    assert figures["Candidate Ans. #1", "mean"] == 3
    assert figures["Candidate Ans. #1", "var"] == 4
    assert [figures["Candidate Ans. #1", str(label)] for label in range(1, 6)] == [
        pytest.approx(100 / 3),
        0,
        pytest.approx(100 / 3),
        0,
        pytest.approx(100 / 3),
    ]


def test_an_option_that_is_missing_is_left_out() -> None:
    """The third option is there twice, with labels 2 and 4."""
    figures = quality_distributions(PANES)
    assert figures["Candidate Ans. #3", "mean"] == 3
    assert figures["Candidate Ans. #3", "var"] == 2


def test_a_position_that_no_pane_has_gives_no_row() -> None:
    rows = {row for row, _ in quality_distributions(PANES)}
    assert rows == {"Clarification Pane", *(f"Candidate Ans. #{i}" for i in (1, 2, 3, 4))}


def test_one_label_has_no_variance() -> None:
    figures = quality_distributions(PANES)
    assert figures["Candidate Ans. #4", "mean"] == figures["Candidate Ans. #4", "1"] / 100 == 1
    assert str(figures["Candidate Ans. #4", "var"]) == "nan"


def test_aspects_have_the_names_of_the_paper() -> None:
    figures = aspect_distributions(PANES)
    assert (figures["Coverage", "2"], figures["Coverage", "var"]) == (100, 0)
    assert list(dict.fromkeys(row for row, _ in figures)) == [
        "Coverage",
        "Diversity",
        "Understandability",
        "Can. Ans. Order",
    ]
