"""The frontier of asking less, worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_interactions import row, system

from cts_async.analysis.ask_or_not import Frontier, Point, ask_or_not, fold_of
from cts_async.analysis.interactions import Interactions


def made(asked: Sequence[float], ids: Sequence[str] = "abcd") -> Interactions:
    return system(1, *(row(id, "time+", score) for id, score in zip(ids, asked, strict=True)))


def frontier(asked: Sequence[float], chances: Sequence[float], unasked: Sequence[float]) -> Frontier:
    ids = "abcd"[: len(asked)]
    orig = dict(zip(ids, unasked, strict=True))
    found = ask_or_not(made(asked, ids), {id: (p,) for id, p in zip(ids, chances, strict=True)}, orig)
    assert found is not None
    return found


def test_four_instances_by_hand() -> None:
    """Asking gains 40 on a, 20 on b, and loses 10 on c and d; c and d share a prediction."""
    found = frontier([50, 30, 0, 0], [0.9, 0.6, 0.1, 0.1], [10, 10, 10, 10])
    assert found.points == (
        Point(None, 0.0, 10.0),
        Point(0.9, 0.25, 20.0),
        Point(0.6, 0.5, 25.0),
        Point(0.1, 1.0, 20.0),
    )
    assert (found.n, found.never.mean_score, found.always.mean_score) == (4, 10.0, 20.0)
    assert found.best == Point(0.6, 0.5, 25.0)


def test_the_area_is_the_height_above_asking_at_random() -> None:
    """Heights above the line from 10 to 20: 0, 7.5, 10, 0 at 0, 1/4, 1/2, 1: 0.9375 + 2.1875 + 2.5."""
    found = frontier([50, 30, 0, 0], [0.9, 0.6, 0.1, 0.1], [10, 10, 10, 10])
    assert found.area == pytest.approx(0.9375 + 2.1875 + 2.5)


def test_predictions_that_say_nothing_have_no_area() -> None:
    found = frontier([50, 30, 0, 0], [0.4] * 4, [10] * 4)
    assert found.area == pytest.approx(0.0)
    assert [point.share_asked for point in found.points] == [0.0, 1.0]


def test_where_asking_always_loses_it_is_best_never_to_ask() -> None:
    found = frontier([0, 5], [0.9, 0.1], [10, 10])
    assert found.best == found.never == Point(None, 0.0, 10.0)


def test_of_equal_scores_the_one_that_asks_less_is_best() -> None:
    assert frontier([30, 10], [0.9, 0.1], [10, 10]).best == Point(0.9, 0.5, 20.0)


def test_a_threshold_is_judged_on_instances_it_was_not_chosen_on() -> None:
    """a is asked by a threshold learned on b and c, where asking at 0.9 pays; they by one learned on a, which loses."""
    ids = [next(f"q{i}" for i in range(1000) if fold_of(f"q{i}", 0) == fold) for fold in (0, 1)]
    run = system(1, row(ids[0], "time+", 0.0), row(ids[1], "time+", 30.0))
    found = ask_or_not(run, dict.fromkeys(ids, (0.9,)), dict.fromkeys(ids, 10.0))
    assert found is not None
    assert found.best == Point(0.9, 1.0, 15.0)
    # the first is asked and scores 0, the second is not and scores 10
    assert found.validated == Point(None, 0.5, 5.0)
    assert found.over_always.mean == pytest.approx(-10.0)


def test_several_questions_are_asked_or_not_together() -> None:
    run = system(2, row("a", "time+ time-", 30.0))
    found = ask_or_not(run, {"a": (0.5, 0.5)}, {"a": 10.0})
    assert found is not None
    assert found.points[1] == Point(0.75, 1.0, 30.0)


def test_nothing_judged_in_both_is_none() -> None:
    assert ask_or_not(made([1, 2, 3, 4]), {}, {}) is None


SCORES = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.sampled_from([0.1, 0.5, 0.9])), min_size=1
)


@given(SCORES)
def test_the_frontier_runs_from_never_to_always_and_the_best_is_on_it(
    rows: list[tuple[float, float, float]],
) -> None:
    ids = [f"q{i}" for i in range(len(rows))]
    run = made([asked for asked, _, _ in rows], ids)
    orig = {id: unasked for id, (_, unasked, _) in zip(ids, rows, strict=True)}
    found = ask_or_not(run, {id: (p,) for id, (_, _, p) in zip(ids, rows, strict=True)}, orig)
    assert found is not None
    shares = [point.share_asked for point in found.points]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert found.always.mean_score == pytest.approx(sum(asked for asked, _, _ in rows) / len(rows))
    assert found.best.mean_score >= max(found.never.mean_score, found.always.mean_score) - 1e-6
