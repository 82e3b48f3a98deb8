"""The whole of `qulac.json` (Aliannejadi et al., SIGIR 2019): topics, their facets, questions and answers.

The file is an object of eleven columns (README, "File Format"), a row for every question asked about a facet.
What is odd about it is dealt with here:
- A facet's row whose id ends in `-X` has no question: it says only that there is the facet.
- An id may occur twice with different answers (three do): two pairs, both kept, named in `repeated`.
- A facet's type `inv` is a slip for `inf` (one facet), named in `slips`.
- Quotes in topics and descriptions are escaped by a literal backslash, which is undone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeVar, cast

from cts_async.datasets.columns import Columns, read_columns
from cts_async.datasets.fields import short
from cts_async.datasets.json_file import MAX_FILE_BYTES
from cts_async.datasets.record_ids import NO_QUESTION, encode_facet_id
from cts_async.errors import InputError

TopicType = Literal["faceted", "ambiguous"]
FacetType = Literal["inf", "nav"]

ALL_COLUMNS: Final = (
    *("topic_id", "facet_id", "topic_facet_id", "topic_facet_question_id", "topic", "topic_type"),
    *("facet_type", "topic_desc", "facet_desc", "question", "answer"),
)
WITHOUT_QUESTION: Final = "X"
"""Stands in the place of the question's number where a row has none."""

_ESCAPED: Final = re.compile(r"""\\(['"])""")
_SLIPS: Final[Mapping[str, FacetType]] = {"inv": "inf"}
_TOPIC_TYPES: Final = ("faceted", "ambiguous")
_FACET_TYPES: Final = ("inf", "nav")
_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Pair:
    """A clarifying question, by its number within the topic, and the answer given with the facet in mind."""

    number: int
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Facet:
    """What one user wants: `id` as instances have it ("21-1"), informational or navigational; pairs in file order."""

    id: str
    kind: FacetType
    description: str
    pairs: tuple[Pair, ...] = field(repr=False)

    @property
    def by_number(self) -> dict[int, Pair]:
        """The pairs by their question's number, rising; of pairs with the same number the first in the file."""
        first = {pair.number: pair for pair in reversed(self.pairs)}
        return {number: first[number] for number in sorted(first)}


@dataclass(frozen=True, slots=True)
class Topic:
    """An underspecified query of TREC's Web Track with its facets, in file order."""

    id: int
    text: str
    kind: TopicType
    description: str
    facets: tuple[Facet, ...] = field(repr=False)

    @property
    def questions(self) -> tuple[str, ...]:
        """The distinct texts of its questions, of all facets together, in file order."""
        return tuple(dict.fromkeys(pair.question for facet in self.facets for pair in facet.pairs))


@dataclass(frozen=True, slots=True)
class Repeated:
    """A `topic_facet_question_id` on several rows, with different answers."""

    id: str
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Qulac:
    """The file: topics in file order; ids that stand on several rows; facets whose type was a slip."""

    topics: tuple[Topic, ...] = field(repr=False)
    repeated: tuple[Repeated, ...] = ()
    slips: tuple[str, ...] = ()


