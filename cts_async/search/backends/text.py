"""What others sent, as text that is safe to show and no longer than it may be."""

from __future__ import annotations

from typing import Final

_LINE_CHARS: Final = 200


def one_line(text: str, limit: int = _LINE_CHARS) -> str:
    """`text` on one line without control characters, cut with an ellipsis after `limit` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def capped(text: str, max_chars: int, chars: int | None = None) -> str:
    """`text` without surrounding space; what is longer than `max_chars` is cut there, and a note says so.

    `chars` is its full length where it comes cut already.
    """
    text = text.strip()
    chars = len(text) if chars is None else chars
    if chars <= max_chars:
        return text
    return f"{text[:max_chars].rstrip()}\n\n[Cut here: the page has {chars:,} characters.]"


def as_text(value: object) -> str:
    """A JSON value as text: "" for what is neither a string nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()
