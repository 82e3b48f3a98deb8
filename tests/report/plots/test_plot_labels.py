"""Anybody's text in a figure is shown as it is, and has room."""

from __future__ import annotations

from html import unescape

from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.report.plots.style import columns, folded, shown

LINK = '<a href="javascript:alert(1)">x</a>'


def test_what_plotly_takes_for_markup_is_escaped() -> None:
    assert shown(LINK) == '&lt;a href="javascript:alert(1)"&gt;x&lt;/a&gt;'
    assert shown("R&amp;D <b>") == "R&amp;amp;D &lt;b&gt;"


def test_controls_and_marks_of_direction_are_shown() -> None:
    assert shown("a\nb\x1b[1m\u202ec") == "a\ufffdb\ufffd[1m\ufffdc"


def test_a_long_name_breaks_after_hyphens() -> None:
    assert folded("kimi-at-cot-respond-k3", 12) == "kimi-at-cot-<br>respond-k3"


def test_a_name_without_hyphens_breaks_anywhere() -> None:
    assert folded("abcdefgh", 5) == "abcde<br>fgh"


def test_a_chinese_character_takes_two_columns() -> None:
    assert columns("通义-k2") == 7
    assert folded("通义千问", 4) == "通义<br>千问"


def test_of_a_name_that_is_too_long_both_ends_are_kept() -> None:
    """Three lines of four columns: eight letters of the beginning and three of the end, beside the ellipsis."""
    assert folded("abcdefghijklmnopq-k3", 4) == "abcd<br>efgh<br>…-k3"


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=120), st.integers(2, 30))
def test_no_line_is_wider_than_allowed_and_none_is_markup(text: str, width: int) -> None:
    lines = folded(text, width).split("<br>")
    assert len(lines) <= 3
    assert all(columns(unescape(line)) <= width for line in lines)
    assert not any("<" in line or ">" in line for line in lines)
