"""Which of the questions that people were asked is the one that a Clarifier asks now.

Equal but for case, punctuation and space, else the most similar one, if it is similar enough. Similar is the mean of
two of rapidfuzz's measures, in per cent: `ratio` of the whole questions, and `token_sort_ratio` of what is left of
them without the words that most questions share ("are you looking for ..."). One alone is not enough: the first
takes such a frame for the question, the second forgives no typing error.

Measured over Qulac's 762 facets by `python -m benchmarks matching`, at the threshold of 85: of a facet's own
questions, changed in one place, are found as themselves 100 % (two words swapped, or "could you tell me" put before),
96 % (another frame), 88 % (two letters swapped) and 86 % (a word left out). 0.3 % of the questions of another topic
match one of the facet's, as general as they are. A question about the same facet that people were not asked matches
another 5 % of the time; the answer is at any rate that of somebody with the same intent. These are 0.5 % and 24 % at
75; at 90 they are 0 and 1 %, but of questions in another frame only 67 % are found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cts_async.search.terms import STOP_WORDS

THRESHOLD: Final = 85.0
"""Per cent; what is less similar is another question."""

_SHARED: Final = """
    ask asking curious find finding get information interest interested know like learn learning look looking
    mean need please refer referring search searching see seeking tell thinking try trying want wonder wondering
"""
_FRAME: Final = STOP_WORDS | frozenset(_SHARED.split())


@dataclass(frozen=True, slots=True)
class Match:
    """Place of the matched question among those there are, and how similar it is: over `THRESHOLD`, to 100."""

    index: int
    similarity: float


def best_match(question: str, known: Iterable[str]) -> Match | None:
    """The first of the most similar questions; None where none is similar enough."""
    asked = normalised(question)
    best = None
    for index, text in enumerate(known):
        similarity = _similarity(asked, normalised(text))
        if similarity >= THRESHOLD and (best is None or similarity > best.similarity):
            best = Match(index, similarity)
    return best


def normalised(question: str) -> str:
    """The question's letters and digits in one width and case, single spaces between words."""
    text = unicodedata.normalize("NFKC", question).casefold()
    return " ".join("".join(sign for sign in text if sign.isalnum() or sign.isspace()).split())


def _similarity(one: str, other: str) -> float:
    """Of two normalised questions, from 0 to 100. Empty ones are similar to nothing."""
    from rapidfuzz import fuzz

    if not one or not other:
        return 0.0
    if one == other:
        return 100.0
    return (fuzz.ratio(one, other) + fuzz.token_sort_ratio(_content(one), _content(other))) / 2


def _content(question: str) -> str:
    """What of a normalised question is not its frame; all of it, where that is all there is."""
    return " ".join(word for word in question.split() if word not in _FRAME) or question
