"""Text for terminals: untrusted text made safe, and durations."""

from __future__ import annotations

from typing import Final
from unicodedata import category


def plain(text: str, mark: str = "?", *, lines: bool = False) -> str:
    """Replace control characters by `mark`, and line breaks unless `lines`, so that text cannot steer a terminal.

    Spaces of other scripts and widths, such as the ideographic one in Chinese text, become plain spaces.
    """
    return "".join(c if c.isprintable() or (lines and c == "\n") else _instead(c, mark) for c in text)


def _instead(character: str, mark: str) -> str:
    return " " if category(character) == "Zs" else mark


_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Line breaks, tabs, and the joiners that some scripts and emoji are written with."""


def visible(text: str) -> str:
    """Make invisible characters visible: [U+001B] for a control character, and so on.

    Nothing is hidden then, and nothing changes the direction of the text that follows. Variation selectors and spaces
    stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT else _sign(c) for c in text)


def _sign(character: str) -> str:
    kind = category(character)
    if kind == "Zs":
        return character
    if kind == "Cs":  # half a character: UTF-8 cannot hold it
        return "�"
    return f"[U+{ord(character):04X}]"


def duration(seconds: float) -> str:
    """Format seconds: `0:07`, `12:30`, `3:05:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
