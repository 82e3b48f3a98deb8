"""How long work will take yet, worked out by hand."""

from __future__ import annotations

import pytest

from cts_async.report.pace import Pace


def walked(pace: Pace, job: str, steps: int, *, replayed: int = 0) -> None:
    """A job of so many steps, the first `replayed` of them remembered, from its beginning to its end."""
    for n in range(steps):
        pace.stepped(job, replayed=n < replayed)
    pace.ended(job)


def begun(now: float = 0.0) -> Pace:
    pace = Pace()
    pace.began(now)
    return pace


def test_nothing_is_said_before_three_jobs_have_ended() -> None:
    pace = begun()
    assert pace.left_s(10, 5.0) is None
    for n in range(2):
        walked(pace, str(n), 4)
    assert pace.left_s(8, 10.0) is None
    walked(pace, "2", 4)
    # 3 jobs of 5 (four steps, and ending) in 15 s are one a second; 7 jobs of 5 are left.
    assert pace.left_s(7, 15.0) == pytest.approx(35.0)


def test_where_there_are_few_jobs_a_third_of_them_is_enough() -> None:
    pace = begun()
    assert pace.left_s(3, 5.0) is None
    walked(pace, "0", 1)
    assert pace.left_s(2, 10.0) == pytest.approx(20.0)


def test_steps_of_jobs_under_way_are_done_already() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4)
    for _ in range(3):
        pace.stepped("under way", replayed=False)
    # 18 steps in 18 s; two jobs of 5 are left, 3 of their 10 steps are done.
    assert pace.left_s(2, 18.0) == pytest.approx(7.0)


def test_a_job_that_is_longer_than_most_is_as_good_as_done() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4)
    for _ in range(30):
        pace.stepped("long", replayed=False)
    # 45 steps in 45 s; of its 5 only its end is left.
    assert pace.left_s(1, 45.0) == pytest.approx(1.0)


def test_what_was_remembered_is_no_pace() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4, replayed=3)
    # Of 15 steps 6 took 12 s: two seconds each; the four jobs that are left have 5 each.
    assert pace.left_s(4, 12.0) == pytest.approx(40.0)


def test_an_outage_is_no_part_of_it_and_while_it_lasts_nobody_knows() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4)
    pace.hold(15.0, held=True)
    assert pace.left_s(7, 500.0) is None
    pace.hold(600.0, held=True)
    pace.hold(1000.0, held=False)
    assert pace.left_s(7, 1000.0) == pytest.approx(35.0)


def test_after_a_while_it_is_the_pace_of_late() -> None:
    pace = begun()
    for second in range(1, 101):  # a job of two a second ...
        walked(pace, f"quick {second}", 1)
        pace.left_s(1000, float(second))
    for second in range(110, 301, 10):  # ... then one every ten seconds
        walked(pace, f"slow {second}", 1)
        left = pace.left_s(60, float(second))
    assert left == pytest.approx(600.0, rel=0.05)


def test_nothing_left_takes_no_time() -> None:
    assert Pace().left_s(0, 1.0) == 0.0
    assert Pace().left_s(5, 1.0) is None


def test_steps_and_jobs_counted_in_bulk_make_the_same_pace() -> None:
    pace = begun()
    pace.counted(12)
    pace.ended_in_bulk(3, executed=12, steps=12)
    # As above: 3 jobs of 5 in 15 s are one a second; 7 jobs of 5 are left.
    assert pace.left_s(7, 15.0) == pytest.approx(35.0)


def test_steps_in_bulk_of_jobs_under_way_count_when_they_are_told_and_once() -> None:
    pace = begun()
    pace.ended_in_bulk(3, executed=12, steps=12)
    pace.counted(27)
    # 27 steps and 3 ends in 15 s are two a second; of jobs under way nobody knows how far each is.
    assert pace.left_s(6, 15.0) == pytest.approx(15.0)
    pace.ended_in_bulk(1, executed=4, steps=4)
    assert pace.left_s(5, 15.5) == pytest.approx(12.5)


def test_what_was_remembered_is_no_pace_in_bulk_either() -> None:
    pace = begun()
    pace.ended_in_bulk(3, executed=3, steps=12)
    assert pace.left_s(4, 12.0) == pytest.approx(40.0)
