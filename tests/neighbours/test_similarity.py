"""Token F1 by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.neighbours.at_cot.similarity import TokenF1

QUESTION = st.lists(st.sampled_from(["map", "of", "the", "moon", "月亮", "a"]), max_size=6).map(" ".join)


def test_two_shared_words_of_three_and_five_by_hand() -> None:
    """{map, of, moon} and {which, map, of, the, sun} share map and of: F1 = 2 * 2 / (3 + 5)."""
    found = TokenF1().scores(["Map of moon?"], ["which map of the sun", "map of moon"])
    assert found.tolist() == [[pytest.approx(0.5), 1.0]]


def test_a_word_counts_as_often_as_both_have_it() -> None:
    """new x 2 and york against new x 1 and york x 1: two shared of 3 + 2."""
    assert TokenF1().scores(["new new york"], ["new york"]).tolist() == [[pytest.approx(0.8)]]


def test_the_matrix_has_a_row_for_each_generated_question() -> None:
    assert TokenF1().scores(["a", "b", "c"], ["a", "b"]).shape == (3, 2)
    assert TokenF1().scores([], ["a"]).shape == (0, 1)


def test_a_text_without_words_scores_nothing_even_against_itself() -> None:
    assert TokenF1().scores(["?"], ["?", "map"]).tolist() == [[0.0, 0.0]]


def test_its_name_says_that_it_is_not_bertscore() -> None:
    assert "not BERTScore" in TokenF1.name
    assert not TokenF1.is_bertscore


@settings(deadline=None)  # the first Chinese word loads a dictionary
@given(QUESTION, QUESTION)
def test_it_is_symmetric_within_bounds_and_one_for_the_same(a: str, b: str) -> None:
    scores = TokenF1().scores([a, b], [a, b])
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores[0, 1] == scores[1, 0]
    assert scores[0, 0] == (1.0 if a else 0.0)
