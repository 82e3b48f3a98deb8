"""Word lists as data: typed words of clarifying questions (question_words.toml), and regions (regions.txt).

The list of regions is compact on purpose. A region that is not in it is not seen, and what is named after a place
(北京大学) counts as naming it.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

QuestionType: TypeAlias = Literal["time", "region", "entity", "scope", "criterion", "other"]

QUESTION_TYPES: Final[tuple[QuestionType, ...]] = ("time", "region", "entity", "scope", "criterion", "other")

_WORDS: Final = Path(__file__).with_name("question_words.toml")
_REGIONS: Final = Path(__file__).with_name("regions.txt")


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


Phrases: TypeAlias = tuple[tuple[re.Pattern[str], QuestionType], ...]


def rules(language: Literal["en", "zh"]) -> tuple[dict[str, Lexicon], Phrases, dict[str, re.Pattern[str]]]:
    """Load the rules of one language: lexicons by name (nouns, weak, values, mentions, and short in Chinese), phrases
    that have a type whatever noun is near them, and other patterns by name.
    """
    tables = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    words = {name: Lexicon(listed, inflected=language == "en") for name, listed in tables[language].items()}
    phrases = tuple((re.compile(pattern), kind) for kind, pattern in tables["phrases"][language])
    patterns = {name: re.compile(pattern) for name, pattern in tables["patterns"][language].items()}
    return words, phrases, patterns


def _singular_and_plural(word: str) -> tuple[str, ...]:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word, f"{word[:-1]}ies"
    return word, f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


# Regions that a query names, and the regions that enclose them


def regions_in(text: str) -> frozenset[str]:
    """Return the regions that a text names, each by its first name in the list: {"Beijing"} for 北京 and beijing.

    Of overlapping names the longest counts: "West Virginia" does not name Virginia.
    """
    pattern, by_name = _pattern()
    normalised = unicodedata.normalize("NFKC", text)
    names = (match.group() for match in pattern.finditer(normalised))
    return frozenset(by_name.get(name) or by_name[name.casefold()] for name in names)


def lower_case_names() -> tuple[str, ...]:
    """Return all names in lower case, without those that are other words then (us, turkey)."""
    return tuple(name.casefold() for name in _regions()[1] if not name.startswith("="))


def enclosing(region: str) -> Iterator[str]:
    """Yield the regions that this one lies in, the smallest first."""
    parents = _regions()[0]
    while parent := parents[region]:
        yield parent
        region = parent


@cache
def _regions() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Parse the file: the parent of each region ("" for a continent), and the region by spelling, "=" included."""
    parents: dict[str, str] = {}
    spellings: dict[str, str] = {}
    path: list[str] = []
    for line in _REGIONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        names = [name.strip() for name in line.split("/")]
        region = names[0].removeprefix("=")
        path = [*path[:depth], region]
        parents[region] = path[-2] if depth else ""
        spellings.update(dict.fromkeys(names, region))
    return parents, spellings


@cache
def _pattern() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Compile a pattern for all names, and map names to regions (in lower case but for those marked with "=")."""
    by_name: dict[str, str] = {}
    alternatives = []
    for spelling, region in _regions()[1].items():
        exact, name = spelling.startswith("="), spelling.removeprefix("=")
        by_name[name if exact else name.casefold()] = region
        text = re.escape(name) if exact else f"(?i:{re.escape(name)})"
        # Latin names need word boundaries; Chinese is written without them.
        alternatives.append((len(name), rf"(?<![A-Za-z]){text}(?![A-Za-z])" if name[0].isascii() else text))
    alternatives.sort(key=lambda one: -one[0])
    return re.compile("|".join(text for _, text in alternatives)), by_name
