"""Texts compared by the audit: secrets of an intent, numbers in words, additions of a rewritten query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.audit.text import (
    Addition,
    Secret,
    additions,
    disclosure,
    joined_ends,
    normalised,
    spelled_numbers,
    stands_in,
    units,
    vocabulary_of,
    with_years_in_digits,
)

FERRY = "winter weekday ferry times from North Quay to Brack Island in 2033"


def found(q_star: str, known: list[str], text: str, vocabulary: frozenset[str] = frozenset()) -> list[str]:
    return list(Secret.hidden(q_star, known, vocabulary).spans(text))


@pytest.mark.parametrize(
    ("q_star", "known", "text", "spans"),
    [
        (FERRY, ["Brack Island ferry"], "the Brack Island ferry, weekday", ["weekday"]),
        # Function words are secret only in pairs, and so are single ideographs.
        ("what to do in the rain", ["rain"], "in front of the house", []),
        ("what to do in the rain", ["rain"], "rain, in the", ["in the"]),
        ("图书馆二楼安静区", ["图书馆"], "安的图书馆", []),
        ("图书馆二楼安静区", ["图书馆"], "图书馆安静吗", ["安静"]),
        # Known parts in a new order.
        ("图书馆二楼", ["图书馆", "二楼"], "图书馆和二楼", []),
        ("图书馆二楼", ["图书馆", "二楼"], "图书馆二楼", ["馆二"]),
        # The longest piece is reported once.
        (FERRY, ["ferry"], "ferry times from North Quay, please", ["ferry times from north quay"]),
        # Width, case, punctuation, invisible characters and the spelling of years hide nothing.
        (FERRY, ["north of the quay"], "ＮＯＲＴＨ, quay", ["north, quay"]),
        (FERRY, ["ferry"], "week\u00adday and 20\u200b33", ["weekday", "2033"]),
        ("2033年门票", ["门票"], "二〇三三年", ["2033年"]),
    ],
)
def test_text_in_no_answer_is_secret(q_star: str, known: list[str], text: str, spans: list[str]) -> None:
    assert found(q_star, known, text) == spans


def test_texts_that_are_known_may_be_written_one_after_the_other() -> None:
    intent, known = "tram fares for students on night trams", ["tram fares", "for students", "on night"]
    joined = "tram fares for students on night"
    assert found(intent, known, joined) == ["fares for students on"]
    assert found(intent, [*known, *joined_ends(known)], joined) == []
    assert found(intent, [*known, *joined_ends(known)], f"{joined} trams") == ["night trams"]
    assert joined_ends(["", "ferry"]) == ["ferry ferry"]


def test_vocabulary_excuses_words_but_not_numbers() -> None:
    vocabulary = vocabulary_of(["Ask for the weekday, e.g. 2033."])
    assert found(FERRY, [], "weekday", vocabulary) == []
    assert found(FERRY, [], "2033", vocabulary) == ["2033"]


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
EUROPE, BEIJING = "museum ticket prices in Europe", "北京图书馆座位预约"
UNKNOWN = [("Which one?", "unknown")]
NOTHING: list[str] = []
NOT_CONFIRMED = ("unknown", "no", "No, somewhere else", "不是")


@pytest.mark.parametrize(
    ("q_hat", "pairs", "leaked", "unsupported"),
    [
        # What an answer elicited, and general words, are no additions.
        ("prices of a museum ticket for a senior", [("For whom?", "seniors")], NOTHING, NOTHING),
        ("museum ticket prices for senior citizens", [("For whom?", "Seniors.")], NOTHING, NOTHING),
        ("图书馆二楼座位的预约办法", [("几楼？", "二楼")], NOTHING, NOTHING),
        ("what are the current museum ticket prices", [], NOTHING, NOTHING),
        ("Museum Ticket Prices And Opening Hours", [], NOTHING, NOTHING),
        ("图书馆座位的预约办法和时间是什么", UNKNOWN, NOTHING, NOTHING),
        # What only q* has is a leak.
        ("museum ticket prices in 2033", UNKNOWN, ["2033"], NOTHING),
        ("museum ticket prices for seniors", UNKNOWN, ["seniors"], NOTHING),
        ("museum ticket prices of Tidewheel", UNKNOWN, ["tidewheel"], NOTHING),
        ("museum ticket prices in europe", UNKNOWN, ["europe"], NOTHING),
        ("图书馆安静区座位预约", UNKNOWN, ["安静区"], NOTHING),
        ("北京图书馆座位预约", UNKNOWN, ["北京"], NOTHING),
        ("考试季的图书馆座位预约", UNKNOWN, ["考试季"], NOTHING),
        # What nobody has is unsupported.
        ("museum ticket prices in 2024", [], NOTHING, ["2024"]),
        ("museum ticket prices at the Louvre for students", [], NOTHING, ["louvre"]),
        ("museum ticket prices in canada", [], NOTHING, ["canada"]),
        ("2024年上海图书馆《红楼梦》座位预约", [], NOTHING, ["2024", "上海", "红楼梦"]),
        # A question elicits what it suggests if it is confirmed.
        *(
            (EUROPE, [("Do you mean Europe?", yes)], NOTHING, NOTHING)
            for yes in ("yes", "Yes, exactly", "是", "对的")
        ),
        *((BEIJING, [("您是说北京的图书馆吗？", yes)], NOTHING, NOTHING) for yes in ("yes", "是", "对的")),
        *(
            (EUROPE, [("Do you mean Europe?", no)], NOTHING, ["europe"])
            for no in ("unknown", "no", "No, elsewhere", "不是")
        ),
        *((BEIJING, [("您是说北京吗？", no)], NOTHING, ["北京"]) for no in NOT_CONFIRMED),
    ],
)
def test_additions_to_what_was_elicited(
    q_hat: str, pairs: list[tuple[str, str]], leaked: list[str], unsupported: list[str]
) -> None:
    of_museum = (MUSEUM, f"{MUSEUM_STAR}: current prices and opening hours")
    q, q_star = of_museum if q_hat.isascii() else (LIBRARY, LIBRARY_STAR)
    found = {
        *(Addition("leak", text) for text in leaked),
        *(Addition("unsupported", text) for text in unsupported),
    }
    assert set(additions(q_hat, q, q_star, pairs)) == found


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
    ("q", "q_star", "pair", "q_hat"),
    [
        ("laptops", "laptops for 900 dollars", ("How much?", "nine hundred"), "laptops for 900"),
        ("laptops", "laptops for 900 dollars", ("How much?", "900"), "laptops for nine hundred"),
        ("垃圾分类投放时间", "老城区冬季垃圾分类投放时间", ("什么时候？", "冬天"), "冬季垃圾分类投放时间"),
    ],
)
def test_paraphrase_of_an_answer_is_no_addition(
    q: str, q_star: str, pair: tuple[str, str], q_hat: str
) -> None:
    assert additions(q_hat, q, q_star, [pair]) == []


# --- What an answer gives away

STAY, STAY_Q = "hiking hut in Scotland for two people in June with a wheelchair", "hiking hut Scotland"
BOOTS, TRAM = "women's size 38 waterproof hiking boots under 150 euros", "适合轮椅使用者的低地板电车的时刻表"
VISA, VISA_Q = "2033年北京市随迁子女小学入学需要什么材料", "小学入学材料"
WHAT, SEASON = "What exactly would you like to know?", "Which season do you mean?"
RECITES = "the answer is most of q*, not what the question asks for"
THINKS = "the answer thinks aloud about q*"


@pytest.mark.parametrize(
    ("q_star", "q", "question", "answer", "problem"),
    [
        # Short answers, also to an open question, also if they are all that is hidden.
        (STAY, STAY_Q, WHAT, "for two people in June with a wheelchair", ""),
        (STAY, STAY_Q, SEASON, "in June", ""),
        (STAY, STAY_Q, "Which hut?", "the hiking hut in Scotland", ""),
        (STAY, STAY_Q, "Season and budget?", "June; budget unknown", ""),
        ("grant for founding a food cooperative", "grant", "For what?", "founding a food cooperative", ""),
        (VISA, VISA_Q, "哪一年？", "2033年", ""),
        (VISA, VISA_Q, "您具体想了解什么？", "北京市随迁子女", ""),
        # With the noun that the answer is about, which a short query consists of.
        (
            BOOTS,
            "boots",
            "What kind of boots?",
            "waterproof hiking boots, women's size 38, under 150 euros",
            "",
        ),
        (TRAM, "电车时刻表", "您需要哪种电车？", "适合轮椅使用者的低地板电车", ""),
        # Recited, whole or nearly, with or without an introduction.
        (STAY, STAY_Q, SEASON, STAY, RECITES),
        (STAY, STAY_Q, WHAT, f"I am looking for a {STAY}.", RECITES),
        (
            STAY,
            STAY_Q,
            SEASON,
            "In June: the hiking hut is for two people with a wheelchair in Scotland",
            RECITES,
        ),
        (VISA, VISA_Q, "哪一年？", VISA, RECITES),
        (VISA, VISA_Q, "哪一年？", "我想查二〇三三年北京市随迁子女小学入学需要什么材料。", RECITES),
        # Thought about, and then not answered.
        (STAY, STAY_Q, "Budget?", "They say two people, June, wheelchair; no word on money. unknown", THINKS),
        (
            STAY,
            STAY_Q,
            "Budget?",
            "analysisWe have June and a wheelchair, two people.assistantfinalunknown",
            THINKS,
        ),
        (VISA, VISA_Q, "预算？", "用户给出的句子提到2033年北京市随迁子女，金额没有写。unknown", THINKS),
    ],
)
def test_answer_that_gives_away_the_intent_has_a_problem(
    q_star: str, q: str, question: str, answer: str, problem: str
) -> None:
    found = disclosure(answer, q, q_star, [question])
    assert found.problem == problem
    assert found.over_informs or not problem


def test_share_is_of_the_words_that_neither_query_nor_question_has() -> None:
    """The question has June; "2" is "two"."""
    found = disclosure("for 2 people", STAY_Q, STAY, ["Is it in June?"])
    assert (found.hidden, found.disclosed) == (("two", "people", "wheelchair"), ("two", "people"))
    assert (found.share, found.over_informs) == (2 / 3, False)
    assert disclosure("yes", STAY, STAY, [WHAT]).share == 0.0


@pytest.mark.parametrize("mark", ["<|channel>thought", "[THINK]", "◁think▷", "<seed:think>", "<channel|>x"])
def test_mark_of_thoughts_is_found_unless_the_intent_has_it(mark: str) -> None:
    assert disclosure(mark, STAY_Q, STAY, [SEASON]).marks
    assert not disclosure(mark, STAY_Q, f"what does {mark} mean", [SEASON]).marks
    assert not disclosure("in June <3, final analysis", STAY_Q, STAY, [SEASON]).marks


@pytest.mark.parametrize(
    ("reply", "query", "expected"),
    [
        ("hiking boots", "waterproof boots for hiking", True),
        ("the boot", "waterproof boots", True),  # function words and endings do not count
        ("red boots", "waterproof boots", False),
        ("北京", "北京的天气", True),
        ("上海", "北京的天气", False),
        ("2024", "prices of 2024", True),
        ("", "waterproof boots", False),
        ("the", "the waterproof boots", False),  # it says nothing
    ],
)
def test_reply_that_stands_in_the_query(reply: str, query: str, expected: bool) -> None:
    assert stands_in(reply, query) is expected
