"""Nobody's text moves the cursor, and text that does not is left as it is."""

from __future__ import annotations

import pytest

from cts_async.report.text import plain


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
def test_what_cannot_be_printed_is_marked(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_lines_may_stay() -> None:
    assert plain("one\ntwo\x0b", "!", lines=True) == "one\ntwo!"
