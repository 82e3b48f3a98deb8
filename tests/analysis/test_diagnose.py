"""Gains of questions and answers, by hand and by simulation."""

from __future__ import annotations

import pytest
from made_interactions import row, system

from cts_async.analysis.diagnose import by_known_count, gain_per_question
from cts_async.analysis.resampling import Difference

RUN = system(
    2,
    row("a", "time- time-", 20.0),
    row("b", "time- time-", 20.0),
    row("c", "time+ time-", 50.0),
    row("d", "time+ time-"),  # not judged
    row("e", "time+ time-", 30.0),  # without a score of orig
)


def test_known_counts_have_scores_and_gains() -> None:
    none, one, two = by_known_count(RUN, {"a": 10.0, "b": 10.0, "c": 20.0, "d": 0.0})
    assert (none.known_cnt, none.n) == (0, 2)
    assert none.score == Difference(2, 20.0, 20.0, 20.0)
    assert none.gain == Difference(2, 10.0, 10.0, 10.0)
    assert (one.n, one.score and (one.score.n, one.score.mean)) == (3, (2, 40.0))
    assert one.gain == Difference(1, 30.0, None, None)
    assert (two.n, two.score, two.gain) == (0, None, None)


def test_known_counts_without_orig_have_no_gains() -> None:
    assert [found.gain for found in by_known_count(RUN, {})] == [None, None, None]


ORIG = dict.fromkeys("abcdef", 10.0)


def test_type_gain_at_one_question_is_mean_gain() -> None:
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


def test_type_gain_at_two_questions_is_least_squares() -> None:
    """gain(time, region) = 12, gain(time, time) = 20: beta(time) = 10, beta(region) = 2, without a residual."""
    rows = [row("a", "time+ region-", 22.0), row("b", "time+ time+", 30.0)]
    found = gain_per_question([system(2, *rows)], ORIG)
    assert found["time"].points == pytest.approx(10.0)
    assert found["region"].points == pytest.approx(2.0)


def test_type_gain_shares_residuals_by_normal_equations() -> None:
    """n = (1,1), (1,1), (2,0), gains 8, 16, 20: normal equations (6 2; 2 2) beta = (64, 24), so (10, 2)."""
    rows = [row("a", "time+ region-", 18.0), row("b", "time+ region-", 26.0), row("c", "time+ time+", 30.0)]
    found = gain_per_question([system(2, *rows)], ORIG)
    assert found["time"].points == pytest.approx(10.0)
    assert found["region"].points == pytest.approx(2.0)


def test_type_gain_resamples_rows_of_an_instance_together() -> None:
    """Two systems that gain 5 on a and 15 on b: resampled means are 5, 10 or 15, as with one system."""
    rows = [row("a", "time+", 15.0), row("b", "time+", 25.0)]
    found = gain_per_question([system(1, *rows), system(1, *rows, clarifier="kimi")], ORIG)
    assert (found["time"].n, found["time"].points) == (4, pytest.approx(10.0))
    assert (found["time"].low, found["time"].high) == (pytest.approx(5.0), pytest.approx(15.0))


def test_type_gain_ignores_instances_without_both_scores() -> None:
    rows = [row("a", "time+", 40.0), row("b", "region+"), row("x", "region+", 90.0)]
    assert list(gain_per_question([system(1, *rows)], ORIG)) == ["time"]
    assert gain_per_question([system(1, *rows)], {}) == {}


def test_type_gain_is_reproducible_by_seed() -> None:
    rows = [row(id, "time+", score) for id, score in zip("abcdef", (10, 20, 15, 70, 90, 0), strict=True)]
    first, again = (gain_per_question([system(1, *rows)], ORIG, seed=4) for _ in range(2))
    assert first == again
