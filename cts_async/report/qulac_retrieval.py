"""Qulac's conversations as retrieval reads them, and what asking was worth there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from statistics import fmean
from typing import Final

from cts_async.analysis.question_gain import Gains, Oracle, question_gains
from cts_async.datasets.evaluations import Evaluations
from cts_async.datasets.qulac_conversations import Conversation as Record
from cts_async.datasets.qulac_conversations import conversations
from cts_async.datasets.qulac_table import Facet, Topic
from cts_async.datasets.record_ids import NO_QUESTION, RecordId, decode_facet_id, encode_record_id
from cts_async.report.qulac_tables import evaluated
from cts_async.search.rankers import Conversation

METRICS: Final = (
    *("MRR100", "NDCG1", "NDCG3", "NDCG5", "NDCG10", "NDCG20"),
    *("P1", "P3", "P5", "P10", "P20"),
)
"""The eleven of Qulac's evaluation dictionaries (README)."""
BOTH: Final = (False, True)
"""Without the current answer and with it: the flags of a record id."""


def facet_records(
    topic: Topic, facet: Facet, turns: Collection[int], flags: Collection[bool] = BOTH
) -> dict[str, Conversation]:
    """Give record id -> conversation of one facet, in the order of the ids' numbers, no question at all first.

    Questions and answers are in the order of their numbers: query likelihood hears no other, so equal ones are equal.
    """
    alone = Topic(topic.id, topic.text, topic.kind, topic.description, (facet,))
    none = RecordId(*decode_facet_id(facet.id), (), NO_QUESTION, False)
    records = {none: Conversation(topic.text)}
    for record in conversations([alone], turns):
        for flag in flags:
            id = RecordId(record.id.topic, record.id.facet, record.id.history, record.id.question, flag)
            records[id] = _said(record, flag)
    return {encode_record_id(id): records[id] for id in sorted(records)}


def _said(record: Record, with_answer: bool) -> Conversation:
    asked = sorted((*record.history, record.current), key=lambda pair: pair.number)
    return Conversation(
        record.query,
        tuple(pair.question for pair in asked),
        tuple(pair.answer for pair in asked if with_answer or pair is not record.current),
    )


class FacetMeans:
    """Best, mean, worst and no question, averaged over facets as they come; holds a few numbers a facet."""

    def __init__(self) -> None:
        self._facets: dict[str, dict[int, list[Oracle]]] = {}
        self.facets = 0

    def add(self, facet: Evaluations) -> None:
        """One facet's evaluations, with the record of no question. What has no answered record is left out."""
        self.facets += 1
        for metric, values in facet.items():
            for oracle in question_gains(evaluated(values)).oracle:
                self._facets.setdefault(metric, {}).setdefault(oracle.history_length, []).append(oracle)

    def gains(self) -> dict[str, Gains]:
        """By metric, what `question_gains` would say of all facets together, without single questions and tests."""
        return {
            metric: Gains(tuple(_mean(lengths[length]) for length in sorted(lengths)), ())
            for metric, lengths in self._facets.items()
        }


def _mean(facets: list[Oracle]) -> Oracle:
    known = [(one.none, one.gain) for one in facets if one.none is not None and one.gain is not None]
    return Oracle(
        facets[0].history_length,
        len(facets),
        len(known),
        none=fmean(none for none, _ in known) if known else None,
        worst=fmean(one.worst for one in facets),
        mean=fmean(one.mean for one in facets),
        best=fmean(one.best for one in facets),
        gain=fmean(gain for _, gain in known) if known else None,
        test=None,
    )


def walk_facets(
    topics: Collection[Topic], judged: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[Topic, Facet]]:
    """Yield the facets that have judgments, by number."""
    for topic in sorted(topics, key=lambda one: one.id):
        for facet in sorted(topic.facets, key=lambda one: decode_facet_id(one.id)):
            if judged.get(facet.id):
                yield topic, facet
