"""What of an intent nobody may know: numbers, words that say something, and every pair of neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.audit.text import Secret, normalised, units, vocabulary_of

FERRY = "winter weekday ferry times from North Quay to Brack Island in 2033"


def found(q_star: str, told: list[str], text: str, vocabulary: frozenset[str] = frozenset()) -> list[str]:
    return list(Secret.of(q_star, told, vocabulary).spans(text))


def test_a_word_of_the_intent_alone_is_found() -> None:
    assert found(FERRY, ["Brack Island ferry"], "the Brack Island ferry, weekday") == ["weekday"]


def test_a_function_word_alone_says_nothing_and_a_pair_of_them_does() -> None:
    assert found("what to do in the rain", ["rain"], "in front of the house") == []
    assert found("what to do in the rain", ["rain"], "rain, in the") == ["in the"]


def test_a_word_of_the_prompts_says_nothing_and_a_number_of_theirs_does() -> None:
    vocabulary = vocabulary_of(["Ask for the weekday, e.g. 2033."])
    assert found(FERRY, [], "weekday", vocabulary) == []
    assert found(FERRY, [], "2033", vocabulary) == ["2033"]


def test_neighbours_are_found_across_width_case_and_punctuation() -> None:
    assert found(FERRY, ["north of the quay"], "ＮＯＲＴＨ, quay") == ["north, quay"]


def test_what_nobody_sees_hides_nothing() -> None:
    assert found(FERRY, ["ferry"], "week\u00adday and 20\u200b33") == ["weekday", "2033"]


def test_a_year_is_the_same_in_ideographs() -> None:
    assert found("2033年门票", ["门票"], "二〇三三年") == ["2033年"]


def test_the_longest_piece_is_told_once() -> None:
    assert found(FERRY, ["ferry"], "ferry times from North Quay, please") == ["ferry times from north quay"]


def test_one_ideograph_says_nothing_and_two_do() -> None:
    assert found("图书馆二楼安静区", ["图书馆"], "安的图书馆") == []
    assert found("图书馆二楼安静区", ["图书馆"], "图书馆安静吗") == ["安静"]


def test_what_was_told_is_no_secret_but_its_parts_joined_otherwise_are() -> None:
    assert found("图书馆二楼", ["图书馆", "二楼"], "图书馆和二楼") == []
    assert found("图书馆二楼", ["图书馆", "二楼"], "图书馆二楼") == ["馆二"]


@pytest.mark.parametrize(("written", "same"), [("1,200", "1200"), ("１２００", "1200"), ("1.5", "1.5")])
def test_numbers_are_compared_without_separators_of_thousands(written: str, same: str) -> None:
    assert [unit.text for unit in units(normalised(written))] == [same]


@given(st.text(), st.text())
def test_a_text_that_was_told_holds_no_secret(q_star: str, told: str) -> None:
    assert found(q_star, [told], told) == []


@given(st.text())
def test_units_stand_in_the_text_where_they_say(text: str) -> None:
    text = normalised(text)
    for unit in units(text):
        assert text[unit.start : unit.end].replace(",", "") == unit.text.replace(",", "")
