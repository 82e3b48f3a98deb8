"""A far clock is known within bounds, whatever the way there and back takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.cluster.far_clock import SURE, FarClock

TRIPS = st.lists(st.tuples(st.floats(0, 0.2), st.floats(0, 1), st.floats(0, 0.2)), min_size=1, max_size=30)


def test_one_exchange_gives_both_bounds() -> None:
    # Sent at 10.0 and back at 10.6; there it was 110.2 and 110.4. So it is 99.8 to 100.2 ahead.
    clock = FarClock()
    clock.heard(10.0, 110.2, 110.4, 10.6)
    assert clock.latest_there(20.0) == pytest.approx(120.2, abs=1e-3)
    assert clock.surely_before(120.2) == pytest.approx(20.0, abs=1e-3)
    assert clock.surely_after(119.8) == pytest.approx(20.0, abs=1e-3)
    assert clock.about(120.0) == pytest.approx(20.0, abs=1e-3)
    assert clock.trip_s == pytest.approx(0.4)


def test_the_quickest_exchange_counts() -> None:
    clock = FarClock()
    clock.heard(0.0, 100.5, 100.5, 1.0)
    clock.heard(1.0, 101.01, 101.01, 1.02)
    clock.heard(2.0, 102.5, 102.5, 3.0)
    assert clock.latest_there(3.0) == pytest.approx(103.01, abs=0.001)


def test_nothing_is_known_before_the_first_exchange() -> None:
    clock = FarClock()
    assert not clock.known
    clock.heard(0.0, 1.0, 1.0, 0.1)
    assert clock.known
    assert not clock.sure
    for _ in range(SURE - 1):
        clock.heard(0.0, 1.0, 1.0, 0.1)
    assert clock.sure


@given(st.floats(-1e4, 1e4), st.floats(-5e-5, 5e-5), TRIPS)
def test_the_truth_lies_within_the_bounds(
    ahead: float, drift: float, trips: list[tuple[float, float, float]]
) -> None:
    """The far clock is `ahead` and runs faster by `drift`."""
    clock, now = FarClock(), 0.0

    def there(here: float) -> float:
        return here * (1.0 + drift) + ahead

    for out_s, held_s, back_s in trips:
        sent_at = now
        now += out_s + held_s + back_s
        clock.heard(sent_at, there(sent_at + out_s), there(now - back_s), now)
        assert clock.latest_there(now) >= there(now) - 1e-6
        assert clock.surely_before(there(now)) <= now + 1e-6
        assert clock.surely_after(there(now)) >= now - 1e-6
        assert abs(clock.about(there(now)) - now) <= 0.21
