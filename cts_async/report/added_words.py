"""Mark the words of a rewritten query that the blurred query does not have."""

from __future__ import annotations

from collections.abc import Iterator
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
    found: list[Segment] = []
    for text, added in _joined(_marked(rewritten, folded, known)):
        found.append({"text": text, "added": added})
    return found


def _marked(text: str, blurred: str, known: set[str]) -> Iterator[tuple[str, bool | None]]:
    """Yield each piece, and whether it is added; None for pieces that are not words."""
    for piece in pieces(text):
        if not is_word(piece):
            yield piece, None
        elif language_of(piece) == "zh":
            yield piece, fold(piece) not in blurred
        else:
            yield piece, stem(fold(piece)) not in known


def _joined(marked: Iterator[tuple[str, bool | None]]) -> Iterator[tuple[str, bool]]:
    """Join adjacent pieces of one kind; what is between two added words counts as added."""
    parts: list[tuple[str, bool]] = []
    between = ""
    for text, added in marked:
        if added is None:
            between += text
            continue
        if between and not (added and parts and parts[-1][1]):
            parts.append((between, False))
            between = ""
        parts.append((between + text, added))
        between = ""
    if between:
        parts.append((between, False))
    run, kind = "", False
    for text, added in parts:
        if added != kind and run:
            yield run, kind
            run = ""
        run, kind = run + text, added
    if run:
        yield run, kind
