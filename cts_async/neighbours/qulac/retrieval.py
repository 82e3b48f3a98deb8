"""Retrieval after each of Qulac's conversations, evaluated against the judgments of the facet (SIGIR 2019)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from cts_async.analysis.retrieval import (
    STANDIN,
    Qrels,
    count_hopeless,
    cutoff,
    evaluate,
    hopeless_note,
    relevant_from,
    standin_qrels,
    standins_have_one_grade,
)
from cts_async.datasets.trec import read_facet_qrels
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import Facet, Topic
from cts_async.neighbours.qulac.records import (
    NO_QUESTION,
    RecordId,
    conversations,
    decode_facet_id,
    encode_record_id,
)
from cts_async.neighbours.qulac.records import Conversation as Record
from cts_async.search.rankers import Conversation, QueryLikelihoodRanker

FULL_DEPTH: Final = 1000
"""How many documents are ranked for a measure without a cutoff, as is usual at TREC."""
LEAST_DEPTH: Final = 100
"""`evaluate` decides the order of equal scores, so a ranking cut at the first document would give another P@1 than a
longer one. With a common depth no measure's value depends on which others are asked for."""
_AT_ONCE: Final = 500
"""Rankings held at a time."""


def evaluate_conversations(
    ranker: QueryLikelihoodRanker,
    grades: Mapping[str, int],
    spoken: Mapping[str, Conversation],
    measures: Sequence[str],
    *,
    level: int = 1,
) -> dict[str, dict[str, float]]:
    """Give measure -> record -> value for each of the conversations `spoken`, which are keyed by record.

    `grades` are the intent's judgments, not empty; `level` is the least grade that is relevant, as in `evaluate`.
    Conversations with the same text are ranked once.
    """
    depth = max([LEAST_DEPTH, *(cutoff(name) or FULL_DEPTH for name in measures)])
    relevant = {document: grade for document, grade in grades.items() if grade > 0} or grades
    values: dict[Conversation, list[float]] = {}
    for batch in _batches(dict.fromkeys(spoken.values())):
        run = {str(number): ranker.rank_conversation(one, depth) for number, one in enumerate(batch)}
        found = evaluate(dict.fromkeys(run, relevant), run, measures, level=level)
        values |= {one: [found[name][str(n)] for name in measures] for n, one in enumerate(batch)}
    return {
        name: {record: values[one][place] for record, one in spoken.items()}
        for place, name in enumerate(measures)
    }


def _batches(spoken: Mapping[Conversation, None]) -> Iterator[list[Conversation]]:
    left = iter(spoken)
    while batch := list(islice(left, _AT_ONCE)):
        yield batch


# --- Records ---------------------------------------------------------------------------------------------

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
    """Give record id -> conversation of one facet, in the order of the ids' numbers, the query alone first.

    Questions and answers are in the order of their numbers: query likelihood does not depend on their order, and so
    records with the same text are equal.
    """
    none = RecordId(*decode_facet_id(facet.id), (), NO_QUESTION, False)
    records = {none: Conversation(topic.text)}
    for record in conversations([replace(topic, facets=(facet,))], turns):
        for flag in flags:
            records[replace(record.id, answered=flag)] = _spoken(record, flag)
    return {encode_record_id(id): records[id] for id in sorted(records)}


def _spoken(record: Record, with_answer: bool) -> Conversation:
    asked = sorted((*record.history, record.current), key=lambda pair: pair.number)
    return Conversation(
        record.query,
        tuple(pair.question for pair in asked),
        tuple(pair.answer for pair in asked if with_answer or pair is not record.current),
    )


def walk_facets(
    topics: Collection[Topic], judged: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[Topic, Facet]]:
    """Yield the facets that have judgments, by number."""
    for topic in sorted(topics, key=lambda one: one.id):
        for facet in sorted(topic.facets, key=lambda one: decode_facet_id(one.id)):
            if judged.get(facet.id):
                yield topic, facet


# --- Judgments -------------------------------------------------------------------------------------------

INTENT: Final = "intent"
DEPTH: Final = 10
"""Documents that count as relevant for "intent" without a number."""


def judgments(
    qrels: str, ranker: QueryLikelihoodRanker, documents: Collection[str], topics: Sequence[Topic], level: int
) -> tuple[Qrels, list[str]]:
    """Judgments of the topics' facets, and notes for readers of the numbers.

    `qrels` is a file, or "intent:N" for pseudo-judgments: the N documents that a facet's description ranks best.
    `level` is the least grade that is relevant. Raises InputError and UsageError.
    """
    facets = {facet.id: facet.description for topic in topics for facet in topic.facets}
    name, _, depth = qrels.partition(":")
    if name == INTENT:
        if level > 1:
            raise UsageError(standins_have_one_grade(level, qrels))
        judged: Qrels = standin_qrels(ranker, facets, _depth(qrels, depth))
        notes = [f"These numbers rest on {STANDIN}: --qrels {qrels}"]
    else:
        judged, notes = _from_file(Path(qrels), facets, set(documents))
    if missing := len(facets) - len(judged):
        notes.append(f"{missing:,} of {len(facets):,} facets have no judgments and are left out")
    if level > 1:
        notes.append(f"--qrels {qrels}{relevant_from(level)}")
    if hopeless := count_hopeless(judged, level=level):
        notes.append(hopeless_note(hopeless, f"{len(facets):,} facets", level))
    return judged, notes


def _depth(qrels: str, depth: str) -> int:
    if not depth:
        return DEPTH
    if not (depth.isascii() and depth.isdigit() and int(depth[:9]) > 0):
        raise UsageError(f"--qrels {qrels}: write {INTENT}:N, with N from 1 on, or the path of a file")
    return int(depth[:9])


def _from_file(path: Path, facets: Collection[str], documents: Collection[str]) -> tuple[Qrels, list[str]]:
    found = read_facet_qrels(path)
    judged = {facet: found[facet] for facet in facets if facet in found}
    if not judged:
        problem = f"judges no facet of these topics; it has {next(iter(found))!r}, their ids are like {min(facets)!r}"
        raise InputError(path, problem)
    named = {document for grades in judged.values() for document in grades}
    if absent := len(named.difference(documents)):
        if absent == len(named):
            raise InputError(
                path,
                f"none of its {absent:,} documents is in the corpus; document ids must be the same in both",
            )
        return judged, [f"{absent:,} of {len(named):,} judged documents are not in the corpus"]
    return judged, []
