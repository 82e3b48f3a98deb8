"""Query likelihood with Dirichlet smoothing, the query and the conversation about it weighted (Qulac's model).

With c(t, x) how often t stands in x, |x| the number of words in x, C the collection and d a document, a document's
score is what the query model expects of its smoothed language model (Aliannejadi et al., SIGIR 2019):

    p(t | x)   = c(t, x) / |x|
    p(t | m)   = alpha * p(t | query) + (1 - alpha) * p(t | questions and answers)
    score(d)   = sum_t p(t | m) * log( c(t, d) / (mu + |d|) + mu / (mu + |d|) * c(t, C) / |C| )

over the terms that stand anywhere in C; alpha = 0.5, mu = 1500. A score is a sum of one column for each text of
the conversation, for sum_t p(t | x) log(...) is

    sum_t p(t | x) * log(mu * c(t, C) / |C|)  -  sum_t p(t | x) * log(mu + |d|)
    + sum_{t in d} p(t | x) * log(1 + c(t, d) * |C| / (mu * c(t, C)))

where only the last sum needs postings. The columns are kept, so the many conversations made of the same questions
and answers cost a few additions each; documents are ranked exactly, all of them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cts_async.errors import UsageError
from cts_async.search.backends.best import best_rows
from cts_async.search.backends.corpus import Corpus
from cts_async.search.backends.tokens import terms
from cts_async.search.rankers.base import Ranked
from cts_async.search.rankers.term_index import TermIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MU: Final = 1500.0
ALPHA: Final = 0.5
_KEPT_BYTES: Final = 64 * 1024 * 1024
"""What the kept columns may take together."""


class Conversation(NamedTuple):
    """A query, and what was asked about it and answered; order says nothing here."""

    query: str
    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """What of the query model is the query's, and what the answers'; the questions have the rest.

    `answers` None is as published: questions and answers are one text, so each weighs as many words as it has.
    Raises UsageError for weights below 0 or above 1 together.
    """

    query: float = ALPHA
    answers: float | None = None

    def __post_init__(self) -> None:
        given = (self.query, self.answers or 0.0)
        if not all(0 <= weight <= 1 for weight in given) or sum(given) > 1 + 1e-9:
            raise UsageError(
                f"the weights of query and answers must be from 0 to 1 and at most 1 together, are {given}"
            )

    def of_texts(self, query: int, questions: Sequence[int], answers: Sequence[int]) -> list[float]:
        """Give each text's weight, from the words in it: the query's, then the questions', then the answers'.

        They sum to 1. Texts of one part share its weight by their lengths; the weight of a part without words
        goes to the others in proportion, so a query about which nothing was said weighs 1. All are 0 where there
        is no word at all, or none in a part that weighs anything.
        """
        rest = max(0.0, 1 - self.query)
        parts: list[tuple[float, Sequence[int]]]
        if self.answers is None:
            parts = [(self.query, [query]), (rest, [*questions, *answers])]
        else:
            asked = max(0.0, rest - self.answers)
            parts = [(self.query, [query]), (asked, questions), (self.answers, answers)]
        there = sum(weight for weight, lengths in parts if any(lengths))
        return [
            weight / there * words / sum(lengths) if words and there else 0.0
            for weight, lengths in parts
            for words in lengths
        ]


class _Column(NamedTuple):
    """The number of words in a text, and its score for every document; None where no word is in the collection."""

    words: int
    scores: NDArray[np.float64] | None


class QueryLikelihoodRanker:
    """Ranks every document for a query or a conversation. For one thread at a time."""

    name = "ql"

    def __init__(self, index: TermIndex, *, mu: float = MU, weights: Weights | None = None) -> None:
        """Raises UsageError unless `mu` is above 0."""
        if not (isfinite(mu) and mu > 0):
            raise UsageError(f"mu must be a number above 0, is {mu}")
        import numpy as np

        self._index, self._mu, self._weights = index, mu, weights or Weights()
        self._log_length = np.log(mu + index.lengths)
        self._columns: OrderedDict[str, _Column] = OrderedDict()
        self._most = max(64, _KEPT_BYTES // (8 * max(1, len(index.ids))))

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """The `limit` best of all documents, ties in corpus order; none where no term is in the collection."""
        return self.rank_conversation(Conversation(query), limit)

    def rank_conversation(self, said: Conversation, limit: int) -> list[Ranked]:
        """The `limit` best of all documents for a conversation; none where no weighed term is in the collection."""
        query = self._column(said.query, query=True)
        questions = [self._column(text) for text in said.questions]
        answers = [self._column(text) for text in said.answers]
        lengths = ([column.words for column in columns] for columns in (questions, answers))
        weights = self._weights.of_texts(query.words, *lengths)
        weighed = [
            (weight, column.scores)
            for weight, column in zip(weights, [query, *questions, *answers], strict=True)
            if weight and column.scores is not None
        ]
        if not weighed:
            return []
        first, scores = weighed[0]
        total = first * scores
        for weight, scores in weighed[1:]:
            total += weight * scores
        ids = self._index.ids
        return [Ranked(ids[row], float(total[row])) for row in best_rows(total, limit)]

    def _column(self, text: str, *, query: bool = False) -> _Column:
        key = f"query {text}" if query else f"other {text}"
        column = self._columns.get(key)
        if column is None:
            # As in the search: stop words count only where a query has nothing else ("The Who").
            words = terms(text) or (terms(text, keep_stops=True) if query else [])
            column = self._columns[key] = self._score(words)
            if len(self._columns) > self._most:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(key)
        return column

    def _score(self, words: list[str]) -> _Column:
        """The last equation above, for all documents at once."""
        import numpy as np

        numbers = self._index.vocabulary
        counted = Counter(word for word in words if word in numbers)
        if not counted:
            return _Column(len(words), None)
        scores = -counted.total() / len(words) * self._log_length
        for term, count in counted.items():
            rows, counts = self._index.postings(numbers[term])
            share, odds = count / len(words), self._mu * int(counts.sum()) / self._index.total
            scores += share * log(odds)
            scores[rows] += share * np.log1p(counts / odds)
        return _Column(len(words), scores)


def open_query_likelihood(
    path: Path, *, mu: float = MU, weights: Weights | None = None
) -> QueryLikelihoodRanker:
    """Count the words of the corpus at `path`. Raises `InputError` for a bad file."""
    index = TermIndex.build(Corpus.open(path).documents())
    return QueryLikelihoodRanker(index, mu=mu, weights=weights)