def read_qulac(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Qulac:
    """Read the file; it is held in memory (the published one has 3.8 MB).

    InputError names row (its key in the JSON) and field of what is wrong: a missing or unequal column, an empty or
    wrong value, ids that contradict each other, a topic or facet described in two ways, a question that stands
    twice with the same answer or one id with two questions.
    """
    return _Reading(read_columns(path, ALL_COLUMNS, max_bytes=max_bytes)).finished()


def unescape(text: str) -> str:
    """Undo the backslash before a quote."""
    return _ESCAPED.sub(r"\1", text)


class _Reading:
    """One pass over the rows; topics and facets are gathered by their ids."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._topics: dict[int, tuple[str, TopicType, str]] = {}
        self._facets: dict[int, dict[str, tuple[FacetType, str]]] = {}
        self._pairs: dict[str, list[Pair]] = {}
        self._asked: dict[str, list[tuple[str, Pair]]] = {}
        self._slips: dict[str, None] = {}
        for row in columns.rows:
            self._read(row)
        if not self._topics:
            raise InputError(columns.path, "has no rows", field="topic_id")

    def finished(self) -> Qulac:
        topics = tuple(
            Topic(
                topic_id,
                *about,
                tuple(
                    Facet(id, *said, tuple(self._pairs[id])) for id, said in self._facets[topic_id].items()
                ),
            )
            for topic_id, about in self._topics.items()
        )
        several = ((id, asked) for id, asked in self._asked.items() if len(asked) > 1)
        repeated = tuple(Repeated(id, tuple(row for row, _ in asked)) for id, asked in several)
        return Qulac(topics, repeated, tuple(self._slips))

    def _read(self, row: str) -> None:
        topic_id, facet_id, number = self._ids(row)
        self._gather(row, self._topics, topic_id, self._topic(row), "topic_id", "the topic")
        facets = self._facets.setdefault(topic_id, {})
        self._gather(row, facets, facet_id, self._facet(row, facet_id), "topic_facet_id", "the facet")
        pairs = self._pairs.setdefault(facet_id, [])
        pair = self._without_question(row) if number is None else self._pair(row, number)
        self._remember(row, pair)
        if number is not None:
            pairs.append(pair)

    def _ids(self, row: str) -> tuple[int, str, int | None]:
        """Topic, facet id and the question's number (None: no question); the four id columns agree."""
        columns = self._columns
        topic_id = columns.number("topic_id", row)
        facet_id = encode_facet_id(topic_id, columns.number("facet_id", row))
        if (said := columns.text("topic_facet_id", row)) != facet_id:
            raise columns.error(
                "topic_facet_id", row, f"must be {short(facet_id)} by its topic and facet, is {short(said)}"
            )
        said = columns.text("topic_facet_question_id", row)
        number = said.removeprefix(f"{facet_id}-")
        if number == said or not (number == WITHOUT_QUESTION or _NUMBER.fullmatch(number)):
            problem = f"must be '{facet_id}-' and a question's number or {WITHOUT_QUESTION}, is {short(said)}"
            raise columns.error("topic_facet_question_id", row, problem)
        return topic_id, facet_id, None if number == WITHOUT_QUESTION else int(number)

    def _topic(self, row: str) -> tuple[str, TopicType, str]:
        text, description = (unescape(self._columns.text(name, row)) for name in ("topic", "topic_desc"))
        return text, cast(TopicType, self._one_of("topic_type", row, _TOPIC_TYPES)), description

    def _facet(self, row: str, facet_id: str) -> tuple[FacetType, str]:
        description = unescape(self._columns.text("facet_desc", row))
        said = self._one_of("facet_type", row, (*_FACET_TYPES, *_SLIPS))
        if said in _SLIPS:
            self._slips[facet_id] = None
        return _SLIPS.get(said, cast(FacetType, said)), description

    def _one_of(self, name: str, row: str, allowed: tuple[str, ...]) -> str:
        said = self._columns.text(name, row)
        if said not in allowed:
            raise self._columns.error(name, row, f"must be {' or '.join(allowed)}, is {short(said)}")
        return said

    def _gather(self, row: str, known: dict[K, V], key: K, about: V, name: str, what: str) -> None:
        if known.setdefault(key, about) != about:
            raise self._columns.error(
                name, row, f"{what} {short(key)} stands earlier with another text, type or desc"
            )

    def _pair(self, row: str, number: int) -> Pair:
        return Pair(number, self._columns.text("question", row), self._columns.text("answer", row))

    def _without_question(self, row: str) -> Pair:
        for name in ("question", "answer"):
            if said := self._columns.text_or_empty(name, row):
                problem = f"must be empty, since the row's id ends in -{WITHOUT_QUESTION}, is {short(said)}"
                raise self._columns.error(name, row, problem)
        return Pair(NO_QUESTION, "", "")

    def _remember(self, row: str, pair: Pair) -> None:
        """A question may have been asked twice under one id, but not with the same answer."""
        id = self._columns.text("topic_facet_question_id", row)
        asked = self._asked.setdefault(id, [])
        for earlier, other in asked:
            if other.question != pair.question or other.answer == pair.answer:
                what = "the same answer" if other.question == pair.question else "another question"
                problem = f"{short(id)} already stands on row {earlier} with {what}"
                raise self._columns.error("topic_facet_question_id", row, problem)
        asked.append((row, pair))
