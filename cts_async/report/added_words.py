"""Which words of a rewritten query were not in the query that it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypedDict

_HAN: Final = "㐀-鿿豈-﫿"
_PIECE: Final = re.compile(rf"[{_HAN}]|[^\W{_HAN}]+|\s+|[^\w\s]")
_IDEOGRAPH: Final = re.compile(rf"[{_HAN}]")


class Stretch(TypedDict):
    """Consecutive words that were all added, or all there before."""

    text: str
    added: bool


def stretches(blurred: str, rewritten: str) -> list[Stretch]:
    """The rewritten query in stretches, which together are it; case does not matter.

    A Chinese character was there before if it stands beside the same neighbour in both: alone it says too little.
    White space and punctuation go with what is before them. [] for no text.
    """
    found: list[Stretch] = []
    for text, added in _marked(blurred.casefold(), rewritten):
        if found and (added is None or found[-1]["added"] == added):
            found[-1]["text"] += text
        else:
            found.append({"text": text, "added": bool(added)})
    return found


def _marked(blurred: str, rewritten: str) -> Iterator[tuple[str, bool | None]]:
    """Each piece, with whether it was added; None for what is no word."""
    known = set(_PIECE.findall(blurred))
    pairs = {blurred[i : i + 2] for i in range(len(blurred) - 1)}
    for piece in _PIECE.finditer(rewritten):
        text = piece[0].casefold()
        if not text[:1].isalnum():
            yield piece[0], None
        elif _IDEOGRAPH.match(text):
            beside = rewritten[max(0, piece.start() - 1) : piece.end() + 1].casefold()
            alone = len(known) == 1 and text in known
            yield piece[0], not (alone or any(beside[i : i + 2] in pairs for i in range(len(beside) - 1)))
        else:
            yield piece[0], text not in known
