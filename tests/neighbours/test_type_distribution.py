"""Table 7 by hand."""

from __future__ import annotations

import pytest

from cts_async.neighbours.at_cot.generation import Best, Generated, type_distribution


def best(**points: float) -> dict[str, Best]:
    return {query: Best(one, "g", "a") for query, one in points.items()}


PREDICTED = {
    "a": Generated(("g",), ("semantic", "specify")),
    "b": Generated(("g",), ("specify",)),
    "c": Generated(("g",), ("specify", "specify")),
    "d": Generated(("g",)),
}


def test_shares_are_of_all_predictions_and_add_up_to_one() -> None:
    """Four predictions over three queries: semantic 1, specify 3; a type named twice counts once."""
    semantic, generalize, specify = type_distribution(PREDICTED)
    assert [(one.n, one.of) for one in (semantic, generalize, specify)] == [(1, 4), (0, 4), (3, 4)]
    assert [one.share for one in (semantic, generalize, specify)] == [0.25, 0.0, 0.75]


def test_gains_are_over_the_queries_with_the_type_and_both_scores() -> None:
    """specify: a +4, b -1 (c has no CoT score): mean 1.5; semantic: a alone."""
    found = type_distribution(PREDICTED, best(a=80, b=70, c=90, d=0), best(a=76, b=71, d=50))
    assert [(one.gain.n, one.gain.difference) for one in found] == [
        (1, pytest.approx(4.0)),
        (0, 0.0),
        (2, pytest.approx(1.5)),
    ]


def test_no_predictions_have_no_shares() -> None:
    assert {one.share for one in type_distribution({"d": PREDICTED["d"]})} == {None}
