"""Brier score and reliability worked by hand."""

from __future__ import annotations

import pytest
from made_interactions import row, system

from cts_async.analysis.ask_or_not import Bin, calibrate
from cts_async.analysis.resampling import Difference

RUN = system(
    1, row("a", "time+", 30.0), row("b", "time-", 10.0), row("c", "region-", 15.0), row("d", "region-")
)
PREDICTED = {"a": (0.75,), "b": (0.75,), "c": (0.2,), "d": (0.25,)}
ORIG = {"a": 10.0, "b": 10.0, "c": 10.0, "d": 10.0}


def test_four_questions_by_hand() -> None:
    """Errors 1/16, 9/16, 1/25, 1/16; one of four is known, so the reference is 3/16."""
    found = calibrate([RUN], [PREDICTED], ORIG)
    assert found is not None
    assert (found.n, found.reference) == (4, 3 / 16)
    assert found.brier == pytest.approx((11 / 16 + 1 / 25) / 4)
    assert found.skill == pytest.approx(1 - found.brier * 16 / 3)
    low, high = found.bins
    assert low == Bin(
        0.2, 0.3, n=2, predicted=pytest.approx(0.225), known=0, gain=Difference(1, 5.0, None, None)
    )
    assert (high.low, high.n, high.known, high.observed) == (0.7, 2, 1, 0.5)
    assert high.gain is not None
    assert (high.gain.n, high.gain.mean) == (2, 10.0)


def test_a_gain_belongs_to_one_question_and_so_is_given_at_one_question_only() -> None:
    two = system(2, row("a", "time+ time-", 30.0))
    found = calibrate([two], [{"a": (0.75, 0.75)}], ORIG)
    assert found is not None
    assert [bin.gain for bin in found.bins] == [None]


def test_certain_predictions_are_in_the_last_bin() -> None:
    found = calibrate([RUN], [dict.fromkeys("abcd", (1.0,))], {})
    assert found is not None
    assert [(bin.low, bin.high, bin.n) for bin in found.bins] == [(0.9, 1.0, 4)]


def test_where_all_is_known_there_is_no_skill_to_have() -> None:
    found = calibrate([system(1, row("a", "time+"))], [{"a": (0.5,)}], {})
    assert found is not None
    assert (found.reference, found.skill) == (0.0, None)


def test_nothing_asked_is_none() -> None:
    assert calibrate([system(1)], [{}], {}) is None
