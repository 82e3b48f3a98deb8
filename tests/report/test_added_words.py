"""Words that a rewritten query has beyond the blurred one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cts_async.report.added_words import stretches


def added(blurred: str, rewritten: str) -> list[str]:
    return [one["text"] for one in stretches(blurred, rewritten) if one["added"]]


def test_words_of_the_blurred_query_are_not_marked_whatever_their_case_and_order() -> None:
    assert stretches("ferry timetable", "Timetable of the ferry") == [
        {"text": "Timetable ", "added": False},
        {"text": "of the ", "added": True},
        {"text": "ferry", "added": False},
    ]


def test_punctuation_goes_with_the_word_before_it() -> None:
    assert added("ferry", "ferry, in winter!") == ["in winter!"]


def test_a_chinese_character_is_known_beside_the_neighbour_that_it_had() -> None:
    assert stretches("图书馆预约", "考试季图书馆预约") == [
        {"text": "考试季", "added": True},
        {"text": "图书馆预约", "added": False},
    ]


def test_no_text_has_no_stretches() -> None:
    assert stretches("ferry", "") == []


@given(st.text(), st.text())
def test_the_stretches_together_are_the_rewritten_query(blurred: str, rewritten: str) -> None:
    found = stretches(blurred, rewritten)
    assert "".join(one["text"] for one in found) == rewritten
    assert all(one["added"] != other["added"] for one, other in pairwise(found))


@given(st.text())
def test_nothing_is_added_to_a_query_that_stays_as_it_is(query: str) -> None:
    assert not any(one["added"] for one in stretches(query, query) if any(map(str.isalnum, one["text"])))
