"""Room in a conversation, made as WebDancer's demo makes it."""

from __future__ import annotations

from cts_async.llm.apis import Message
from cts_async.llm.model import input_tokens
from cts_async.search.room import shorten
from cts_async.search.turn_format import format_tool_response


def conversation(*results: str) -> list[Message]:
    """An opening of one message of 12 bytes, then for each result a turn of 4 bytes and the response."""
    messages: list[Message] = [{"role": "user", "content": "find it, now"}]
    for result in results:
        messages.append({"role": "assistant", "content": "look"})
        messages.append({"role": "user", "content": format_tool_response(result)})
    return messages


# A message has 8 tokens, and a byte a quarter of one; the tags of a response have 33 bytes: 8.25 tokens.
OPENING = 8 + 12 / 4
STEP = 8 + 4 / 4 + 8 + 33 / 4
"""Tokens of a step without the result's text."""


def test_tokens_of_the_test_are_those_of_the_estimate() -> None:
    assert input_tokens(conversation("x" * 100, "y" * 40)) == OPENING + 2 * STEP + 25 + 10


def test_conversation_within_the_limit_is_unchanged() -> None:
    messages = conversation("x" * 100, "y" * 40)
    shortened = shorten(messages, 1, OPENING + 2 * STEP + 35)
    assert (shortened.messages, shortened.cut, shortened.gone, shortened.fits) == (messages, (), (), True)


def test_the_oldest_result_loses_its_middle_and_keeps_both_ends() -> None:
    messages = conversation("a" * 50 + "b" * 50, "y" * 40)
    # 10 tokens too many: 40 bytes go. Of the 60 that stay, 3 are dots and half of 57 stands at each end.
    shortened = shorten(messages, 1, OPENING + 2 * STEP + 25)
    cut = format_tool_response("a" * 28 + "..." + "b" * 28)
    assert shortened.messages[2]["content"] == cut
    assert shortened.messages[3:] == messages[3:]
    assert (shortened.cut, shortened.gone, shortened.fits) == ((2,), (), True)


def test_a_result_without_room_for_its_ends_is_omitted_and_the_next_one_is_cut() -> None:
    messages = conversation("x" * 40, "c" * 200, "y" * 40)
    # 30 tokens too many are 120 bytes: the first result gives 36 of its 40, "omit" stays; the second one gives 84.
    shortened = shorten(messages, 1, OPENING + 3 * STEP + 10 + 50 + 10 - 30)
    assert shortened.messages[2]["content"] == format_tool_response("omit")
    assert shortened.messages[4]["content"] == format_tool_response("c" * 56 + "..." + "c" * 56)
    assert (shortened.cut, shortened.gone, shortened.fits) == ((4,), (2,), True)


def test_whole_middle_steps_go_before_the_last_result_is_cut() -> None:
    messages = conversation("x" * 40, "y" * 40, "z" * 400)
    # Even with both older results omitted (1 token each) there are two steps too many.
    shortened = shorten(messages, 1, OPENING + STEP + 100)
    assert shortened.messages == [messages[0], *messages[5:]]
    assert (shortened.cut, shortened.gone, shortened.fits) == ((), (2, 4), True)
    shortened = shorten(messages, 1, OPENING + STEP + 50)
    assert shortened.messages[-1]["content"] == format_tool_response("z" * 98 + "..." + "z" * 98)
    assert (shortened.cut, shortened.gone, shortened.fits) == ((6,), (2, 4), True)
    shortened = shorten(messages, 1, OPENING + STEP)
    assert shortened.messages[-1]["content"] == format_tool_response("omit")
    assert not shortened.fits


def test_several_results_of_a_turn_are_cut_one_after_the_other() -> None:
    both = f"{format_tool_response('p' * 100)}\n{format_tool_response('q' * 100)}"
    messages = conversation("", "y" * 40)
    messages[2] = {"role": "user", "content": both}
    # 120 bytes too many: all of the first but "omit" (96), and 24 of the second.
    shortened = shorten(messages, 1, input_tokens(messages) - 30)
    first, second = format_tool_response("omit"), format_tool_response("q" * 36 + "..." + "q" * 36)
    assert shortened.messages[2]["content"] == f"{first}\n{second}"
    assert (shortened.cut, shortened.gone) == ((2,), ())


def test_a_character_of_several_bytes_is_never_cut_through() -> None:
    messages = conversation("渡" * 30, "y")
    # 40 of 90 bytes go. Of 50, 23 stand at each end: 7 characters and 2 bytes.
    shortened = shorten(messages, 1, input_tokens(messages) - 10)
    assert shortened.messages[2]["content"] == format_tool_response("渡" * 7 + "..." + "渡" * 7)
