"""Sentences, passages and evidence for a goal."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.search.backends import Page
from cts_async.search.evidence import Evidence, read_lexically
from cts_async.search.terms import (
    best_window,
    extract_for_goal,
    present,
    query_terms,
    sentence_spans,
    stem,
    terms,
)

TEXT = "Cats sleep all day. Dogs bark at night! Do birds sing? Fish are silent."


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (TEXT, ["Cats sleep all day.", "Dogs bark at night!", "Do birds sing?", "Fish are silent."]),
        ("今天下雨。明天晴！后天呢？", ["今天下雨。", "明天晴！", "后天呢？"]),
        ("version 3.11 is out", ["version 3.11 is out"]),
        ("He said “no.” Then left", ["He said “no.”", "Then left"]),
        ("one line\n\nanother", ["one line", "another"]),
    ],
)
def test_sentences_are_found(text: str, sentences: list[str]):
    assert [text[start:end] for start, end in sentence_spans(text, 100)] == sentences


@given(st.text(alphabet="ab .!?。，\n ", max_size=200), st.integers(1, 30))
def test_spans_are_ordered_short_and_complete(text: str, limit: int):
    spans = sentence_spans(text, limit)
    assert all(0 < end - start <= limit for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())


@pytest.mark.parametrize(
    ("words", "window"),
    [
        ({"bark": 1.0}, "Dogs bark at night! Do birds sing?"),
        ({"cat": 1.0, "fish": 3.0}, "Do birds sing? Fish are silent."),
        ({}, "Cats sleep all day. Dogs bark at night!"),
    ],
)
def test_window_with_most_weight_wins(words: dict[str, float], window: str):
    assert best_window(TEXT, words, 40) == window


def test_window_is_found_in_chinese():
    text = "猫整天睡觉。" * 30 + "长城始建于春秋时期。" + "狗在夜里叫。" * 30
    window = best_window(text, {"长城": 1.0}, 30)
    assert "长城始建于春秋时期。" in window
    assert len(window) <= 30


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (["theory", "theories"], "theory"),
        (["plan", "plans", "planned", "planning"], "plan"),
        (["found", "founded", "founding"], "found"),
        (["name", "named", "names", "naming"], "nam"),
        (["call", "called", "calls"], "call"),
        (["speed"], "speed"),
        (["string"], "string"),
        (["bus"], "bus"),
        (["1990s", "1990"], "1990"),
    ],
)
def test_forms_of_a_word_share_a_stem(group: list[str], expected: str):
    assert {stem(word) for word in group} == {expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The CAFÉS of Ｏslo", ["caf", "oslo"]),
        ("爱因斯坦的相对论", ["爱因斯坦", "相对", "相对论"]),
        ("Python3教程", ["python3", "教程"]),
    ],
)
def test_terms_of_both_languages(text: str, expected: list[str]):
    assert [word for word in terms(text) if word in expected] == expected


def test_query_of_stop_words_keeps_them():
    assert query_terms("The Who") == ["the", "who"]
    assert query_terms("who is the king king") == ["king"]


def test_presence_is_by_word_in_english_and_by_substring_in_chinese():
    assert present("Planned parks; 长城很长", {"plan", "par", "长城", "故宫"}) == {"plan", "长城"}


PAGE = (
    "Rome is old. " + "It has many streets. " * 40 + "The Colosseum was built in 80 AD. " + "Trams run. " * 40
)


@pytest.mark.parametrize(
    ("text", "goal", "limit", "expected"),
    [
        ("  A short page.  ", "any", 100, "A short page."),
        ("One cat. Two dogs. Three cats. Four owls.", "cat", 24, "One cat.\nThree cats."),
        ("One cat. Two dogs. Three cats. Four owls.", "zebra", 20, "One cat. Two dogs."),
        ("One cat. Two dogs. Three cats. Four owls.", "", 9, "One cat."),
        ("今天下雨。长城很长。明天晴。", "长城有多长", 6, "长城很长。"),
        ("x" * 50, "goal", 10, "x" * 10),
        ("", "goal", 10, ""),
        ("text", "goal", 0, ""),
    ],
)
def test_evidence_shares_most_with_the_goal(text: str, goal: str, limit: int, expected: str):
    assert extract_for_goal(text, goal, limit) == expected


def test_lexical_evidence_is_bounded_and_has_a_summary():
    read = read_lexically(Page("1", "https://x", "Rome\n", PAGE), "when was the Colosseum built", 150)
    assert "The Colosseum was built in 80 AD." in read.evidence
    assert len(read.evidence) <= 150
    assert read.summary.startswith("Rome: ")


def test_model_evidence_is_bounded():
    assert Evidence("e" * 900, "s" * 900).within(800) == Evidence("e" * 800, "s" * 400)
    assert Evidence("e" * 900, "s" * 900).within(100) == Evidence("e" * 100, "s" * 300)
