"""Qulac's artificial conversations of one to three turns (README, `qulac_hist012_dict`).

Each has a current question and a history of 0, 1 or 2 other questions of the same facet, all with that facet's
answers. The history is a combination, asked in the order of the questions' numbers: the README calls its records
"all possible combinations", its example of two past questions is 18-2-1-2-10-1 (the numbers rise), and the current
question may have any number (1-2-2-1-1 has question 2 behind it and asks question 1).

So a facet with n questions gives n * C(n - 1, h) conversations with a history of h. The published file's 762
facets have 10,274 questions by their ids: 10,274 + 130,670 + 781,170 = 922,114 conversations. (Of the three ids
with two answers the first in the file counts: a record's id could not tell them apart.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, Final

from cts_async.datasets.qulac_table import Facet, Pair, Topic
from cts_async.datasets.record_ids import MAX_HISTORY, RecordId, decode_facet_id, encode_record_id

TURNS: Final = tuple(range(1, MAX_HISTORY + 2))
"""How many questions a conversation may have, the current one among them."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A record: the topic's text, the past pairs in the order asked, and the current pair."""

    id: RecordId
    query: str
    history: tuple[Pair, ...]
    current: Pair

    def as_record(self) -> dict[str, Any]:
        """What the published dictionary has under the record's id, with that id as `id`."""
        return {
            "id": encode_record_id(self.id),
            "history_id": self.id.history_id,
            "history_list": [{"question": pair.question, "answer": pair.answer} for pair in self.history],
            "query": self.query,
            "question": self.current.question,
            "answer": self.current.answer,
        }


def conversations(topics: Iterable[Topic], turns: Collection[int] = TURNS) -> Iterator[Conversation]:
    """Yield them facet by facet, short ones first, in the order of the questions' numbers; holds one at a time.

    `turns` are the lengths wanted. Raises ValueError for a length that is not in TURNS.
    """
    wanted = _checked(turns)
    for topic in topics:
        for facet in topic.facets:
            for length in wanted:
                yield from _of_facet(topic, facet, length)


def count_conversations(topics: Iterable[Topic], turns: Collection[int] = TURNS) -> Mapping[int, int]:
    """How many conversations of each length `conversations` would yield, by the closed formula."""
    questions = [len(facet.by_number) for topic in topics for facet in topic.facets]
    return {length: sum(n * comb(n - 1, length - 1) for n in questions if n) for length in _checked(turns)}


def _of_facet(topic: Topic, facet: Facet, length: int) -> Iterator[Conversation]:
    pairs = facet.by_number
    topic_id, facet_id = decode_facet_id(facet.id)
    for past in combinations(pairs, length - 1):
        history = tuple(pairs[number] for number in past)
        for number, pair in pairs.items():
            if number not in past:
                record = RecordId(topic_id, facet_id, past, number, True)
                yield Conversation(record, topic.text, history, pair)


def _checked(turns: Collection[int]) -> list[int]:
    if unknown := sorted(set(turns) - set(TURNS)):
        raise ValueError(f"conversations have {TURNS[0]} to {TURNS[-1]} turns, not {unknown[0]}")
    return sorted(set(turns))
