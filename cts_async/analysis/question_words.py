"""Typed words of clarifying questions: the lexicon, and the word lists of question_words.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

QuestionType: TypeAlias = Literal["time", "region", "entity", "scope", "criterion", "other"]

QUESTION_TYPES: Final[tuple[QuestionType, ...]] = ("time", "region", "entity", "scope", "criterion", "other")

_FILE: Final = Path(__file__).with_name("question_words.toml")


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
            for spelling in (_singular_and_plural(word.replace("_", " ")) if inflected else (word,))
        ]
        self._types: dict[str, QuestionType] = dict(spelled)
        longest_first = sorted(self._types, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        self._words = re.compile(rf"\b(?:{pattern})\b" if inflected else pattern)
        self._ending = re.compile(rf"(?:{self._words.pattern})$")

    def find(self, text: str) -> Iterator[tuple[int, QuestionType]]:
        """Yield the position and type of each typed word, in the order of the text."""
        for found in self._words.finditer(text):
            if (kind := self._types[found[0]]) != "other":
                yield found.start(), kind

    def first(self, text: str) -> QuestionType | None:
        """Return the type of the first typed word, or None."""
        return next((kind for _, kind in self.find(text)), None)

    def last(self, text: str) -> QuestionType | None:
        """Return the type of the last typed word, or None."""
        return next((kind for _, kind in reversed(list(self.find(text)))), None)

    def ending(self, text: str) -> QuestionType | None:
        """Return the type of the typed word that the text ends with, or None."""
        found = self._ending.search(text)
        return None if found is None or self._types[found[0]] == "other" else self._types[found[0]]

    def has(self, text: str, kind: QuestionType) -> bool:
        """True if a word of this type occurs in the text."""
        return any(found == kind for _, found in self.find(text))


def lexicons(language: Literal["en", "zh"]) -> dict[str, Lexicon]:
    """Load the lexicons of one language by name: nouns, weak, values, mentions (and short in Chinese)."""
    with _FILE.open("rb") as file:
        lists = tomllib.load(file)[language]
    return {name: Lexicon(words, inflected=language == "en") for name, words in lists.items()}


def _singular_and_plural(word: str) -> tuple[str, ...]:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word, f"{word[:-1]}ies"
    return word, f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
