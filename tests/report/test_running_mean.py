"""The mean of scores with its interval, against hand calculation and scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cts_async.report.pace import RunningMean, t_975


def test_three_scores_worked_by_hand() -> None:
    mean = RunningMean()
    mean.add([40.0])
    assert (mean.mean, mean.interval()) == (40.0, None)
    mean.add([50.0, 60.0])
    # s = 10, s / sqrt(3) = 5.7735, t(2) = 4.3027: 50 ± 24.84
    assert mean.mean == 50.0
    assert mean.interval() == pytest.approx((25.16, 74.84), abs=0.01)


def test_equal_scores_leave_no_doubt() -> None:
    mean = RunningMean()
    mean.add([100.0] * 5)
    assert mean.interval() == (100.0, 100.0)


def test_no_scores_have_no_interval() -> None:
    assert RunningMean().interval() is None


@pytest.mark.parametrize("df", [1, 2, 5, 10, 11, 12, 17, 30, 100, 10_000])
def test_student_s_t_is_scipy_s(df: int) -> None:
    assert t_975(df) == pytest.approx(float(stats.t.ppf(0.975, df)), abs=2e-4)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=40), st.integers(0, 40))
def test_it_does_not_matter_how_the_scores_come_in(scores: list[float], cut: int) -> None:
    at_once, in_parts = RunningMean(), RunningMean()
    at_once.add(scores)
    in_parts.add(scores[:cut])
    in_parts.add(scores[cut:])
    low, high = at_once.interval() or (0.0, 0.0)
    assert in_parts.interval() == (low, high)
    assert low <= at_once.mean <= high
    assert at_once.mean == pytest.approx(sum(scores) / len(scores))
