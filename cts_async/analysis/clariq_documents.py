"""Document relevance (ClariQ, EMNLP 2021, task 2): how well documents are found once the best question is answered.

A system asks the question that it gives the highest score, for every facet of the topic (in conversations: for
the context). What that is worth stands in the release's evaluation dictionary. A question that nobody judged counts
as the worst that was judged ("MIN"), and so does asking for "MAX"; a facet without any question counts 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

LEADERBOARD: Final = ("MRR100", "P1", "NDCG3", "NDCG5")
"""The metrics that systems are compared by."""
_BEST, _WORST = "MAX", "MIN"


@dataclass(frozen=True, slots=True)
class DocumentRelevance:
    """`values` by metric and facet (or context), from 0 to 1.

    `unasked` are the facets that the run asks nothing for, `unjudged` those whose question nobody judged, and
    `unknown` those of the data that the evaluation does not have: they are in no mean.
    """

    values: Mapping[str, Mapping[str, float]]
    unasked: tuple[str, ...]
    unjudged: tuple[str, ...]
    unknown: tuple[str, ...]

    def mean(self, metric: str) -> float:
        """The mean over the facets."""
        return fmean(self.values[metric].values())


def selected(run: Iterable[tuple[str, str, float]]) -> dict[str, str]:
    """The question with the highest score for each topic; of equal ones the last, as in the official figures."""
    best: dict[str, tuple[float, str]] = {}
    for topic, question, score in run:
        if topic not in best or score >= best[topic][0]:
            best[topic] = (score, question)
    return {topic: question for topic, (_, question) in best.items()}


def document_relevance(
    evaluation: Mapping[str, Mapping[str, Mapping[str, float]]],
    asked: Mapping[str, str],
    topic_of: Mapping[str, str] | None = None,
) -> DocumentRelevance | None:
    """What the questions `asked` by topic are worth, for the facets in `topic_of`; None where none is evaluated.

    `evaluation` is metric -> facet -> question -> value with the answer. Without `topic_of` it is about
    conversations: `asked` goes by context, and all contexts count.
    """
    contexts = list(dict.fromkeys(context for found in evaluation.values() for context in found))
    topics = topic_of if topic_of is not None else {context: context for context in contexts}
    judged = [context for context in contexts if context in topics]
    if not judged:
        return None
    chosen = {context: asked.get(topics[context]) for context in judged}
    chosen = {context: _WORST if question == _BEST else question for context, question in chosen.items()}
    values = {
        metric: {context: _worth(found[context], chosen[context]) for context in judged if context in found}
        for metric, found in evaluation.items()
    }
    return DocumentRelevance(
        values={metric: by_context for metric, by_context in values.items() if by_context},
        unasked=tuple(context for context, question in chosen.items() if question is None),
        unjudged=tuple(
            context
            for context, question in chosen.items()
            if question is not None
            and not any(question in found.get(context, ()) for found in evaluation.values())
        ),
        unknown=tuple(context for context in topics if context not in chosen),
    )


def _worth(values: Mapping[str, float], question: str | None) -> float:
    if question is None:
        return 0.0
    return values.get(question, values[_WORST])
