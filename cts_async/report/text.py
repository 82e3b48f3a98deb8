"""Untrusted text made safe to print or to read."""

from __future__ import annotations

from typing import Final
from unicodedata import category

# --- plain
#
# Text of unknown origin (a server's words, a page, a model's name) on its way to a terminal.


def plain(text: str, mark: str = "?", *, lines: bool = False) -> str:
    """`text` with `mark` for control characters, line breaks too unless `lines`: nobody's text moves the cursor.

    Spaces of other scripts and widths, such as the ideographic one in Chinese text, are spaces.
    """
    return "".join(c if c.isprintable() or (lines and c == "\n") else _instead(c, mark) for c in text)


def _instead(character: str, mark: str) -> str:
    return " " if category(character) == "Zs" else mark


# --- visible
#
# Text of unknown origin where it is read: what cannot be seen in it, or would turn what is around it, is shown.

_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Lines and columns, and the joiners that some scripts and emoji are written with."""


def visible(text: str) -> str:
    """`text` with [U+001B] for a control character, and so on for all that cannot be seen.

    So nothing in it hides, and nothing changes the direction of what follows. Variation selectors and spaces stay.
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
