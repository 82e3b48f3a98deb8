"""Anybody's text on its way into a figure.

Plotly takes some of what stands in angle brackets for markup (`<b>`, `<a href>`, `<br>`), and decodes entities: here
brackets and ampersands become entities, which it shows as the characters they were. Texts stand in fields that plotly
fills no `%{...}` into (`text`, `hovertext`, `ticktext`, `name`), never in templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from unicodedata import east_asian_width

from cts_async.report.text import plain

NAME_WIDTH: Final = 18
"""Columns of a name on an axis: what leaves half of a phone's width to the figure."""
LEGEND_WIDTH: Final = 26
TITLE_WIDTH: Final = 34
"""Columns of an axis' title on a phone."""
_LINES: Final = 3
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def shown(text: str) -> str:
    """Text that plotly shows as it is, on one line; controls and marks of direction become U+FFFD."""
    return "".join(
        _ENTITIES.get(character, character) for character in plain(text, "\N{REPLACEMENT CHARACTER}")
    )


def folded(text: str, width: int = NAME_WIDTH) -> str:
    """`shown` on up to three lines of `width` columns, broken after hyphens and spaces where there are any.

    A Chinese character has two columns. Of a name that does not fit the middle is left out: systems differ in how
    they begin (the model) and in how they end (the budget).
    """
    whole = plain(text, "\N{REPLACEMENT CHARACTER}")
    lines, keep = list(_lines(whole, width)), min(len(whole), _LINES * width)
    while len(lines) > _LINES:
        keep -= 1
        tail = keep // 3
        lines = list(_lines(f"{whole[: keep - tail]}…{whole[len(whole) - tail :]}", width))
    return "<br>".join(shown(line.strip()) for line in lines)


def _lines(text: str, width: int) -> Iterator[str]:
    line = ""
    for piece in _pieces(text, width):
        if line and columns(line + piece.rstrip()) > width:
            yield line
            line = ""
        line += piece
    yield line


def _pieces(text: str, width: int) -> Iterator[str]:
    """Parts that a line may end after; none is wider than a line."""
    for part in re.findall(r"[^-_/+ ]*[-_/+ ]+|[^-_/+ ]+", text):
        piece = ""
        for character in part:
            if columns(piece + character) > width:
                yield piece
                piece = ""
            piece += character
        yield piece


def columns(text: str) -> int:
    """How wide text is, in letters."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
