"""Qulac's artificial conversations by record id, and retrieval after each of them (SIGIR 2019, README)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any, Final

from cts_async.analysis.retrieval import (
    PSEUDO_JUDGMENTS,
    Qrels,
    count_hopeless,
    cutoff,
    evaluate,
    hopeless_note,
    pseudo_depth,
    pseudo_qrels,
    relevant_from,
)
from cts_async.neighbours.inputs import read_judgments
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic
from cts_async.report.tables import Column, DataTable, number
from cts_async.report.tables import text as as_text
from cts_async.search.rankers import ConversationText, QueryLikelihoodRanker

# --- Record ids: topic - facet - past question 1 - past question 2 - current question - answer flag ------

NO_QUESTION: Final = 0
"""Stands in the place of the current question where none was asked."""
TURNS: Final = (1, 2, 3)
"""How many questions a conversation may have, the current one among them."""

_NUMBER: Final = "[1-9][0-9]{0,8}"
_RECORD: Final = re.compile(
    rf"({_NUMBER})-({_NUMBER})(?:((?:-{_NUMBER}){{0,2}})-({_NUMBER})-([01])|()-({NO_QUESTION})-(0))"
)


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """The id of a record (README, "Record ID"). Ids compare by their numbers: topic, facet, history, question, flag.

    `history` are the numbers of at most two past questions, in the order in which they were asked. The flag is 1 where
    the current question's answer was used. The original query alone has question 0 and flag 0 (`18-2-0-0`): Qulac's own
    ids have none for it, and its questions count from 1.
    """

    topic: int
    facet: int
    history: tuple[int, ...]
    question: int
    answered: bool

    @property
    def facet_id(self) -> str:
        """`topic_facet_id` in qulac.json: "18-2"."""
        return f"{self.topic}-{self.facet}"

    @property
    def history_id(self) -> str:
        """The facet's id and the past questions: "18-2-1-2", or "18-2" without any."""
        return "-".join(map(str, (self.topic, self.facet, *self.history)))

    def __str__(self) -> str:
        return f"{self.history_id}-{self.question}-{int(self.answered)}"


def decode_record_id(text: str) -> RecordId:
    """Read an id. Raises ValueError for what no record has as its text."""
    match = _RECORD.fullmatch(text)
    if match is None:
        raise ValueError(
            "must be topic-facet-history-question-answerflag, such as 18-2-10-1 or 18-2-1-2-10-0: numbers from 1, "
            "at most 2 past questions, flag 0 or 1 (without a question: 18-2-0-0)"
        )
    topic, facet, history, question, flag = (part for part in match.groups() if part is not None)
    past = tuple(int(number) for number in history.split("-")[1:])
    return RecordId(int(topic), int(facet), past, int(question), flag == "1")


# --- Conversations ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArtificialConversation:
    """A record: the topic's text, the past pairs in the order asked, and the current pair."""

    id: RecordId
    query: str
    history: tuple[Pair, ...]
    current: Pair

    def as_record(self) -> dict[str, Any]:
        """What the published dictionary has under the record's id, with that id as `id`."""
        return {
            "id": str(self.id),
            "history_id": self.id.history_id,
            "history_list": [{"question": pair.question, "answer": pair.answer} for pair in self.history],
            "query": self.query,
            "question": self.current.question,
            "answer": self.current.answer,
        }

    def spoken(self, *, answered: bool) -> ConversationText:
        """What a ranker gets, with or without the current answer.

        Questions and answers are in the order of their numbers: query likelihood does not depend on their order, and so
        records with the same text are equal.
        """
        asked = sorted((*self.history, self.current), key=lambda pair: pair.number)
        answers = (pair.answer for pair in asked if answered or pair is not self.current)
        return ConversationText(self.query, tuple(pair.question for pair in asked), tuple(answers))


def conversations(topics: Iterable[Topic], turns: Sequence[int] = TURNS) -> Iterator[ArtificialConversation]:
    """Qulac's artificial conversations (README, `qulac_hist012_dict`), facet by facet, short ones first.

    Each has a current question and a history of 0, 1 or 2 other questions of the same facet, with that facet's
    answers. The history is a combination, in the order of the questions' numbers: the README calls its records "all
    possible combinations", its example of two past questions is 18-2-1-2-10-1 (the numbers rise), and the current
    question may have any number (1-2-2-1-1 has question 2 behind it and asks question 1). So a facet with n questions
    gives n * C(n - 1, h) conversations with a history of h: of the published file 10,274 + 130,670 + 781,170 = 922,114.
    (Of the three ids with two answers the first in the file counts: a record id could not tell them apart.)

    `turns` are the lengths wanted, of TURNS. Holds one at a time.
    """
    for topic in topics:
        for facet in topic.facets:
            pairs = facet.by_number
            for past in (past for length in turns for past in combinations(pairs, length - 1)):
                history = tuple(pairs[number] for number in past)
                for asked, pair in pairs.items():
                    if asked not in past:
                        id = RecordId(*facet.numbers, past, asked, True)
                        yield ArtificialConversation(id, topic.text, history, pair)


