"""Thoughts at the beginning of a reply are told apart from its answer; anything else is left as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.llm.json_text import split_thoughts


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        ("<think>\nA greeting.\n</think>\n\nHello!", "A greeting.", "Hello!"),
        ("\n <think>A</think>B", "A", "B"),
        ("<Thinking>A</thinking>B", "A", "B"),
        ("<thought>A</thought>B", "A", "B"),
        ("<think>\n\n</think>\n\nB", "", "B"),
        # The chat's template opened the thought.
        ('Perhaps ["x"]?\n</think>\n\n["a"]', 'Perhaps ["x"]?', '["a"]'),
        ("A\n</think>", "A", ""),
        # Cut off within the thought.
        ("<think>A and", "A and", ""),
    ],
)
def test_thoughts_at_the_beginning_stand_apart(text: str, thoughts: str, answer: str) -> None:
    assert split_thoughts(text) == (thoughts, answer)


@pytest.mark.parametrize(
    "text",
    [
        "Hello!",
        "",
        "1 < 2",
        '["What does <think> mean?"]',
        'It says "</think>" there.',
        '{"quote": "a</think>b"}',
        "Hello <think>A</think>\nB",
        "Hello <think>A\n</think>\nB",
        "<thinker>A</thinker>",
    ],
)
def test_tags_further_on_are_text(text: str) -> None:
    assert split_thoughts(text) == ("", text)


@given(st.text(st.characters(exclude_characters="<")), st.text(st.characters(exclude_characters="<")))
def test_what_is_wrapped_comes_apart_again(thoughts: str, answer: str) -> None:
    assert split_thoughts(f"<think>{thoughts}</think>{answer}") == (thoughts.strip(), answer.lstrip())
