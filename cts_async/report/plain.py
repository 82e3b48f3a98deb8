"""Text of unknown origin (a server's words, a page, a model's name) on its way to a terminal."""

from __future__ import annotations


def plain(text: str, mark: str = "?", *, lines: bool = False) -> str:
    """`text` with `mark` for control characters, line breaks too unless `lines`: nobody's text moves the cursor."""
    return "".join(c if c.isprintable() or (lines and c == "\n") else mark for c in text)
