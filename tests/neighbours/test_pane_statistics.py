"""Table 6 of panes made by hand."""

from __future__ import annotations

import pytest
from made_panes import pane, panes_of

from cts_async.neighbours.mimics_duo.statistics import column, option_counts, pane_statistics, query_sizes

PANES = [*panes_of("q1", [0, 3, 1]), pane("q2", ("a", "b", "c", "d", "e"))]


def test_columns_follow_the_panes() -> None:
    assert column(PANES, "engagement_level").tolist() == [0, 3, 1, 0]
    assert query_sizes(PANES).tolist() == [3, 1]
    assert option_counts(PANES).tolist() == [2, 2, 2, 5]


def test_no_pane_has_no_query() -> None:
    assert query_sizes([]).tolist() == []


def test_means_and_deviations_are_over_queries_and_over_panes() -> None:
    """Queries have 3 and 1 panes: mean 2, sd sqrt(2). Panes have 2, 2, 2, 5 options: mean 2.75, sd 1.5."""
    figures = pane_statistics(PANES)
    assert figures["Queries", "number"] == 2
    assert figures["Query-clarification pairs", "number"] == 4
    assert figures["Clarifications per query", "mean"] == 2
    assert figures["Clarifications per query", "sd"] == pytest.approx(2**0.5)
    assert figures["Candidate answers", "mean"] == 2.75
    assert figures["Candidate answers", "sd"] == 1.5
    assert (figures["Candidate answers", "min"], figures["Candidate answers", "max"]) == (2, 5)


def test_one_query_alone_has_no_deviation() -> None:
    assert str(pane_statistics(panes_of("q", [1]))["Clarifications per query", "sd"]) == "nan"