def counts_table(topics: Iterable[Topic], turns: Sequence[int] = TURNS) -> DataTable:
    """How many conversations of each length `conversations` would yield, by the formula."""
    questions = [len(facet.by_number) for topic in topics for facet in topic.facets]
    counts = {length: sum(n * comb(n - 1, length - 1) for n in questions if n) for length in turns}
    rows: list[dict[str, Any]] = [{"turns": length, "conversations": n} for length, n in counts.items()]
    rows.append({"turns": "all", "conversations": sum(counts.values())})
    columns = (
        Column("turns", as_text("turns"), numeric=False),
        Column("conversations", number("conversations", ",")),
    )
    caption = "a facet with n questions gives n * C(n - 1, turns - 1)"
    return DataTable("conversations", "Artificial conversations", caption, columns, rows)


# --- Retrieval after each conversation -------------------------------------------------------------------

METRICS: Final = (
    *("MRR100", "NDCG1", "NDCG3", "NDCG5", "NDCG10", "NDCG20"),
    *("P1", "P3", "P5", "P10", "P20"),
)
"""The eleven of Qulac's evaluation dictionaries (README)."""
FLAGS: Final = (False, True)
"""Without the current answer and with it: the flags of a record id."""
FULL_DEPTH: Final = 1000
"""How many documents are ranked for a measure without a cutoff, as is usual at TREC."""
LEAST_DEPTH: Final = 100
"""`evaluate` decides the order of equal scores, so a ranking cut at the first document would give another P@1 than a
longer one. With a common depth no measure's value depends on which others are asked for."""
_AT_ONCE: Final = 500
"""Rankings held at a time."""


def facet_records(
    topic: Topic, facet: Facet, turns: Sequence[int], flags: Collection[bool] = FLAGS
) -> dict[str, ConversationText]:
    """Map record id -> conversation of one facet, in the order of the ids' numbers, the query alone first."""
    records = {RecordId(*facet.numbers, (), NO_QUESTION, False): ConversationText(topic.text)}
    for one in conversations([replace(topic, facets=(facet,))], turns):
        for flag in flags:
            records[replace(one.id, answered=flag)] = one.spoken(answered=flag)
    return {str(id): records[id] for id in sorted(records)}


def evaluate_conversations(
    ranker: QueryLikelihoodRanker,
    grades: Mapping[str, int],
    spoken: Mapping[str, ConversationText],
    measures: Sequence[str],
    *,
    level: int = 1,
) -> dict[str, dict[str, float]]:
    """Map measure -> record -> value for each of the conversations `spoken`, which are keyed by record.

    `grades` are the intent's judgments, not empty; `level` is the least grade that is relevant, as in `evaluate`.
    Conversations with the same text are ranked once.
    """
    depth = max([LEAST_DEPTH, *(cutoff(name) or FULL_DEPTH for name in measures)])
    relevant = {document: grade for document, grade in grades.items() if grade > 0} or grades
    values: dict[ConversationText, list[float]] = {}
    texts = list(dict.fromkeys(spoken.values()))
    for start in range(0, len(texts), _AT_ONCE):
        batch = texts[start : start + _AT_ONCE]
        run = {str(n): ranker.rank_conversation(one, depth) for n, one in enumerate(batch)}
        found = evaluate(dict.fromkeys(run, relevant), run, measures, level=level)
        values |= {one: [found[name][str(n)] for name in measures] for n, one in enumerate(batch)}
    return {
        name: {record: values[one][place] for record, one in spoken.items()}
        for place, name in enumerate(measures)
    }


def judgments(
    qrels: str, ranker: QueryLikelihoodRanker, documents: Collection[str], topics: Sequence[Topic], level: int
) -> tuple[Qrels, list[str]]:
    """Judgments of the topics' facets, and notes for readers of the numbers.

    `qrels` is a file, or "intent:N" for pseudo-judgments: the N documents that a facet's description ranks best.
    `level` is the least grade that is relevant. Raises InputError and UsageError.
    """
    facets = {facet.id: facet.description for topic in topics for facet in topic.facets}
    depth, notes = pseudo_depth(qrels, level), []
    if depth is not None:
        judged: Qrels = pseudo_qrels(ranker, facets, depth)
        notes = [f"These numbers rest on {PSEUDO_JUDGMENTS}: --qrels {qrels}"]
    else:
        known = set(documents)
        judged = read_judgments(Path(qrels), facets, known.__contains__)
        named = {document for grades in judged.values() for document in grades}
        if absent := len(named - known):
            notes.append(f"{absent:,} of {len(named):,} judged documents are not in the corpus")
    if missing := len(facets) - len(judged):
        notes.append(f"{missing:,} of {len(facets):,} facets have no judgments and are left out")
    if level > 1:
        notes.append(f"--qrels {qrels}{relevant_from(level)}")
    if hopeless := count_hopeless(judged, level=level):
        notes.append(hopeless_note(hopeless, f"{len(facets):,} facets", level))
    return judged, notes
