"""Question relevance (ClariQ, EMNLP 2021, task 2): how many of a topic's questions a system ranks on top.

    Recall@k = mean over the topics of |top k and relevant| / |relevant|

Relevant are all questions that people wrote for the topic; that nobody should ask is one of them. A topic's
questions are sorted by falling score, and of those with the same score only the first is kept. A question that
a run repeats with another score takes a rank each time and is found once, as in the official program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

CUTOFFS: Final = (5, 10, 20, 30)


@dataclass(frozen=True, slots=True)
class QuestionRelevance:
    """`recall` by cutoff and topic; `unranked` are the topics that the run says nothing about: they count 0."""

    recall: Mapping[int, Mapping[str, float]]
    unranked: tuple[str, ...]

    def mean(self, cutoff: int) -> float:
        """The macro mean over the topics, from 0 to 1."""
        return fmean(self.recall[cutoff].values())


def question_relevance(
    relevant: Mapping[str, frozenset[str]],
    run: Iterable[tuple[str, str, float]],
    cutoffs: Sequence[int] = CUTOFFS,
) -> QuestionRelevance:
    """Recall of a run, lines (topic, question, score) in file order. At least one topic; each has a question.

    What the run says about other topics is left aside.
    """
    given: dict[str, list[tuple[str, float]]] = {}
    for topic, question, score in run:
        if topic in relevant:
            given.setdefault(topic, []).append((question, score))
    ranking = {topic: ranked(scored) for topic, scored in given.items()}
    recall = {
        k: {
            topic: len(wanted.intersection(ranking.get(topic, ())[:k])) / len(wanted)
            for topic, wanted in relevant.items()
        }
        for k in cutoffs
    }
    return QuestionRelevance(recall, tuple(topic for topic in relevant if topic not in ranking))


def ranked(scored: Iterable[tuple[str, float]]) -> list[str]:
    """Questions by falling score; of equal scores the first alone."""
    first: dict[float, str] = {}
    for question, score in scored:
        first.setdefault(score, question)
    return [first[score] for score in sorted(first, reverse=True)]
