"""Qulac's record ids (Aliannejadi et al., SIGIR 2019; README, "Record ID").

topic - facet - past question 1 - past question 2 - current question - answer flag

A conversation has at most two past questions. The flag is 1 where the current question's answer was used and 0
where it was not. No question at all, that is the original query alone, has question 0 and flag 0 (`18-2-0-0`):
Qulac's own ids have none for it, and its questions count from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NO_QUESTION: Final = 0
"""Stands in the place of the current question where none was asked."""
MAX_HISTORY: Final = 2
"""Past questions that an id may have."""

_NUMBER: Final = "[1-9][0-9]{0,8}"
_RECORD: Final = re.compile(
    rf"({_NUMBER})-({_NUMBER})((?:-{_NUMBER}){{0,{MAX_HISTORY}}})-({_NUMBER}|{NO_QUESTION})-([01])"
)
_FACET: Final = re.compile(rf"({_NUMBER})-({_NUMBER})")
_HISTORY: Final = re.compile(rf"({_NUMBER})-({_NUMBER})((?:-{_NUMBER}){{0,{MAX_HISTORY}}})")


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """One record. Ids compare by their numbers: topic, facet, history, question, flag.

    `history` are the numbers of the past questions, in the order in which they were asked. Raises ValueError for
    numbers below 1, a history longer than MAX_HISTORY, and no question with a history or an answer.
    """

    topic: int
    facet: int
    history: tuple[int, ...]
    question: int
    answered: bool

    def __post_init__(self) -> None:
        if min(self.topic, self.facet, *self.history) < 1 or self.question < NO_QUESTION:
            raise ValueError("topics, facets and questions count from 1")
        if len(self.history) > MAX_HISTORY:
            raise ValueError(f"a history has at most {MAX_HISTORY} questions")
        if self.question == NO_QUESTION and (self.history or self.answered):
            raise ValueError("no question has neither a history nor an answer: TOPIC-FACET-0-0")

    @property
    def facet_id(self) -> str:
        """`topic_facet_id` in qulac.json: "18-2"."""
        return encode_facet_id(self.topic, self.facet)

    @property
    def history_id(self) -> str:
        """The facet's id and the past questions: "18-2-1-2", or "18-2" without any."""
        return "-".join(map(str, (self.topic, self.facet, *self.history)))


def encode_record_id(record: RecordId) -> str:
    """The id as text: "18-2-1-2-10-1"."""
    return f"{record.history_id}-{record.question}-{int(record.answered)}"


def decode_record_id(text: str) -> RecordId:
    """Read an id. Raises ValueError, with what is wrong, for whatever `encode_record_id` would not write."""
    match = _RECORD.fullmatch(text)
    if match is None:
        raise ValueError(
            "must be topic-facet-history-question-answerflag, such as 18-2-10-1 or 18-2-1-2-10-0: numbers from 1, "
            f"at most {MAX_HISTORY} past questions, flag 0 or 1 (without a question: 18-2-0-0)"
        )
    topic, facet, history, question, flag = match.groups()
    return RecordId(int(topic), int(facet), _numbers(history), int(question), flag == "1")


def encode_facet_id(topic: int, facet: int) -> str:
    """The id of a topic's facet, as instances have it: "18-2"."""
    return f"{topic}-{facet}"


def decode_facet_id(text: str) -> tuple[int, int]:
    """Topic and facet of "18-2"; ValueError for anything else."""
    match = _FACET.fullmatch(text)
    if match is None:
        raise ValueError("must be topic-facet, such as 18-2: two numbers from 1")
    return int(match[1]), int(match[2])


def decode_history_id(text: str) -> tuple[int, int, tuple[int, ...]]:
    """Topic, facet and past questions of "18-2-1-2"; ValueError for anything else."""
    match = _HISTORY.fullmatch(text)
    if match is None:
        problem = "must be topic-facet, then at most {} past questions, such as 18-2-1-2: numbers from 1"
        raise ValueError(problem.format(MAX_HISTORY))
    return int(match[1]), int(match[2]), _numbers(match[3])


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of "-1-2"; none of ""."""
    return tuple(int(number) for number in text.split("-")[1:])
