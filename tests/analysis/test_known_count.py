"""Scores by the number of known answers, worked by hand."""

from __future__ import annotations

from made_interactions import row, system

from cts_async.analysis.diagnose import by_known_count
from cts_async.analysis.resampling import Difference

RUN = system(
    2,
    row("a", "time- time-", 20.0),
    row("b", "time- time-", 20.0),
    row("c", "time+ time-", 50.0),
    row("d", "time+ time-"),  # not judged
    row("e", "time+ time-", 30.0),  # without a score of orig
)


def test_scores_and_gains_of_each_class() -> None:
    none, one, two = by_known_count(RUN, {"a": 10.0, "b": 10.0, "c": 20.0, "d": 0.0})
    assert (none.known_cnt, none.n) == (0, 2)
    assert none.score == Difference(2, 20.0, 20.0, 20.0)
    assert none.gain == Difference(2, 10.0, 10.0, 10.0)
    assert (one.n, one.score and (one.score.n, one.score.mean)) == (3, (2, 40.0))
    assert one.gain == Difference(1, 30.0, None, None)
    assert (two.n, two.score, two.gain) == (0, None, None)


def test_without_orig_there_are_scores_and_no_gains() -> None:
    assert [found.gain for found in by_known_count(RUN, {})] == [None, None, None]
