"""Retrieval after every conversation about one intent, evaluated against that intent's judgments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from cts_async.analysis.retrieval import cutoff, evaluate
from cts_async.search.rankers import Conversation, QueryLikelihoodRanker

FULL_DEPTH: Final = 1000
"""How many documents are ranked for a measure without a cutoff, as is usual at TREC."""
LEAST_DEPTH: Final = 100
"""Of equal scores it is the judging that has the last word (`evaluate`), so a ranking cut at the first document
would give another P@1 than a longer one: no measure's value depends on which others are asked for."""
_AT_ONCE: Final = 500
"""Rankings held at a time."""


def evaluate_conversations(
    ranker: QueryLikelihoodRanker,
    grades: Mapping[str, int],
    said: Mapping[str, Conversation],
    measures: Sequence[str],
    *,
    level: int = 1,
) -> dict[str, dict[str, float]]:
    """Give measure -> record -> value for each of the conversations `said`, which are keyed by record.

    `grades` are the intent's judgments, not empty; `level` is the least grade that is relevant, as in `evaluate`.
    Conversations that say the same are ranked once.
    """
    depth = max([LEAST_DEPTH, *(cutoff(name) or FULL_DEPTH for name in measures)])
    relevant = {document: grade for document, grade in grades.items() if grade > 0} or grades
    values: dict[Conversation, list[float]] = {}
    for batch in _batches(dict.fromkeys(said.values())):
        run = {str(number): ranker.rank_conversation(one, depth) for number, one in enumerate(batch)}
        found = evaluate(dict.fromkeys(run, relevant), run, measures, level=level)
        values |= {one: [found[name][str(n)] for name in measures] for n, one in enumerate(batch)}
    return {
        name: {record: values[one][place] for record, one in said.items()}
        for place, name in enumerate(measures)
    }


def _batches(said: Mapping[Conversation, None]) -> Iterator[list[Conversation]]:
    left = iter(said)
    while batch := list(islice(left, _AT_ONCE)):
        yield batch
