"""Texts compared by the audit: secrets of an intent, numbers in words, additions of a rewritten query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.audit.text import (
    Addition,
    Secret,
    additions,
    normalised,
    spelled_numbers,
    units,
    vocabulary_of,
    with_years_in_digits,
)

FERRY = "winter weekday ferry times from North Quay to Brack Island in 2033"


def found(q_star: str, known: list[str], text: str, vocabulary: frozenset[str] = frozenset()) -> list[str]:
    return list(Secret.of(q_star, known, vocabulary).spans(text))


def test_single_word_of_the_intent_is_secret() -> None:
    assert found(FERRY, ["Brack Island ferry"], "the Brack Island ferry, weekday") == ["weekday"]


def test_function_words_are_secret_only_in_pairs() -> None:
    assert found("what to do in the rain", ["rain"], "in front of the house") == []
    assert found("what to do in the rain", ["rain"], "rain, in the") == ["in the"]


def test_vocabulary_excuses_words_but_not_numbers() -> None:
    vocabulary = vocabulary_of(["Ask for the weekday, e.g. 2033."])
    assert found(FERRY, [], "weekday", vocabulary) == []
    assert found(FERRY, [], "2033", vocabulary) == ["2033"]


def test_pairs_match_across_width_case_and_punctuation() -> None:
    assert found(FERRY, ["north of the quay"], "ＮＯＲＴＨ, quay") == ["north, quay"]


def test_invisible_characters_do_not_hide_a_leak() -> None:
    assert found(FERRY, ["ferry"], "week\u00adday and 20\u200b33") == ["weekday", "2033"]


def test_years_in_ideographs_match_digits() -> None:
    assert found("2033年门票", ["门票"], "二〇三三年") == ["2033年"]


def test_longest_secret_span_is_reported_once() -> None:
    assert found(FERRY, ["ferry"], "ferry times from North Quay, please") == ["ferry times from north quay"]


def test_ideographs_are_secret_only_in_pairs() -> None:
    assert found("图书馆二楼安静区", ["图书馆"], "安的图书馆") == []
    assert found("图书馆二楼安静区", ["图书馆"], "图书馆安静吗") == ["安静"]


def test_known_parts_in_a_new_order_are_secret() -> None:
    assert found("图书馆二楼", ["图书馆", "二楼"], "图书馆和二楼") == []
    assert found("图书馆二楼", ["图书馆", "二楼"], "图书馆二楼") == ["馆二"]


@pytest.mark.parametrize(("written", "same"), [("1,200", "1200"), ("１２００", "1200"), ("1.5", "1.5")])
def test_numbers_match_without_thousands_separators(written: str, same: str) -> None:
    assert [unit.text for unit in units(normalised(written))] == [same]


@given(st.text(), st.text())
def test_known_text_contains_no_secret(q_star: str, told: str) -> None:
    assert found(q_star, [told], told) == []


@given(st.text())
def test_units_have_positions_in_the_text(text: str) -> None:
    text = normalised(text)
    for unit in units(text):
        assert text[unit.start : unit.end].replace(",", "") == unit.text.replace(",", "")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("under nine hundred dollars", {"900"}),
        ("twenty-one or two thousand and five", {"21", "2005"}),
        ("three million two hundred thousand", {"3200000"}),
        ("one of the tenth, often", set()),
        ("三百零五元，十二天，二楼", {"305", "12", "2"}),
        ("三万五千，两千", {"35000", "2000"}),
        ("二〇二三年", {"2023"}),
        ("万一，一个", set()),
        ("四川，四楼", {"4"}),
        ("", set()),
    ],
)
def test_spelled_numbers_are_recognised(text: str, numbers: set[str]) -> None:
    assert spelled_numbers(text) == numbers


def test_only_years_are_replaced_by_digits() -> None:
    assert with_years_in_digits("二〇二三年和三年，二零二三") == "2023年和三年，二零二三"


MUSEUM, MUSEUM_STAR = "museum ticket prices", "Tidewheel Museum ticket prices for seniors in Europe in 2033"
LIBRARY, LIBRARY_STAR = "图书馆座位预约", "北京考试季图书馆二楼安静区的座位预约办法和开放时间"
Pairs = list[tuple[str, str]]


def museum(q_hat: str, pairs: Pairs) -> list[Addition]:
    return additions(q_hat, MUSEUM, MUSEUM_STAR, pairs)


def library(q_hat: str, pairs: Pairs) -> list[Addition]:
    return additions(q_hat, LIBRARY, LIBRARY_STAR, pairs)


def test_elicited_constraints_are_no_additions() -> None:
    assert museum("prices of a museum ticket for a senior", [("For whom?", "seniors")]) == []
    assert library("图书馆二楼座位的预约办法", [("几楼？", "二楼")]) == []


@pytest.mark.parametrize(
    ("q_hat", "leaked"),
    [
        ("museum ticket prices in 2033", "2033"),
        ("museum ticket prices for seniors", "seniors"),
        ("museum ticket prices of Tidewheel", "tidewheel"),
        ("museum ticket prices in europe", "europe"),
    ],
)
def test_constraint_of_the_intent_alone_is_a_leak(q_hat: str, leaked: str) -> None:
    assert museum(q_hat, [("Which one?", "unknown")]) == [Addition("leak", leaked)]


@pytest.mark.parametrize(
    ("q_hat", "leaked"),
    [
        ("图书馆安静区座位预约", "安静区"),
        ("北京图书馆座位预约", "北京"),
        ("考试季的图书馆座位预约", "考试季"),
    ],
)
def test_constraint_of_a_chinese_intent_alone_is_a_leak(q_hat: str, leaked: str) -> None:
    assert library(q_hat, [("哪一个？", "unknown")]) == [Addition("leak", leaked)]


@pytest.mark.parametrize(
    ("q_star", "q_hat", "leaked"),
    [
        ("laptops under 900 dollars", "laptops under nine hundred dollars", "900"),
        ("laptops under nine hundred dollars", "laptops for 900 dollars", "900"),
        ("三层以内的图书馆", "3层图书馆", "3"),
        ("2033年门票", "二〇三三年门票", "2033"),
    ],
)
def test_spelled_number_is_a_leak_like_digits(q_star: str, q_hat: str, leaked: str) -> None:
    assert Addition("leak", leaked) in additions(q_hat, "laptops 图书馆 门票", q_star, [])


@pytest.mark.parametrize(
    ("answer", "q_hat"), [("nine hundred", "laptops for 900"), ("900", "laptops for nine hundred")]
)
def test_spelled_number_is_elicited_like_digits(answer: str, q_hat: str) -> None:
    assert additions(q_hat, "laptops", "laptops for 900 dollars", [("How much?", answer)]) == []


@pytest.mark.parametrize("answer", ["yes", "Yes, exactly", "是", "对的"])
def test_confirmed_question_elicits_its_constraint(answer: str) -> None:
    assert museum("museum ticket prices in Europe", [("Do you mean Europe?", answer)]) == []
    assert library("北京图书馆座位预约", [("您是说北京的图书馆吗？", answer)]) == []


@pytest.mark.parametrize("answer", ["unknown", "no", "No, somewhere else", "不是"])
def test_unconfirmed_question_elicits_nothing(answer: str) -> None:
    found = museum("museum ticket prices in Europe", [("Do you mean Europe?", answer)])
    assert found == [Addition("unsupported", "europe")]
    assert library("北京图书馆座位预约", [("您是说北京吗？", answer)]) == [Addition("unsupported", "北京")]


@pytest.mark.parametrize(
    ("q_hat", "invented"),
    [
        ("museum ticket prices in 2024", ["2024"]),
        ("museum ticket prices at the Louvre for students", ["louvre"]),
        ("museum ticket prices in canada", ["canada"]),
    ],
)
def test_invented_numbers_and_names_are_unsupported(q_hat: str, invented: list[str]) -> None:
    assert museum(q_hat, []) == [Addition("unsupported", text) for text in invented]


def test_invented_chinese_places_years_and_titles_are_unsupported() -> None:
    found = library("2024年上海图书馆《红楼梦》座位预约", [])
    assert {addition.text for addition in found} == {"2024", "上海", "红楼梦"}
    assert {addition.level for addition in found} == {"unsupported"}


@pytest.mark.parametrize(
    "q_hat", ["what are the current museum ticket prices", "Museum Ticket Prices And Opening Hours"]
)
def test_general_words_are_no_constraint(q_hat: str) -> None:
    assert additions(q_hat, MUSEUM, f"{MUSEUM_STAR}: current prices and opening hours", []) == []


def test_general_chinese_words_are_no_constraint() -> None:
    assert library("图书馆座位的预约办法和时间是什么", [("哪一个？", "unknown")]) == []


def test_paraphrase_is_no_addition() -> None:
    season = additions(
        "冬季垃圾分类投放时间", "垃圾分类投放时间", "老城区冬季垃圾分类投放时间", [("什么时候？", "冬天")]
    )
    assert season == []
    assert museum("museum ticket prices for senior citizens", [("For whom?", "Seniors.")]) == []
