"""Mark the words of a rewritten query that the blurred query does not have."""

from __future__ import annotations

from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final, TypedDict

from cts_async.records import language_of
from cts_async.search.terms import fold, is_word, pieces, stem


class Segment(TypedDict):
    """A part of a text, and whether the other text does not have it."""

    text: str
    added: bool


MAX_CHARS: Final = 20_000
"""Longer texts are returned unmarked."""


def segments(blurred: str, rewritten: str) -> list[Segment]:
    """Split the rewritten query into segments, marked or not; nothing is marked if there is nothing to compare with.

    Words are compared without regard to case, width, accents and English endings; Chinese ones by where they stand
    in the blurred query, however that is cut into words.
    """
    if not blurred.strip() or max(len(blurred), len(rewritten)) > MAX_CHARS:
        return [{"text": rewritten, "added": False}] if rewritten else []
    folded = fold(blurred)
    known = {stem(fold(piece)) for piece in pieces(blurred) if is_word(piece)}
    parts = list(pieces(rewritten))
    added = [_is_added(part, folded, known) for part in parts]
    # What is between two added words counts as added, too; what is next to another word does not.
    before = accumulate(added, _nearest)
    after = [*accumulate(reversed(added), _nearest)][::-1]
    joined = ((part, bool(left and right)) for part, left, right in zip(parts, before, after, strict=True))
    return [
        {"text": "".join(part for part, _ in same), "added": added}
        for added, same in groupby(joined, key=itemgetter(1))
    ]


def _nearest(word: bool | None, part: bool | None) -> bool | None:
    return word if part is None else part


def _is_added(piece: str, blurred: str, known: set[str]) -> bool | None:
    """True for a word that the blurred query does not have; None for what is not a word."""
    if not is_word(piece):
        return None
    if language_of(piece) == "zh":
        return fold(piece) not in blurred
    return stem(fold(piece)) not in known
