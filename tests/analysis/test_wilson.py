"""Wilson's interval against published values and its laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.stats import Z, wilson


def test_no_trial_has_no_interval() -> None:
    assert wilson(0, 0) is None


def test_half_of_ten_by_hand() -> None:
    """Centre 1/2; half width = z sqrt(1/40 + z^2/400) / (1 + z^2/10), z^2 = 3.8415: 0.26340."""
    assert wilson(5, 10) == pytest.approx((0.236593, 0.763407), abs=1e-6)


def test_newcombe_1998_method_3() -> None:
    """Newcombe (1998), table I: 81 of 263 and 15 of 148."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)


def test_none_and_all_end_at_zero_and_one() -> None:
    spread = Z * Z / 20
    assert wilson(0, 20) == pytest.approx((0.0, spread / (1 + spread)))
    assert wilson(20, 20) == pytest.approx((1 / (1 + spread), 1.0))


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_rate_and_mirrors(counts: tuple[int, int]) -> None:
    known, n = counts
    low, high = wilson(known, n) or (1.0, 0.0)
    assert 0 <= low <= known / n <= high <= 1
    assert wilson(n - known, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)
