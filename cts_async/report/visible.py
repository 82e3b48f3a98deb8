"""Text of unknown origin where it is read: what cannot be seen in it, or would turn what is around it, is shown."""

from __future__ import annotations

from typing import Final
from unicodedata import category

_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Lines and columns, and the joiners that some scripts and emoji are written with."""


def visible(text: str) -> str:
    """`text` with a sign for each control character (␛), and [U+202E] for other invisible ones.

    So nothing in it hides, and nothing changes the direction of what follows. Variation selectors and spaces stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT else _sign(c) for c in text)


def _sign(character: str) -> str:
    code, kind = ord(character), category(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if kind == "Zs":
        return character
    if kind == "Cs":  # half a character: UTF-8 cannot hold it
        return "�"
    return "␡" if code == 0x7F else f"[U+{code:04X}]"
