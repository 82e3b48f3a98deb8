"""Section 7's correlation: by hand, and from the paper's own tables."""

from __future__ import annotations

import pytest

from cts_async.neighbours.at_cot.generation import Best, Correlation, alignment, pearson


def test_the_papers_own_tables_give_another_correlation_than_it_prints() -> None:
    """Table 5 (Qulac) and table 8 (TREC 09-12, respond, turn 1); printed are r = 0.92 and p = 0.08."""
    found = pearson([77.9, 77.0, 79.2, 80.6], [0.232, 0.230, 0.238, 0.244])
    assert (found.n, round(found.r or 0, 3), round(found.p or 0, 3)) == (4, 0.994, 0.006)


def test_what_is_printed_fits_itself() -> None:
    """With n = 4 the t distribution has 2 degrees of freedom, where p = 1 - |r|: 0.92 goes with 0.08."""
    found = pearson([0, 1, 2, 3], [0, 3, 1, 2])
    assert (found.r, found.p) == (pytest.approx(0.4), pytest.approx(0.6))


def test_two_points_show_nothing_and_a_constant_has_no_correlation() -> None:
    assert pearson([1, 2], [5, 3]) == Correlation(2, pytest.approx(-1.0), 1.0)
    assert pearson([1, 1, 1], [1, 2, 3]) == Correlation(3, None, None)
    assert pearson([1], [1]) == Correlation(1, None, None)
    assert pearson([1, 2, 3], [2, 4, 6]) == Correlation(3, 1.0, 0.0)


def scores(**points: float) -> dict[str, Best]:
    return {query: Best(one, "g", "a") for query, one in points.items()}


def test_schemes_and_queries_are_aligned_by_hand() -> None:
    """cot retrieves (0.1 + 0.3 + 0.5) / 3 over its intents; over queries it has (60, 0.2) and (80, 0.5)."""
    generated = {"standard": scores(a=50, b=60), "cot": scores(a=60, b=80), "at-cot": scores(a=90)}
    retrieval = {"standard": {"a": [0.2], "b": [0.2]}, "cot": {"a": [0.1, 0.3], "b": [0.5], "c": []}}
    found = alignment(generated, retrieval)
    assert [(one.scheme, one.generation, one.retrieval) for one in found.schemes] == [
        ("standard", 55.0, pytest.approx(0.2)),
        ("cot", 70.0, pytest.approx(0.3)),
    ]
    assert found.over_schemes == Correlation(2, 1.0, 1.0)
    assert [one.over_queries.r for one in found.schemes] == [None, pytest.approx(1.0)]
