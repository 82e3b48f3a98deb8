"""What a rewritten query holds that no answer elicited (paper, section 3.2: no new constraint in q-hat).

An answer elicits its own text, and its question's too unless it is `unknown` or a denial: "Do you mean
Europe?", "yes". Beyond q and what was elicited, a rewritten query may not bring in a *constraint*:

- a number, or a name (a capitalised word, a known place, a 《title》);
- any other word that q* has too, unless it is a function word, a word of the prompts or a general word
  ("price", "办法"), which every clearer query may bring along;
- a run of Chinese that q* has too, of which at least two characters are new and bound to no general word.

It is a *leak* if q* has it while q, the questions and the answers do not: a lucky guess, a model that knows
the benchmark by heart, or a leak; nobody can tell from the text, so it violates. It is *unsupported* if q*
does not have it either (invented), or if a question suggested it and nobody confirmed that. Words are
compared without their endings, numbers in words like those in digits, and characters one by one, so that
saying the same otherwise is no finding. Simplified and traditional characters are different ones here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from cts_async.protocol.audit.numerals import spelled
from cts_async.protocol.audit.text import Told, Unit, normalised, plain, units
from cts_async.protocol.audit.words import (
    FUNCTION_HAN,
    FUNCTION_WORDS,
    GENERAL,
    GENERAL_HAN,
    PLACES,
    PLACES_HAN,
)
from cts_async.records import UNKNOWN
from cts_async.search.backends.tokens import stem

_DENIAL: Final = re.compile(r"(?:no|nope|not|none|neither|不|否|没|无|都不|并不|并非)(?![a-z])")
_TITLE: Final = re.compile(r"《([^《》]{1,60})》")
_GENERAL_STEMS: Final = frozenset(map(stem, GENERAL))
_GENERAL_RUN: Final = re.compile("|".join(map(re.escape, GENERAL_HAN)))


@dataclass(frozen=True, slots=True)
class Addition:
    """A constraint that no answer elicited, as it stands in the (normalised) rewritten query."""

    level: Literal["leak", "unsupported"]
    text: str


class _Known:
    """A few texts, to be asked what they hold: words without endings, characters, names."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = "\n".join(normalised(text) for text in texts)
        told = Told.of(self.text.split("\n"))
        self.digits = {single for single in told.singles if single[0].isdecimal()}
        self.names = {stem(single) for single in told.singles} | spelled(self.text)
        self.pairs = told.pairs

    def has(self, unit: Unit) -> bool:
        return stem(unit.text.casefold()) in self.names


def additions(
    q_hat: str,
    q: str,
    q_star: str,
    pairs: Sequence[tuple[str, str]],
    vocabulary: Collection[str] = frozenset(),
) -> list[Addition]:
    """The constraints of `q_hat` that `pairs` (question, answer) did not elicit, each once; empty: it is clean."""
    elicited = [answer for _, answer in pairs if answer != UNKNOWN]
    confirmed = [question for question, answer in pairs if answer != UNKNOWN and not _denied(answer)]
    told = _Known([q, *elicited, *confirmed])
    asked = _Known([q, *elicited, *(question for question, _ in pairs)])
    star = _Known([q_star])
    found = [*_names(q_hat, told, asked, star), *_words(q_hat, told, asked, star, vocabulary)]
    found += [Addition("leak", number) for number in sorted(_spelled(q_hat, asked, star))]
    runs = [run for run in _runs(q_hat, asked, star) if not any(run in addition.text for addition in found)]
    found = [a for a in found if not any(a.text in run for run in runs)]
    return list(dict.fromkeys([*found, *(Addition("leak", run) for run in runs)]))


def _denied(answer: str) -> bool:
    return _DENIAL.match(normalised(answer).strip()) is not None


def _level(in_star: bool, in_asked: bool) -> Literal["leak", "unsupported"]:
    return "leak" if in_star and not in_asked else "unsupported"


def _names(q_hat: str, told: _Known, asked: _Known, star: _Known) -> Iterator[Addition]:
    """Chinese places and titles, found as pieces of the text."""
    text = normalised(q_hat)
    titles = [title[1].strip() for title in _TITLE.finditer(text)]
    for name in [*(place for place in PLACES_HAN if place in text), *titles]:
        if name and name not in told.text:
            yield Addition(_level(name in star.text, name in asked.text), name)


def _words(
    q_hat: str, told: _Known, asked: _Known, star: _Known, vocabulary: Collection[str]
) -> Iterator[Addition]:
    """Numbers, and words of scripts with spaces between them."""
    found = [unit for unit in units(plain(q_hat)) if not unit.is_han]
    named = _named(found)
    for unit in found:
        if told.has(unit):
            continue
        word = unit.text.casefold()
        in_star, in_asked = star.has(unit), asked.has(unit)
        if unit.is_number or unit in named:
            yield Addition(_level(in_star, in_asked), word)
        elif in_star and not in_asked and not _ordinary(word, vocabulary):
            yield Addition("leak", word)


def _spelled(q_hat: str, asked: _Known, star: _Known) -> set[str]:
    """Numbers that the rewritten query has in words and q* in digits; words in both are compared as words."""
    return set(spelled(normalised(q_hat)) & star.digits - asked.names)


def _ordinary(word: str, vocabulary: Collection[str]) -> bool:
    return word in FUNCTION_WORDS or word in vocabulary or stem(word) in _GENERAL_STEMS


def _named(found: Sequence[Unit]) -> set[Unit]:
    """The words written as names: capitalised within a text that is not capitalised anyway, or known places."""
    words = [unit for unit in found if not unit.is_number]
    capitalised = [unit for unit in words if unit.text[0].isupper()]
    places = {unit for unit in words if unit.text.casefold() in PLACES}
    if 2 * len(capitalised) > len(words):
        return places
    names = {unit for unit in capitalised if unit.start or (len(unit.text) > 1 and unit.text.isupper())}
    return places | {unit for unit in names if unit.text.casefold() not in FUNCTION_WORDS}


def _runs(q_hat: str, asked: _Known, star: _Known) -> Iterator[str]:
    """The longest runs of Chinese that q* has too and that say something new."""
    text = normalised(q_hat)
    found = units(text)
    start = end = -1
    for left, right in pairwise([*found, Unit("", -1, -1)]):
        shared = left.is_han and right.start == left.end and (left.text, right.text) in star.pairs
        if shared and (left.text, right.text) not in asked.pairs:
            start, end = (left.start if start < 0 else start), right.end
        elif start >= 0:
            if _says_something(text[start:end], asked):
                yield text[start:end]
            start = -1


def _says_something(run: str, asked: _Known) -> bool:
    """Whether two characters of the run are new and belong to no general word."""
    rest = _GENERAL_RUN.sub("", run)
    return sum(char not in FUNCTION_HAN and char not in asked.text for char in rest) >= 2
