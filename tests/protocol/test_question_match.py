"""Which annotated question a Clarifier's question is: equal ones first, then similar ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.human_answers import THRESHOLD, best_match, normalised

KNOWN = (
    "are you looking for reviews of the pampered chef",
    "do you want to know which ferry takes cars",
    "are you looking for jobs at the pampered chef",
    "do you want to know which ferry takes cars",
)


def test_case_punctuation_and_space_make_no_other_question() -> None:
    assert normalised("  What’s  the ＤＶＤ-player, \n called? ") == "whats the dvdplayer called"
    match = best_match("Do you want to know which ferry takes cars?", KNOWN)
    assert match is not None
    assert (match.index, match.similarity) == (1, 100.0), "of equal ones the first"


@pytest.mark.parametrize(
    ("question", "index"),
    [
        ("Are you interested in reviews of the pampered chef?", 0),
        ("are you lokoing for reviews of the pampered chef", 0),
        ("would you like jobs at the pampered chef", 2),
        ("could you tell me, do you want to know which ferry takes cars", 1),
    ],
)
def test_the_same_question_in_other_words_is_found(question: str, index: int) -> None:
    match = best_match(question, KNOWN)
    assert match is not None
    assert match.index == index
    assert THRESHOLD <= match.similarity < 100


@pytest.mark.parametrize(
    "question",
    [
        "are you looking for a map of the coast",
        "do you want to know the price of a ticket",
        "are you looking for the owner of the pampered chef",
        "你想知道哪一年的数据？",
        "???",
        "",
    ],
)
def test_a_frame_that_questions_share_is_no_match(question: str) -> None:
    assert best_match(question, KNOWN) is None


def test_a_question_of_shared_words_only_is_compared_whole() -> None:
    match = best_match(
        "What are you looking for?", ["what would you like to know", "what are you looking for"]
    )
    assert match is not None
    assert match.index == 1


def test_a_question_in_chinese_is_matched_too() -> None:
    match = best_match("你想了解哪一年的数据？", ["你想知道哪个城市", "你想了解哪一年的数据"])
    assert match is not None
    assert (match.index, match.similarity) == (1, 100.0)


@given(st.text(), st.lists(st.text(), max_size=5))
def test_a_match_is_one_of_those_there_are_and_similar_enough(question: str, known: list[str]) -> None:
    match = best_match(question, known)
    if match is not None:
        assert 0 <= match.index < len(known)
        assert THRESHOLD <= match.similarity <= 100


@given(st.text())
def test_a_question_with_any_letter_finds_itself(question: str) -> None:
    match = best_match(question, [question])
    assert (match is not None) == bool(normalised(question))
