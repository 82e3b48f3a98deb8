"""What cannot be seen in a text is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.report.text import visible


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
def test_invisible_characters_are_shown_and_others_stay(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_what_is_shown_can_be_written_and_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    visible(text).encode()
