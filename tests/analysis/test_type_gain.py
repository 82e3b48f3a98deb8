"""Gain per question of each type: at k = 1 a mean, else least squares, both worked by hand."""

from __future__ import annotations

import pytest
from made_interactions import row, system

from cts_async.analysis.diagnose import gain_per_question

ORIG = dict.fromkeys("abcdef", 10.0)


def test_at_one_question_it_is_the_mean_gain_of_the_instances_asked_that_type() -> None:
    """Time gains 30 and 10, region 0 and 6."""
    rows = [
        row("a", "time+", 40.0),
        row("b", "time-", 20.0),
        row("c", "region-", 10.0),
        row("d", "region+", 16.0),
    ]
    found = gain_per_question([system(1, *rows)], ORIG)
    assert list(found) == ["time", "region"]
    assert (found["time"].n, found["time"].points) == (2, pytest.approx(20.0))
    assert (found["region"].n, found["region"].points) == (2, pytest.approx(3.0))
    assert (found["region"].low, found["region"].high) == (pytest.approx(0.0), pytest.approx(6.0))


def test_at_two_questions_it_is_least_squares() -> None:
    """gain(time, region) = 12, gain(time, time) = 20: beta(time) = 10, beta(region) = 2, without a residual."""
    rows = [row("a", "time+ region-", 22.0), row("b", "time+ time+", 30.0)]
    found = gain_per_question([system(2, *rows)], ORIG)
    assert found["time"].points == pytest.approx(10.0)
    assert found["region"].points == pytest.approx(2.0)


def test_a_residual_is_shared_as_the_normal_equations_say() -> None:
    """n = (1,1), (1,1), (2,0), gains 8, 16, 20: normal equations (6 2; 2 2) beta = (64, 24), so (10, 2)."""
    rows = [row("a", "time+ region-", 18.0), row("b", "time+ region-", 26.0), row("c", "time+ time+", 30.0)]
    found = gain_per_question([system(2, *rows)], ORIG)
    assert found["time"].points == pytest.approx(10.0)
    assert found["region"].points == pytest.approx(2.0)


def test_the_rows_of_an_instance_are_resampled_together() -> None:
    """Two systems that gain 5 on a and 15 on b: resampled means are 5, 10 or 15, as with one system."""
    rows = [row("a", "time+", 15.0), row("b", "time+", 25.0)]
    found = gain_per_question([system(1, *rows), system(1, *rows, clarifier="kimi")], ORIG)
    assert (found["time"].n, found["time"].points) == (4, pytest.approx(10.0))
    assert (found["time"].low, found["time"].high) == (pytest.approx(5.0), pytest.approx(15.0))


def test_what_is_not_judged_in_both_takes_no_part() -> None:
    rows = [row("a", "time+", 40.0), row("b", "region+"), row("x", "region+", 90.0)]
    assert list(gain_per_question([system(1, *rows)], ORIG)) == ["time"]
    assert gain_per_question([system(1, *rows)], {}) == {}


def test_the_same_seed_gives_the_same_interval() -> None:
    rows = [row(id, "time+", score) for id, score in zip("abcdef", (10, 20, 15, 70, 90, 0), strict=True)]
    first, again = (gain_per_question([system(1, *rows)], ORIG, seed=4) for _ in range(2))
    assert first == again
