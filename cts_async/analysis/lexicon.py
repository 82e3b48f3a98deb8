"""Word lists as data: typed words of clarifying questions (question_words.toml), and regions (regions.txt).

The list of regions is compact on purpose. A region that is not in it is not seen, and what is named after a place
(北京大学) counts as naming it.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
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
        self._types: dict[str, QuestionType] = {}
        for kind, listed in words.items():
            for word in listed.split():
                spellings: tuple[str, ...] = (word,)
                if inflected:
                    spellings = _singular_and_plural(word.replace("_", " "))
                self._types.update(dict.fromkeys(spellings, kind))
        # The first alternative that matches wins, so the longest has to come first.
        longest_first = sorted(self._types, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        # Chinese is written without spaces: it has no word boundaries.
        if inflected:
            pattern = rf"\b(?:{pattern})\b"
        self._pattern = pattern

    # Compiled when first used: hundreds of words take longer than most commands, which read no question, need to start.

    @cached_property
    def _words(self) -> re.Pattern[str]:
        return re.compile(self._pattern)

    @cached_property
    def _ending(self) -> re.Pattern[str]:
        return re.compile(rf"(?:{self._pattern})$")

    def find(self, text: str) -> Iterator[tuple[int, QuestionType]]:
        """Yield the position and type of each typed word, in the order of the text."""
        for match in self._words.finditer(text):
            kind = self._types[match[0]]
            if kind != "other":
                yield match.start(), kind

    def first(self, text: str) -> QuestionType | None:
        """Return the type of the first typed word, or None."""
        for _, kind in self.find(text):
            return kind
        return None

    def last(self, text: str) -> QuestionType | None:
        """Return the type of the last typed word, or None."""
        kinds = [kind for _, kind in self.find(text)]
        if not kinds:
            return None
        return kinds[-1]

    def ending(self, text: str) -> QuestionType | None:
        """Return the type of the typed word that the text ends with, or None."""
        match = self._ending.search(text)
        if match is None or self._types[match[0]] == "other":
            return None
        return self._types[match[0]]


Phrases: TypeAlias = tuple[tuple[re.Pattern[str], QuestionType], ...]


def rules(language: Literal["en", "zh"]) -> tuple[dict[str, Lexicon], Phrases, dict[str, re.Pattern[str]]]:
    """Load the rules of one language: lexicons by name (nouns, weak, values, mentions, and short in Chinese), phrases
    that have a type whatever noun is near them, and other patterns by name.
    """
    tables = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    lexicons: dict[str, Lexicon] = {}
    for name, words in tables[language].items():
        lexicons[name] = Lexicon(words, inflected=language == "en")
    phrases = tuple((re.compile(pattern), kind) for kind, pattern in tables["phrases"][language])
    patterns = {name: re.compile(pattern) for name, pattern in tables["patterns"][language].items()}
    return lexicons, phrases, patterns


def _singular_and_plural(word: str) -> tuple[str, ...]:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word, f"{word[:-1]}ies"
    if word.endswith(("s", "x", "ch", "sh")):
        return word, f"{word}es"
    return word, f"{word}s"


# Regions that a query names, and the regions that enclose them


def regions_in(text: str) -> frozenset[str]:
    """Return the regions that a text names, each by its first name in the list: {"Beijing"} for 北京 and beijing.

    Of overlapping names the longest counts: "West Virginia" does not name Virginia.
    """
    pattern, by_name = _name_pattern()
    regions: set[str] = set()
    for match in pattern.finditer(unicodedata.normalize("NFKC", text)):
        name = match.group()
        regions.add(by_name.get(name) or by_name[name.casefold()])
    return frozenset(regions)


def lower_case_names() -> tuple[str, ...]:
    """Return all names in lower case, without those that are other words then (us, turkey)."""
    _, spellings = _regions()
    return tuple(name.casefold() for name in spellings if not name.startswith("="))


def enclosing(region: str) -> Iterator[str]:
    """Yield the regions that this one lies in, the smallest first."""
    parents, _ = _regions()
    parent = parents[region]
    while parent:
        yield parent
        parent = parents[parent]


@cache
def _regions() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Parse the file: the parent of each region ("" for a continent), and the region by spelling, "=" included."""
    parents: dict[str, str] = {}
    spellings: dict[str, str] = {}
    outer: list[str] = []
    for line in _REGIONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        names = [name.strip() for name in line.split("/")]
        region = names[0].removeprefix("=")
        del outer[depth:]
        parents[region] = ""
        if outer:
            parents[region] = outer[-1]
        outer.append(region)
        spellings.update(dict.fromkeys(names, region))
    return parents, spellings


@cache
def _name_pattern() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Compile a pattern for all names, and map names to regions (in lower case but for those marked with "=")."""
    by_name: dict[str, str] = {}
    pattern_by_name: dict[str, str] = {}
    _, spellings = _regions()
    for spelling, region in spellings.items():
        name = spelling.removeprefix("=")
        pattern = re.escape(name)
        if spelling.startswith("="):
            by_name[name] = region
        else:
            by_name[name.casefold()] = region
            pattern = f"(?i:{pattern})"
        # Latin names need word boundaries; Chinese is written without them.
        if name[0].isascii():
            pattern = rf"(?<![A-Za-z]){pattern}(?![A-Za-z])"
        pattern_by_name[name] = pattern
    # The first alternative that matches wins: "West Virginia" has to come before "Virginia".
    longest_first = sorted(pattern_by_name, key=len, reverse=True)
    return re.compile("|".join(pattern_by_name[name] for name in longest_first)), by_name
