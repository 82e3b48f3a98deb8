"""What of one text occurs in it alone: its words, numbers and neighbours, and where another text holds them.

Texts are compared in one width and case (NFKC, then case-folded), without characters that nobody sees, and with
years in digits. A unit is a word, a number, or one
ideograph; punctuation and space only part units. Of q*, these are secret where nobody was told them:

- every *pair* of neighbouring units that stands in no text told, and so every longer run with such a pair;
- every single *number* that stands in no text told;
- every single *word* that stands in no text told, unless it says nothing by itself: a function word, or a
  word of the prompts, which everybody reads. A single ideograph says nothing by itself: its pairs do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from cts_async.protocol.audit.numerals import with_years_in_digits
from cts_async.protocol.audit.words import FUNCTION_WORDS

HAN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ideographs and kana, as the inside of a character class: scripts that put no space between words."""

_UNIT: Final = re.compile(
    rf"[{HAN}]|\d+(?:[.,]\d+)*|(?:(?![{HAN}])[^\W\d_])+(?:['’](?:(?![{HAN}])[^\W\d_])+)?"
)
_IS_HAN: Final = re.compile(f"[{HAN}]")
_INVISIBLE: Final = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]+"
)
_THOUSANDS: Final = re.compile(r",(?=\d{3}(?!\d))")


class Unit(NamedTuple):
    """A word, number or ideograph, and where in the normalised text it stands."""

    text: str
    start: int
    end: int

    @property
    def is_number(self) -> bool:
        return self.text[0].isdecimal()

    @property
    def is_han(self) -> bool:
        return _IS_HAN.match(self.text) is not None


def normalised(text: str) -> str:
    """The text in one width and case, and as `plain` says."""
    return text.lower() if text.isascii() else plain(text).casefold()


def plain(text: str) -> str:
    """The text in one width, without soft hyphens and whatever else is invisible, and with years in digits."""
    return with_years_in_digits(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def units(text: str) -> list[Unit]:
    """The units of a *normalised* text, in order. A number has no separators of thousands."""
    return [Unit(_ungrouped(found[0]), found.start(), found.end()) for found in _UNIT.finditer(text)]


def names(text: str) -> list[str]:
    """The units of any text, in order, without their places."""
    return [_ungrouped(unit) for unit in _UNIT.findall(normalised(text))]


def _ungrouped(unit: str) -> str:
    return _THOUSANDS.sub("", unit) if unit[0].isdecimal() else unit


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that somebody was told: its single units, and its pairs of neighbours within one text."""

    singles: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Told:
        singles: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for text in texts:
            found = names(text)
            singles.update(found)
            pairs.update(pairwise(found))
        return cls(frozenset(singles), frozenset(pairs))


@dataclass(frozen=True, slots=True)
class Secret:
    """The units and pairs of a text that somebody else must not have; see the module's rule."""

    singles: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str, told: Iterable[str], vocabulary: Collection[str] = frozenset()) -> Secret:
        """What of `text` none of the texts `told` holds. `vocabulary`: words that say nothing by themselves."""
        own, known = units(normalised(text)), Told.of(told)
        singles = {
            unit.text
            for unit in own
            if unit.text not in known.singles
            and (
                unit.is_number or not (unit.is_han or unit.text in FUNCTION_WORDS or unit.text in vocabulary)
            )
        }
        pairs = pairwise(unit.text for unit in own)
        return cls(frozenset(singles), frozenset(pairs) - known.pairs)

    def spans(self, text: str) -> Iterator[str]:
        """The longest pieces of `text` (normalised) that are made of this, in order."""
        text = normalised(text)
        found = units(text)
        taken = [unit.text in self.singles for unit in found]
        for i, (left, right) in enumerate(pairwise(found)):
            if (left.text, right.text) in self.pairs:
                taken[i] = taken[i + 1] = True
        start: int | None = None
        for i, unit in enumerate(found):
            if taken[i]:
                start = unit.start if start is None else start
                if i + 1 == len(found) or not taken[i + 1]:
                    yield text[start : unit.end]
                    start = None


def vocabulary_of(texts: Iterable[str]) -> frozenset[str]:
    """The words of `texts` (prompts, that everybody reads), without numbers and single ideographs."""
    return frozenset(
        unit.text for text in texts for unit in units(normalised(text)) if not (unit.is_number or unit.is_han)
    )
