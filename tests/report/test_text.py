"""Untrusted text cannot steer a terminal or hide anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.report.output import plain, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a [b]c[/b] \u6c49\u5b57 \u2260 \xe9", "a [b]c[/b] \u6c49\u5b57 \u2260 \xe9"),
        ("\x1b[31mred\x07\x9b1m", "?[31mred??1m"),
        ("over\rwritten\nline\ttab", "over?written?line?tab"),
        ("\u202eback\u200b\ud800", "?back??"),
        ("\u4e91\u6c50\u6c5f\u3000\u591c\u822a, 5\xa0km", "\u4e91\u6c50\u6c5f \u591c\u822a, 5 km"),
    ],
    ids=["as it is", "controls", "lines", "direction", "spaces"],
)
def test_unprintable_characters_are_marked(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_line_breaks_can_be_kept() -> None:
    assert plain("one\ntwo\x0b", "!", lines=True) == "one\ntwo!"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a[U+001B][2Jb"),
        ("a\x00\x7f\r", "a[U+0000][U+007F][U+000D]"),
        ("evil\u202egpj", "evil[U+202E]gpj"),
        ("a\u200bb\ufeff", "a[U+200B]b[U+FEFF]"),
        ("half \ud83d", "half �"),
        ("全角\u3000空格", "全角\u3000空格"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("👩\u200d🚀", "👩\u200d🚀"),
    ],
)
def test_invisible_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_visible_text_is_stable_and_encodable(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    visible(text).encode()
