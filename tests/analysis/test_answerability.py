"""Predicted answerability: smoothed rates worked by hand, and nothing learned from an instance itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_interactions import row, system

from cts_async.analysis.ask_or_not import FOLDS, any_answered, fold_of, predict_answerability


def ids_in(fold: int, n: int) -> list[str]:
    """Ids that are dealt to this fold with seed 0."""
    found = (f"q{i}" for i in range(10_000) if fold_of(f"q{i}", 0) == fold)
    return [next(found) for _ in range(n)]


def test_two_questions_of_another_fold_by_hand() -> None:
    """From two time questions, one known: (1 + 2/2) / 4 = 1/2, then (1 + 10/2) / 12 = 1/2, twice."""
    [a], [b, c] = ids_in(0, 1), ids_in(1, 2)
    [found] = predict_answerability([system(1, row(a, "time+"), row(b, "time+"), row(c, "time-"))])
    assert found[a] == (pytest.approx(1 / 2),)


def test_the_rate_of_a_type_is_pulled_to_that_of_all_questions() -> None:
    """All known: general (3 + 1) / 5 = 0.8; time, 1 of 1: (1 + 8) / 11; in its language and turn: (1 + 90/11) / 11."""
    [a], [b, c, d] = ids_in(0, 1), ids_in(1, 3)
    rows = [row(a, "time-"), row(b, "time+"), row(c, "scope+"), row(d, "scope+")]
    [found] = predict_answerability([system(1, *rows)])
    assert found[a] == (pytest.approx((1 + 10 * 9 / 11) / 11),)


def test_a_type_never_seen_has_the_general_rate() -> None:
    [a], [b, c] = ids_in(0, 1), ids_in(1, 2)
    rows = [row(a, "region-"), row(b, "time+"), row(c, "time+")]
    assert predict_answerability([system(1, *rows)])[0][a] == (pytest.approx((2 + 1) / 4),)


def test_an_instance_never_predicts_itself_in_whatever_system() -> None:
    a, b = ids_in(3, 2)
    mine, theirs = system(1, row(a, "time+")), system(1, row(a, "time+"), row(b, "time+"), clarifier="kimi")
    assert predict_answerability([mine, theirs])[0][a] == (0.5,)


def test_every_fold_is_dealt_its_share() -> None:
    dealt = [fold_of(f"q{i}", 7) for i in range(5000)]
    assert all(400 < dealt.count(fold) < 620 for fold in range(FOLDS))


def test_one_answer_of_several() -> None:
    assert any_answered([0.5, 0.2]) == pytest.approx(1 - 0.5 * 0.8)
    assert any_answered([0.3]) == pytest.approx(0.3)


@given(
    st.lists(st.tuples(st.sampled_from(["time", "region", "scope"]), st.booleans()), min_size=1, max_size=40)
)
def test_predictions_lie_strictly_between_zero_and_one(turns: list[tuple[str, bool]]) -> None:
    rows = [row(f"q{i}", f"{kind}{'+' if known else '-'}") for i, (kind, known) in enumerate(turns)]
    [found] = predict_answerability([system(1, *rows)])
    assert all(0 < p < 1 for predicted in found.values() for p in predicted)
