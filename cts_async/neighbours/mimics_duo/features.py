"""Features of a query and a clarification pane for learning to rank (MIMICS-Duo, SIGIR 2022, section 3.1, table 2).

The paper has 110: three similarities of six inputs (query, related search, video title and description, document
title, snippet) to six fields of a pane, the number of options, and whether the question is one. MIMICS-Duo ships only
the query of those inputs, which leaves 3 x 6 + 2 = 20; the other 90 need Bing's result pages. Names are those of table
5. Document frequencies are those of the panes that are given as `Collections`: of training panes only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from rapidfuzz import fuzz

from cts_async.neighbours.mimics_duo.ties import Array
from cts_async.search.terms import terms

MOST_OPTIONS: Final = 5
K1: Final = 1.2
B: Final = 0.75
IN_PAPER: Final = 110

_PAIRS: Final = (
    "Clarification Pane, Query",
    *(f"Query, Clarification Question + Option{i}" for i in range(1, MOST_OPTIONS + 1)),
)
FEATURES: Final = (
    *(f"BM25 ({pair})" for pair in _PAIRS),
    *(f"CosineSimilarity_TF-IDF ({pair})" for pair in _PAIRS),
    *(f"Overall Matching Terms ({pair})" for pair in _PAIRS),
    "The Number of Candidate Answers",
    "The clarification is a Statement or a Question",
)
"""The columns of `features`."""


@dataclass(frozen=True, slots=True)
class PaneText:
    """The text of a pane. A missing option is the empty string, or left out at the end."""

    query: str
    question: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PaneWords:
    """The words of a pane: `fields` are the whole pane and the question with each option, None for a missing one."""

    query: tuple[str, ...]
    fields: tuple[tuple[str, ...] | None, ...]
    options: int
    is_question: bool


@dataclass(frozen=True, slots=True)
class Collection:
    """What n texts say of words: in how many texts each occurs, and how long a text is on average."""

    n: int
    frequency: Counter[str]
    mean_length: float

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> Collection:
        """Statistics of texts given as words; of no text at all every word is as rare as every other."""
        frequency: Counter[str] = Counter()
        n = length = 0
        for words in texts:
            frequency.update(set(words))
            n, length = n + 1, length + len(words)
        return cls(n, frequency, length / n if n else 0.0)


def words_of(pane: PaneText) -> PaneWords:
    """Cut a pane into words, lightly stemmed. Stop words stay: their frequency makes them count little."""
    if len(pane.options) > MOST_OPTIONS:
        raise ValueError(f"a pane has at most {MOST_OPTIONS} options")
    question = tuple(terms(pane.question, keep_stops=True))
    options = [tuple(terms(option, keep_stops=True)) for option in pane.options]
    there = [bool(option.strip()) for option in pane.options]
    one_each = [
        (*question, *words) if is_there else None for words, is_there in zip(options, there, strict=True)
    ]
    one_each += [None] * (MOST_OPTIONS - len(one_each))
    whole = (*question, *(word for words in options for word in words))
    is_question = pane.question.rstrip().endswith(("?", "？"))
    return PaneWords(tuple(terms(pane.query, keep_stops=True)), (whole, *one_each), sum(there), is_question)


def collections(panes: Sequence[PaneWords]) -> tuple[Collection, ...]:
    """The statistics of each field over `panes`, in the order of `PaneWords.fields`."""
    return tuple(
        Collection.of(words for pane in panes if (words := pane.fields[place]) is not None)
        for place in range(len(_PAIRS))
    )


def features(panes: Sequence[PaneWords], statistics: Sequence[Collection]) -> Array:
    """A row for each pane, shape (panes, len(FEATURES)); similarities to a missing option are 0."""
    rows = np.zeros((len(panes), len(FEATURES)))
    fields = len(_PAIRS)
    for row, pane in zip(rows, panes, strict=True):
        for place, (words, known) in enumerate(zip(pane.fields, statistics, strict=True)):
            if words is not None:
                row[place] = bm25(pane.query, words, known)
                row[fields + place] = tf_idf_cosine(pane.query, words, known)
                row[2 * fields + place] = matching_terms(pane.query, words)
        row[-2:] = pane.options, pane.is_question
    return rows


def bm25(query: Sequence[str], words: Sequence[str], known: Collection) -> float:
    """Robertson's BM25 of a text for the query's distinct words: k1 1.2, b 0.75, idf ln(1 + (n - df + .5)/(df + .5))."""
    times = Counter(words)
    length = len(words) / known.mean_length if known.mean_length else 1.0
    score = 0.0
    for word in dict.fromkeys(query):
        if (tf := times[word]) > 0:
            df = known.frequency[word]
            idf = math.log1p((known.n - df + 0.5) / (df + 0.5))
            score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length))
    return score


def tf_idf_cosine(query: Sequence[str], words: Sequence[str], known: Collection) -> float:
    """The cosine of two tf * idf vectors, idf = 1 + ln((1 + n) / (1 + df)); 0 if either has no word."""
    left, right = (_weighted(text, known) for text in (query, words))
    size = math.sqrt(sum(w * w for w in left.values()) * sum(w * w for w in right.values()))
    return sum(weight * right.get(word, 0.0) for word, weight in left.items()) / size if size else 0.0


def matching_terms(query: Sequence[str], words: Sequence[str]) -> float:
    """How alike two texts are, 0 to 1, with the words of each in alphabetical order.

    The paper's code takes the token sort ratio: twice the longest common subsequence, in characters, over both
    lengths.
    """
    return fuzz.ratio(" ".join(sorted(query)), " ".join(sorted(words))) / 100


def _weighted(words: Sequence[str], known: Collection) -> dict[str, float]:
    return {
        word: tf * (1 + math.log((1 + known.n) / (1 + known.frequency[word])))
        for word, tf in Counter(words).items()
    }
