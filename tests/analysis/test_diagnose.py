"""Gains of questions and answers, predictions, their calibration, and the frontier of asking less."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_interactions import row, system

from cts_async.analysis.diagnose import (
    FOLDS,
    Bin,
    Frontier,
    FrontierPoint,
    any_answered,
    ask_or_not,
    calibrate,
    fold_of,
    gain_per_question,
    predict_answerability,
)
from cts_async.analysis.interactions import (
    Interactions,
    count_unknowns,
    cq_region_rate,
    region_turns,
    type_profiles,
    unknown_ranges,
)
from cts_async.analysis.stats import Difference

ORIG = dict.fromkeys("abcdef", 10.0)


def test_unusual_runs_are_counted() -> None:
    found = count_unknowns(system(0, row("a", "time+ region-")))  # more questions than k
    assert (found.known_cnt, found.by_turn) == ((0, 1, 0), ((1, 0), (1, 1)))
    assert unknown_ranges(region_turns(system(1, row("a", "time+")))) == {}
    assert (cq_region_rate([]), type_profiles([])[0].share) == (None, None)


def test_type_gain_resamples_rows_of_an_instance_together() -> None:
    """Two systems that gain 5 on a and 15 on b: resampled means are 5, 10 or 15, as with one system."""
    rows = [row("a", "time+", 15.0), row("b", "time+", 25.0)]
    found = gain_per_question([system(1, *rows), system(1, *rows, clarifier="kimi")], ORIG)
    assert (found["time"].n, found["time"].mean) == (4, pytest.approx(10.0))
    assert (found["time"].low, found["time"].high) == (pytest.approx(5.0), pytest.approx(15.0))


def ids_in(fold: int, n: int) -> list[str]:
    """Ids that are dealt to this fold with seed 0."""
    found = (f"q{i}" for i in range(10_000) if fold_of(f"q{i}", 0) == fold)
    return [next(found) for _ in range(n)]


def test_prediction_from_other_folds_matches_hand_calculation() -> None:
    """From two time questions, one known: (1 + 2/2) / 4 = 1/2, then (1 + 10/2) / 12 = 1/2, twice."""
    [a], [b, c] = ids_in(0, 1), ids_in(1, 2)
    [found] = predict_answerability([system(1, row(a, "time+"), row(b, "time+"), row(c, "time-"))])
    assert found[a] == (pytest.approx(1 / 2),)


def test_rate_of_a_type_shrinks_to_overall_rate() -> None:
    """All known: general (3 + 1) / 5 = 0.8; time, 1 of 1: (1 + 8) / 11; in its language and turn: (1 + 90/11) / 11."""
    [a], [b, c, d] = ids_in(0, 1), ids_in(1, 3)
    rows = [row(a, "time-"), row(b, "time+"), row(c, "scope+"), row(d, "scope+")]
    [found] = predict_answerability([system(1, *rows)])
    assert found[a] == (pytest.approx((1 + 10 * 9 / 11) / 11),)


def test_instance_never_predicts_itself_in_any_system() -> None:
    a, b = ids_in(3, 2)
    mine, theirs = system(1, row(a, "time+")), system(1, row(a, "time+"), row(b, "time+"), clarifier="kimi")
    assert predict_answerability([mine, theirs])[0][a] == (0.5,)


def test_folds_are_balanced() -> None:
    dealt = [fold_of(f"q{i}", 7) for i in range(5000)]
    assert all(400 < dealt.count(fold) < 620 for fold in range(FOLDS))


def test_chance_of_any_answer_combines_independent_predictions() -> None:
    assert any_answered([0.5, 0.2]) == pytest.approx(1 - 0.5 * 0.8)
    assert any_answered([0.3]) == pytest.approx(0.3)


@given(
    st.lists(st.tuples(st.sampled_from(["time", "region", "scope"]), st.booleans()), min_size=1, max_size=40)
)
def test_predictions_are_strictly_between_zero_and_one(turns: list[tuple[str, bool]]) -> None:
    rows = [row(f"q{i}", f"{kind}{'+' if known else '-'}") for i, (kind, known) in enumerate(turns)]
    [found] = predict_answerability([system(1, *rows)])
    assert all(0 < p < 1 for predicted in found.values() for p in predicted)


RUN = system(
    1, row("a", "time+", 30.0), row("b", "time-", 10.0), row("c", "region-", 15.0), row("d", "region-")
)
PREDICTED = {"a": (0.75,), "b": (0.75,), "c": (0.2,), "d": (0.25,)}


def test_calibration_matches_hand_calculation() -> None:
    """Errors 1/16, 9/16, 1/25, 1/16; one of four is known, so the reference is 3/16."""
    found = calibrate([RUN], [PREDICTED], ORIG)
    assert found is not None
    assert (found.n, found.reference) == (4, 3 / 16)
    assert found.brier == pytest.approx((11 / 16 + 1 / 25) / 4)
    assert found.skill == pytest.approx(1 - found.brier * 16 / 3)
    low, high = found.bins
    assert low == Bin(0.2, 0.3, n=2, predicted=pytest.approx(0.225), known=0)
    assert (high.low, high.n, high.known, high.observed) == (0.7, 2, 1, 0.5)
    # d has no score: n, rates and gain of the lower tenth are of c alone.
    low, high = found.gain_bins
    assert low == Bin(0.2, 0.3, n=1, predicted=0.2, known=0, gain=Difference(1, 5.0, None, None))
    assert high.gain is not None
    assert (high.n, high.gain.n, high.gain.mean) == (2, 2, 10.0)
    certain = calibrate([RUN], [dict.fromkeys("abcd", (1.0,))], {})
    assert certain is not None
    assert [(bin.low, bin.high, bin.n) for bin in certain.bins] == [(0.9, 1.0, 4)]
    known = calibrate([system(2, row("a", "time+ time+"))], [{"a": (0.5, 0.5)}], ORIG)
    assert known is not None
    assert (known.reference, known.skill, known.gain_bins) == (0.0, None, ())  # gains at k = 1 only
    assert calibrate([system(1)], [{}], {}) is None


def made(asked: Sequence[float], ids: Sequence[str] = "abcd") -> Interactions:
    return system(1, *(row(id, "time+", score) for id, score in zip(ids, asked, strict=True)))


def frontier(asked: Sequence[float], chances: Sequence[float], unasked: Sequence[float]) -> Frontier:
    ids = "abcd"[: len(asked)]
    orig = dict(zip(ids, unasked, strict=True))
    found = ask_or_not(made(asked, ids), {id: (p,) for id, p in zip(ids, chances, strict=True)}, orig)
    assert found is not None
    return found


def test_frontier_matches_hand_calculation() -> None:
    """Asking gains 40 on a, 20 on b, and loses 10 on c and d; c and d share a prediction."""
    found = frontier([50, 30, 0, 0], [0.9, 0.6, 0.1, 0.1], [10, 10, 10, 10])
    assert found.points == (
        FrontierPoint(None, 0.0, 10.0),
        FrontierPoint(0.9, 0.25, 20.0),
        FrontierPoint(0.6, 0.5, 25.0),
        FrontierPoint(0.1, 1.0, 20.0),
    )
    assert (found.n, found.never.mean_score, found.always.mean_score) == (4, 10.0, 20.0)
    assert found.best == FrontierPoint(0.6, 0.5, 25.0)
    # Heights above the line from 10 to 20: 0, 7.5, 10, 0 at 0, 1/4, 1/2, 1.
    assert found.area == pytest.approx(0.9375 + 2.1875 + 2.5)
    losing = frontier([0, 5], [0.9, 0.1], [10, 10])
    assert losing.best == losing.never == FrontierPoint(None, 0.0, 10.0)
    assert frontier([30, 10], [0.9, 0.1], [10, 10]).best == FrontierPoint(
        0.9, 0.5, 20.0
    )  # asks least among equals
    assert ask_or_not(made([1, 2, 3, 4]), {}, {}) is None


def test_threshold_is_validated_on_other_folds() -> None:
    """a is asked by a threshold learned on b and c, where asking at 0.9 pays; they by one learned on a, which loses."""
    ids = [next(f"q{i}" for i in range(1000) if fold_of(f"q{i}", 0) == fold) for fold in (0, 1)]
    run = system(1, row(ids[0], "time+", 0.0), row(ids[1], "time+", 30.0))
    found = ask_or_not(run, dict.fromkeys(ids, (0.9,)), dict.fromkeys(ids, 10.0))
    assert found is not None
    assert found.best == FrontierPoint(0.9, 1.0, 15.0)
    # the first is asked and scores 0, the second is not and scores 10
    assert found.validated == FrontierPoint(None, 0.5, 5.0)
    assert found.over_always.mean == pytest.approx(-10.0)


def test_questions_of_an_instance_are_asked_together() -> None:
    run = system(2, row("a", "time+ time-", 30.0))
    found = ask_or_not(run, {"a": (0.5, 0.5)}, {"a": 10.0})
    assert found is not None
    assert found.points[1] == FrontierPoint(0.75, 1.0, 30.0)


SCORES = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.sampled_from([0.1, 0.5, 0.9])), min_size=1
)


@given(SCORES)
def test_frontier_runs_from_never_to_always_and_contains_best(
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
