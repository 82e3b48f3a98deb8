"""Words of one language by the type of clarifying question that asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

QuestionType: TypeAlias = Literal["time", "region", "entity", "scope", "criterion", "other"]

QUESTION_TYPES: Final[tuple[QuestionType, ...]] = ("time", "region", "entity", "scope", "criterion", "other")


class Lexicon:
    """Finds typed words in a text; of words that begin at the same place the longest counts.

    A word listed under `other` has no type: it keeps shorter words inside it from being found. With
    `inflected`, words are whole words of the Latin alphabet, in the singular or the plural.
    """

    def __init__(self, words: Mapping[QuestionType, str], *, inflected: bool = False) -> None:
        spelled = [
            (spelling, kind)
            for kind, listed in words.items()
            for word in listed.split()
            for spelling in (_numbers(word.replace("_", " ")) if inflected else (word,))
        ]
        self._kinds: dict[str, QuestionType] = dict(spelled)
        longest_first = sorted(self._kinds, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        self._words = re.compile(rf"\b(?:{pattern})\b" if inflected else pattern)
        self._ending = re.compile(rf"(?:{self._words.pattern})$")

    def find(self, text: str) -> Iterator[tuple[int, QuestionType]]:
        """Where typed words begin, in the order of the text."""
        for found in self._words.finditer(text):
            if (kind := self._kinds[found[0]]) != "other":
                yield found.start(), kind

    def first(self, text: str) -> QuestionType | None:
        """The type of the first typed word; None where there is none."""
        return next((kind for _, kind in self.find(text)), None)

    def last(self, text: str) -> QuestionType | None:
        """The type of the last typed word; None where there is none."""
        return next((kind for _, kind in reversed(list(self.find(text)))), None)

    def ending(self, text: str) -> QuestionType | None:
        """The type of the typed word that the text ends with; None where it ends with none."""
        found = self._ending.search(text)
        return None if found is None or self._kinds[found[0]] == "other" else self._kinds[found[0]]

    def has(self, text: str, kind: QuestionType) -> bool:
        """Whether a word of this type occurs."""
        return any(found == kind for _, found in self.find(text))


def _numbers(word: str) -> tuple[str, ...]:
    """A word in the singular, and as the rules of English make its plural."""
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word, f"{word[:-1]}ies"
    return word, f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
