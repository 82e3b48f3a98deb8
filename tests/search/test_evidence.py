"""What a page says about a goal, found by its words."""

from __future__ import annotations

import pytest

from cts_async.search.backends.base import Page
from cts_async.search.terms import extract_for_goal
from cts_async.search.tools import Evidence, read_lexically

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
def test_evidence_is_what_shares_most_with_the_goal(text: str, goal: str, limit: int, expected: str):
    assert extract_for_goal(text, goal, limit) == expected


def test_a_page_gives_bounded_evidence_and_its_title_with_the_nearest_passage():
    read = read_lexically(Page("1", "https://x", "Rome\n", PAGE), "when was the Colosseum built", 150)
    assert "The Colosseum was built in 80 AD." in read.evidence
    assert len(read.evidence) <= 150
    assert read.summary.startswith("Rome: ")


def test_a_model_s_evidence_is_bounded_too():
    assert Evidence("e" * 900, "s" * 900).within(800) == Evidence("e" * 800, "s" * 400)
    assert Evidence("e" * 900, "s" * 900).within(100) == Evidence("e" * 100, "s" * 300)
