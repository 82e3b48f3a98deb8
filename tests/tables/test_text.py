"""Untrusted text cannot steer a terminal or hide anything."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from cts_async.tables.output import plain, print_line, print_plainly, unbroken, visible, wrapped


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


LONG_PATH = "runs/a-long/path/without/a/space"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("one two three", 7, "one two\nthree"),
        ("one two three", 13, "one two three"),
        ("a  b", 80, "a  b"),
        ("  note: one two", 12, "  note: one\n  two"),
        ("one\ntwo three", 5, "one\ntwo\nthree"),
        # What may be copied stays whole, however long it is.
        (f"see {LONG_PATH} there", 12, f"see\n{LONG_PATH}\nthere"),
        (f"Next: {unbroken('cts view runs')} now", 14, "Next:\ncts view runs\nnow"),
        (f"Next: {unbroken('cts judge runs --judge NAME')}", 14, "Next:\ncts judge runs --judge NAME"),
        # A Chinese character takes two columns.
        ("汉字 汉字 ab", 9, "汉字 汉字\nab"),
        ("汉字 汉字 ab", 8, "汉字\n汉字 ab"),
        ("a\x1b[2J b\tc", 80, "a?[2J b?c"),
        ("", 10, ""),
    ],
)
def test_lines_break_between_words_only(text: str, width: int, shown: str) -> None:
    assert wrapped(text, width) == shown


@given(st.text(alphabet="ab 汉\x1b\n", max_size=40), st.integers(1, 20))
def test_wrapping_loses_nothing_and_only_single_words_are_too_long(text: str, width: int) -> None:
    lines = wrapped(text, width).split("\n")
    assert "".join("".join(lines).split()) == "".join(plain(text, lines=True).split())
    for line in lines:
        assert cell_len(line) <= width or " " not in line.lstrip(" ")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_only_a_terminal_gets_line_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"cts: unknown model 'nosuch'; known: gpt, claude; type {unbroken('cts init')}"
    plainly = "cts: unknown model 'nosuch'; known: gpt, claude; type cts init\n"
    in_lines = "cts: unknown model 'nosuch';\nknown: gpt, claude; type\ncts init\n"
    monkeypatch.setattr("os.get_terminal_size", lambda fd: os.terminal_size((30, 24)))
    terminal, file = Terminal(), io.StringIO()
    print_line(text, terminal)
    print_line(text, file)
    assert (terminal.getvalue(), file.getvalue()) == (in_lines, plainly)
    for is_terminal, shown in ((True, in_lines), (False, plainly)):
        out = io.StringIO()
        print_plainly(Console(file=out, width=30, force_terminal=is_terminal, color_system=None), text)
        assert out.getvalue() == shown
    # Containers and CI jobs set sizes of 0.
    monkeypatch.setattr("os.get_terminal_size", lambda fd: os.terminal_size((0, 0)))
    print_line(text, terminal := Terminal())
    assert terminal.getvalue() == plainly
