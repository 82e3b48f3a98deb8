"""Arithmetic of progress: growth in the last minute, running mean, time left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cts_async.report.progress import LastMinute, Pace, RunningMean, t_975


def test_growth_before_the_last_minute_is_excluded() -> None:
    sent = LastMinute(0.0, 0)
    for second in range(1, 301):  # two a second
        grown = sent.grown(float(second), 2 * second)
    assert grown == 120
    # A pause: nothing is added for a minute.
    assert sent.grown(360.0, 600) == 0


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


def walked(pace: Pace, job: str, steps: int, *, replayed: int = 0) -> None:
    """A job of so many steps, the first `replayed` of them remembered, from its beginning to its end."""
    for n in range(steps):
        pace.stepped(job, replayed=n < replayed)
    pace.ended(job)


def begun(now: float = 0.0) -> Pace:
    pace = Pace()
    pace.began(now)
    return pace


def test_steps_of_jobs_under_way_are_done_already() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4)
    for _ in range(3):
        pace.stepped("under way", replayed=False)
    # 18 steps in 18 s; two jobs of 5 are left, 3 of their 10 steps are done.
    assert pace.left_s(2, 18.0) == pytest.approx(7.0)


def test_replayed_steps_do_not_count_towards_the_pace() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4, replayed=3)
    # Of 15 steps 6 took 12 s: two seconds each; the four jobs that are left have 5 each.
    assert pace.left_s(4, 12.0) == pytest.approx(40.0)


def test_after_a_while_it_is_the_pace_of_late() -> None:
    pace = begun()
    for second in range(1, 101):  # a job of two a second ...
        walked(pace, f"quick {second}", 1)
        pace.left_s(1000, float(second))
    for second in range(110, 301, 10):  # ... then one every ten seconds
        walked(pace, f"slow {second}", 1)
        left = pace.left_s(60, float(second))
    assert left == pytest.approx(600.0, rel=0.05)


def test_bulk_steps_of_active_jobs_count_once() -> None:
    pace = begun()
    pace.ended_in_bulk(3, executed=12, steps=12)
    pace.counted(27)
    # 27 steps and 3 ends in 15 s are two a second; of jobs under way nobody knows how far each is.
    assert pace.left_s(6, 15.0) == pytest.approx(15.0)
    pace.ended_in_bulk(1, executed=4, steps=4)
    assert pace.left_s(5, 15.5) == pytest.approx(12.5)
