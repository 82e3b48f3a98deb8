"""Colours and labels of figures."""

from __future__ import annotations

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cts_async.pages.plots.figure import (
    DASHES,
    N_COLOURS,
    SYMBOLS,
    THEMES,
    Theme,
    escaped,
    folded,
    template,
)


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_series_are_legible_in_every_theme(theme: Theme) -> None:
    """4.5 : 1, which text on bars needs as well."""
    style = template(theme)
    layout, (heatmap,) = style["layout"], style["data"]["heatmap"]
    text, ground, series = layout["font"]["color"], layout["hoverlabel"]["bgcolor"], layout["colorway"]
    assert len(set(series)) == N_COLOURS
    assert all(contrast(one, ground) >= 4.5 for one in (text, layout["xaxis"]["linecolor"], *series))
    assert all(contrast(text, colour) >= 4.5 for _, colour in heatmap["colorscale"])


def test_no_two_of_88_series_have_the_same_colour_and_marker() -> None:
    looks = {(i % N_COLOURS, SYMBOLS[i % len(SYMBOLS)]) for i in range(88)}
    assert len(looks) == 88
    assert len({(i % N_COLOURS, DASHES[i % len(DASHES)]) for i in range(40)}) == 40


LINK = '<a href="javascript:alert(1)">x</a>'


def test_labels_have_no_markup_and_no_invisible_characters() -> None:
    assert escaped(LINK) == '&lt;a href="javascript:alert(1)"&gt;x&lt;/a&gt;'
    assert escaped("R&amp;D <b>") == "R&amp;amp;D &lt;b&gt;"
    assert escaped("a\nb\x1b[1m\u202ec") == "a\ufffdb\ufffd[1m\ufffdc"


def test_long_names_break_after_hyphens_and_keep_both_ends() -> None:
    """Three lines of four columns: eight letters of the beginning and three of the end, beside the ellipsis."""
    assert folded("kimi-at-cot-respond-k3", 12) == "kimi-at-cot-<br>respond-k3"
    assert folded("通义千问", 4) == "通义<br>千问"
    assert folded("abcdefghijklmnopq-k3", 4) == "abcd<br>efgh<br>…-k3"


@given(st.text(max_size=120), st.integers(2, 30))
def test_no_line_is_wider_than_allowed_and_none_is_markup(text: str, width: int) -> None:
    lines = folded(text, width).split("<br>")
    assert len(lines) <= 3
    assert all(cell_len(unescape(line)) <= width for line in lines)
    assert not any("<" in line or ">" in line for line in lines)
