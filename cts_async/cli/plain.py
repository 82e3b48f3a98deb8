"""Text of unknown origin, such as a server's words in an error, on its way to a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """`text` with `?` for control characters other than line breaks: nobody's error moves the cursor."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
