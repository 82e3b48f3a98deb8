"""Which words of a rewritten query are new."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.stability import segments


def marked(blurred: str, rewritten: str) -> str:
    """The rewritten query with what was added in brackets."""
    return "".join(
        f"[{one['text']}]" if one["added"] else one["text"] for one in segments(blurred, rewritten)
    )


@pytest.mark.parametrize(
    ("blurred", "rewritten", "expected"),
    [
        ("ferry timetable", "ferry timetable", "ferry timetable"),
        ("ferry timetable", "winter ferry timetable, 2033", "[winter] ferry timetable, [2033]"),
        ("ferry", "Timetable of the ferry, in winter!", "[Timetable of the] ferry, [in winter]!"),
        ("museum tickets", "Museum ticket prices for seniors", "Museum ticket [prices for seniors]"),
        ("图书馆座位", "大学图书馆二楼座位预约", "[大学]图书馆[二楼]座位[预约]"),
        ("Python", "Ｐｙｔｈｏｎ 教程", "Ｐｙｔｈｏｎ [教程]"),
        ("", "anything at all", "anything at all"),
        ("a", "", ""),
    ],
)
def test_added_words_are_marked(blurred: str, rewritten: str, expected: str) -> None:
    assert marked(blurred, rewritten) == expected


@given(st.text("ab 汉字,.é\n\x00", max_size=20), st.text("abc 汉字图书馆,.é\n\x00", max_size=40))
def test_segments_concatenate_to_the_query(blurred: str, rewritten: str) -> None:
    found = segments(blurred, rewritten)
    assert "".join(one["text"] for one in found) == rewritten
    assert all(one["text"] for one in found)
    kinds = [one["added"] for one in found]
    assert all(kinds[i] != kinds[i + 1] for i in range(len(kinds) - 1))


@given(st.text("ab 汉字,.", max_size=20))
def test_equal_query_has_no_added_words(query: str) -> None:
    assert not any(one["added"] for one in segments(query, query))


def test_overlong_query_is_not_marked() -> None:
    assert segments("ferry " * 4_000, "winter ferry") == [{"text": "winter ferry", "added": False}]
