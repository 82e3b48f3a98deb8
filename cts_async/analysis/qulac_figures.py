"""The figures that Qulac's README publishes about the collection (Aliannejadi et al., SIGIR 2019), counted again.

Definitions that reproduce them: rows without a question are no pairs; questions are distinct texts within a topic;
a facet is informational where it is not navigational; terms are what white space separates, those of questions
counted over the distinct texts of the collection and those of answers over all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True, slots=True)
class Collection:
    """What is counted: the type of every topic by its id, (topic, type) of every facet, (topic, question, answer)s."""

    topics: Mapping[int, str]
    facets: Sequence[tuple[int, str]]
    pairs: Sequence[tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A published figure beside the one counted here; published with `digits` decimals."""

    name: str
    published: float
    value: float
    digits: int = 0

    @property
    def reproduced(self) -> bool:
        """Whether the two agree to the digits published."""
        return format(self.value, f".{self.digits}f") == format(self.published, f".{self.digits}f")


def qulac_figures(collection: Collection) -> list[Figure]:
    """The README's table, row by row. An average over nothing is 0."""
    kinds = list(collection.topics.values())
    of_topic = [sum(topic == one for topic, _ in collection.facets) for one in collection.topics]
    navigational = sum(kind == "nav" for _, kind in collection.facets)
    questions = {(topic, question) for topic, question, _ in collection.pairs}
    return [
        Figure("topics", 198, len(kinds)),
        Figure("faceted topics", 141, kinds.count("faceted")),
        Figure("ambiguous topics", 57, kinds.count("ambiguous")),
        Figure("facets", 762, len(collection.facets)),
        Figure("facets per topic, average", 3.85, _mean(of_topic), 2),
        Figure("facets per topic, median", 4, median(of_topic) if of_topic else 0),
        Figure("informational facets", 577, len(collection.facets) - navigational),
        Figure("navigational facets", 185, navigational),
        Figure("questions", 2_639, len(questions)),
        Figure("question-answer pairs", 10_277, len(collection.pairs)),
        Figure("terms per question, average", 9.49, _terms({question for _, question in questions}), 2),
        Figure("terms per answer, average", 8.21, _terms([answer for _, _, answer in collection.pairs]), 2),
    ]


def _terms(texts: set[str] | list[str]) -> float:
    return _mean([len(text.split()) for text in texts])


def _mean(numbers: Sequence[float]) -> float:
    return fmean(numbers) if numbers else 0.0
