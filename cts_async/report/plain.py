"""Text of unknown origin (a server's words, a page, a model's name) on its way to a terminal."""

from __future__ import annotations

from unicodedata import category


def plain(text: str, mark: str = "?", *, lines: bool = False) -> str:
    """`text` with `mark` for control characters, line breaks too unless `lines`: nobody's text moves the cursor.

    Spaces of other scripts and widths, such as the ideographic one in Chinese text, are spaces.
    """
    return "".join(c if c.isprintable() or (lines and c == "\n") else _instead(c, mark) for c in text)


def _instead(character: str, mark: str) -> str:
    return " " if category(character) == "Zs" else mark
