"""A conversation as its prompts show it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.conversation import conversation_text, numbered
from cts_async.protocol.views import Conversation, Exchange

ASKED = Conversation("ferry", (Exchange(("When?",), "in May"), Exchange(("From where?",), "unknown")))
OFFERED = Conversation("渡轮", (Exchange(("渡轮时刻表", "渡轮票价"), "渡轮票价"),))
WORDS = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)


def test_a_conversation_begins_with_its_query() -> None:
    assert conversation_text(Conversation("ferry"), "questions", "en") == "Query: ferry"
    assert conversation_text(Conversation("渡轮"), "queries", "zh") == "查询: 渡轮"


def test_questions_stand_with_their_answers() -> None:
    assert conversation_text(ASKED, "questions", "en") == (
        "Query: ferry\nQuestion 1: When?\nAnswer 1: in May\nQuestion 2: From where?\nAnswer 2: unknown"
    )


def test_offers_stand_with_the_one_that_was_chosen() -> None:
    assert (
        conversation_text(OFFERED, "queries", "zh")
        == "查询: 渡轮\n候选 1: 渡轮时刻表 | 渡轮票价\n选择 1: 渡轮票价"
    )


def test_what_is_offered_is_numbered_from_one() -> None:
    assert numbered(("ferry times", "ferry fares")) == "1. ferry times\n2. ferry fares"


@given(WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=3), st.lists(st.tuples(WORDS, WORDS), max_size=3))
def test_different_conversations_are_told_differently(
    query: str, turns: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    one, other = (
        conversation_text(
            Conversation(query, tuple(Exchange((asked,), said) for asked, said in of)), "questions", "en"
        )
        for of in (turns, others)
    )
    assert (one == other) == (turns == others)
