"""Concurrency doubles each round trip, then grows by one, and is cut once per episode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.engine.concurrency import ConcurrencyWindow


def round_trip(window: ConcurrencyWindow) -> float:
    """As many answers as the window holds; gives its size then."""
    under_way = int(window.size)
    for _ in range(under_way):
        window.answered(under_way)
    return window.size


def test_slow_start_doubles_each_round_trip_up_to_the_ceiling() -> None:
    window = ConcurrencyWindow(50, known=False)
    assert [round_trip(window) for _ in range(4)] == [16, 32, 50, 50]


def test_where_the_limits_are_known_there_is_nothing_to_find() -> None:
    assert ConcurrencyWindow(50, known=True).size == 50


def test_above_the_threshold_it_grows_by_one_each_round_trip() -> None:
    window = ConcurrencyWindow(100, known=False)
    window.size = 40.0
    window.refused(40)
    assert window.size == 20
    assert [round_trip(window) for _ in range(3)] == pytest.approx([21, 22, 23], abs=0.2)


def test_after_a_pause_one_asks_and_then_it_doubles_up_to_what_was_half_of_too_much() -> None:
    window = ConcurrencyWindow(100, known=False)
    window.size = 32.0
    window.refused(32)
    window.restart()
    assert [round_trip(window) for _ in range(5)] == pytest.approx([2, 4, 8, 16, 17], abs=0.1)


def test_a_window_that_is_not_used_does_not_grow() -> None:
    window = ConcurrencyWindow(100, known=False)
    for _ in range(50):
        window.answered(2)
    assert window.size == 8


def test_a_refusal_among_few_cuts_to_half_of_those_few() -> None:
    window = ConcurrencyWindow(100, known=True)
    window.refused(10)
    assert window.size == 5


@given(st.lists(st.sampled_from(["answered", "refused", "gently", "restart", "reopen"]), max_size=200))
def test_it_never_leaves_its_bounds(happened: list[str]) -> None:
    window = ConcurrencyWindow(37, known=False)
    for what in happened:
        if what == "answered":
            window.answered(int(window.size))
        elif what == "restart":
            window.restart()
        elif what == "reopen":
            window.reopen(known=False)
        else:
            window.refused(int(window.size), gently=what == "gently")
        assert 1 <= window.size <= 37
