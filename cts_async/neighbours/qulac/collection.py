"""Qulac (Aliannejadi et al., SIGIR 2019): the collection, the instances made of it, and its published figures.

`qulac.json` is an object of eleven columns (README, "File Format"), each {"0": value, "1": ...}, with a row for every
question asked about a facet. Oddities of the published file:
- A row whose id ends in `-X` has no question: it says only that the facet exists.
- An id may occur twice with different answers (three do): two pairs, both kept, named in `Qulac.repeated`.
- A facet's type `inv` is a slip for `inf` (one facet), named in `Qulac.slips`.
- Quotes in topics and descriptions are escaped by a literal backslash (\\' and \\"), which is undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Final, Literal, TypeVar, cast

from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.inspect import Contents, contents_of
from cts_async.datasets.io import MAX_FILE_BYTES, short
from cts_async.datasets.registry import AnnotatedQuery, Annotations, Dataset, make_dataset
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.columns import Columns, read_columns
from cts_async.records import Instance
from cts_async.report.tables import Column, DataTable, Row, text

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
    """An intent: `id` as instances have it ("21-1"), informational or navigational; pairs in file order."""

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
    """The file: topics in file order, ids that occur on several rows, and facets whose type was a slip."""

    topics: tuple[Topic, ...] = field(repr=False)
    repeated: tuple[Repeated, ...] = ()
    slips: tuple[str, ...] = ()


def read_qulac(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Qulac:
    """Read the file; it is held in memory (the published one has 3.8 MB).

    InputError names row (its key in the JSON) and field of what is wrong: a missing or unequal column, an empty or
    wrong value, ids that contradict each other, a topic or facet described in two ways, a question that stands
    twice with the same answer or one id with two questions.
    """
    return _Reading(read_columns(path, ALL_COLUMNS, max_bytes=max_bytes)).result()


def encode_facet_id(topic: int, facet: int) -> str:
    """The id of a topic's facet, as instances have it: "18-2"."""
    return f"{topic}-{facet}"


def unescape(text: str) -> str:
    """Undo the backslash before a quote."""
    return _ESCAPED.sub(r"\1", text)


class _Reading:
    """Collects topics and facets by their ids in one pass over the rows."""

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

    def result(self) -> Qulac:
        topics = tuple(
            Topic(
                topic_id,
                *about,
                tuple(
                    Facet(id, *of_facet, tuple(self._pairs[id]))
                    for id, of_facet in self._facets[topic_id].items()
                ),
            )
            for topic_id, about in self._topics.items()
        )
        several = ((id, asked) for id, asked in self._asked.items() if len(asked) > 1)
        repeated = tuple(Repeated(id, tuple(row for row, _ in asked)) for id, asked in several)
        return Qulac(topics, repeated, tuple(self._slips))

    def _read(self, row: str) -> None:
        topic_id, facet_id, number = self._ids(row)
        self._add(row, self._topics, topic_id, self._topic(row), "topic_id", "the topic")
        facets = self._facets.setdefault(topic_id, {})
        self._add(row, facets, facet_id, self._facet(row, facet_id), "topic_facet_id", "the facet")
        pairs = self._pairs.setdefault(facet_id, [])
        pair = self._without_question(row) if number is None else self._pair(row, number)
        self._add_asked(row, pair)
        if number is not None:
            pairs.append(pair)

    def _ids(self, row: str) -> tuple[int, str, int | None]:
        """Topic, facet id and the question's number (None: no question); the four id columns agree."""
        columns = self._columns
        topic_id = columns.number("topic_id", row)
        facet_id = encode_facet_id(topic_id, columns.number("facet_id", row))
        if (written := columns.text("topic_facet_id", row)) != facet_id:
            raise columns.error(
                "topic_facet_id",
                row,
                f"must be {short(facet_id)} by its topic and facet, is {short(written)}",
            )
        written = columns.text("topic_facet_question_id", row)
        number = written.removeprefix(f"{facet_id}-")
        if number == written or not (number == WITHOUT_QUESTION or _NUMBER.fullmatch(number)):
            problem = (
                f"must be '{facet_id}-' and a question's number or {WITHOUT_QUESTION}, is {short(written)}"
            )
            raise columns.error("topic_facet_question_id", row, problem)
        return topic_id, facet_id, None if number == WITHOUT_QUESTION else int(number)

    def _topic(self, row: str) -> tuple[str, TopicType, str]:
        text, description = (unescape(self._columns.text(name, row)) for name in ("topic", "topic_desc"))
        return text, cast(TopicType, self._one_of("topic_type", row, _TOPIC_TYPES)), description

    def _facet(self, row: str, facet_id: str) -> tuple[FacetType, str]:
        description = unescape(self._columns.text("facet_desc", row))
        kind = self._one_of("facet_type", row, (*_FACET_TYPES, *_SLIPS))
        if kind in _SLIPS:
            self._slips[facet_id] = None
        return _SLIPS.get(kind, cast(FacetType, kind)), description

    def _one_of(self, name: str, row: str, allowed: tuple[str, ...]) -> str:
        value = self._columns.text(name, row)
        if value not in allowed:
            raise self._columns.error(name, row, f"must be {' or '.join(allowed)}, is {short(value)}")
        return value

    def _add(self, row: str, known: dict[K, V], key: K, about: V, name: str, what: str) -> None:
        if known.setdefault(key, about) != about:
            raise self._columns.error(
                name, row, f"{what} {short(key)} occurs earlier with another text, type or desc"
            )

    def _pair(self, row: str, number: int) -> Pair:
        return Pair(number, self._columns.text("question", row), self._columns.text("answer", row))

    def _without_question(self, row: str) -> Pair:
        for name in ("question", "answer"):
            if value := self._columns.text_or_empty(name, row):
                problem = f"must be empty, since the row's id ends in -{WITHOUT_QUESTION}, is {short(value)}"
                raise self._columns.error(name, row, problem)
        return Pair(0, "", "")

    def _add_asked(self, row: str, pair: Pair) -> None:
        """A question may have been asked twice under one id, but not with the same answer."""
        id = self._columns.text("topic_facet_question_id", row)
        asked = self._asked.setdefault(id, [])
        for earlier, other in asked:
            if other.question != pair.question or other.answer == pair.answer:
                what = "the same answer" if other.question == pair.question else "another question"
                problem = f"{short(id)} already occurs on row {earlier} with {what}"
                raise self._columns.error("topic_facet_question_id", row, problem)
        asked.append((row, pair))


# --- Instances: the topic is ambiguous, its facet is the intent ------------------------------------------

COLUMNS: Final = ("topic_facet_id", "topic", "facet_desc")


def read_instances(path: Path, gold: GoldIndex | None = None) -> Iterator[Instance]:
    """The facets in the order of their first rows, 762 in the published file; id = `topic_facet_id`.

    The file is one JSON value and so is held in memory while it is read. InputError for a missing column,
    columns of unequal length, a value that is not non-empty text, or a facet described in two ways.
    """
    facets = _facets(read_columns(path, COLUMNS))
    if gold is not None:
        keys = ((facet.id, facet.fused_query) for facet in facets)
        gold.require_join(path, COLUMNS, keys)
    for facet in facets:
        nuggets = gold.lookup(facet.id, facet.fused_query) if gold is not None else None
        yield Instance(facet.id, facet.fused_query, facet.blurred_query, nuggets or ())


def open_qulac(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """`qulac:PATH`, the path of `qulac.json`. It has no gold of its own."""
    if not target:
        raise UsageError("qulac needs a path: qulac:PATH, the file qulac.json")
    path = Path(target).expanduser()
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    instances, annotations = partial(read_instances, path, index), partial(read_annotations, path)
    return make_dataset("qulac", path, index, instances, annotations=annotations)


def read_annotations(path: Path) -> Annotations:
    """What people wrote about each topic and facet; errors as `qulac_table.read_qulac`.

    A topic's questions are its distinct ones, of all its facets; a facet's pairs are all of its own, so that a
    question asked twice is there with both answers.
    """
    topics = read_qulac(path).topics
    same_text: dict[str, list[Topic]] = {}
    for topic in topics:
        same_text.setdefault(topic.text, []).append(topic)
    queries = {text: _annotated(text, same) for text, same in same_text.items()}
    pairs = {
        facet.id: tuple((pair.question, pair.answer) for pair in facet.pairs)
        for topic in topics
        for facet in topic.facets
    }
    return Annotations(queries, pairs)


def _annotated(text: str, topics: list[Topic]) -> AnnotatedQuery:
    questions = dict.fromkeys(question for topic in topics for question in topic.questions)
    return AnnotatedQuery(str(topics[0].id), text, tuple(questions))


def _facets(columns: Columns) -> list[Instance]:
    facets: dict[str, Instance] = {}
    for row in columns.rows:
        facet_id, topic, description = (columns.text(name, row) for name in COLUMNS)
        facet = Instance(facet_id, unescape(description), unescape(topic))
        if facets.setdefault(facet_id, facet) != facet:
            problem = f"the facet {short(facet_id)} occurs earlier with another topic or facet_desc"
            raise columns.error("topic_facet_id", row, problem)
    if not facets:
        raise InputError(columns.path, "has no rows", field="topic_facet_id")
    return list(facets.values())


def qulac_contents(dataset: Dataset, fields: Mapping[str, str] | None) -> Contents:
    """What the instances hold, and what the other columns do. Raises InputError."""
    found, table = contents_of(dataset, fields), read_qulac(dataset.path)
    ambiguous = sum(topic.kind == "ambiguous" for topic in table.topics)
    topics = {"topics": {"total": len(table.topics), "ambiguous": ambiguous}}
    notes = list(found.notes)
    if table.repeated:
        ids = ", ".join(one.id for one in table.repeated)
        notes.append(f"ids with several answers, all kept: {ids}")
    if table.slips:
        notes.append(f"facet_type 'inv' read as 'inf': {', '.join(table.slips)}")
    return Contents({**found.facts, **topics}, tuple(notes))


# --- Published figures -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """A published figure beside the one counted here; published with `digits` decimals."""

    name: str
    published: float
    value: float
    digits: int = 0

    @property
    def reproduced(self) -> bool:
        """True where the two agree to the digits published; whole numbers agree exactly, a median of 4.5 is not 4."""
        if not self.digits:
            return self.value == self.published
        return format(self.value, f".{self.digits}f") == format(self.published, f".{self.digits}f")


def qulac_figures(topics: Sequence[Topic]) -> list[Figure]:
    """The README's table, row by row. An average over nothing is 0.

    Definitions that reproduce it: rows without a question are no pairs; questions are distinct texts within a topic; a
    facet is informational where it is not navigational; terms are what white space separates, those of questions
    counted over the distinct texts of the collection and those of answers over all pairs.
    """
    kinds = [topic.kind for topic in topics]
    facets = [facet for topic in topics for facet in topic.facets]
    pairs = [pair for facet in facets for pair in facet.pairs]
    per_topic = [len(topic.facets) for topic in topics]
    navigational = sum(facet.kind == "nav" for facet in facets)
    return [
        Figure("topics", 198, len(kinds)),
        Figure("faceted topics", 141, kinds.count("faceted")),
        Figure("ambiguous topics", 57, kinds.count("ambiguous")),
        Figure("facets", 762, len(facets)),
        Figure("facets per topic, average", 3.85, _mean_or_zero(per_topic), 2),
        Figure("facets per topic, median", 4, median(per_topic) if per_topic else 0),
        Figure("informational facets", 577, len(facets) - navigational),
        Figure("navigational facets", 185, navigational),
        Figure("questions", 2_639, sum(len(topic.questions) for topic in topics)),
        Figure("question-answer pairs", 10_277, len(pairs)),
        Figure("terms per question, average", 9.49, _terms({pair.question for pair in pairs}), 2),
        Figure("terms per answer, average", 8.21, _terms([pair.answer for pair in pairs]), 2),
    ]


def _terms(texts: Iterable[str]) -> float:
    return _mean_or_zero([len(text.split()) for text in texts])


def _mean_or_zero(numbers: Sequence[float]) -> float:
    return fmean(numbers) if numbers else 0.0


def figures_table(figures: Sequence[Figure]) -> DataTable:
    """Every published figure beside the one counted here."""
    rows = [
        {
            "figure": one.name,
            "published": one.published,
            "counted": one.value,
            "reproduced": one.reproduced,
            "digits": one.digits,
        }
        for one in figures
    ]
    columns = (
        Column("figure", text("figure"), numeric=False),
        Column("published", lambda row: format(row["published"], f",.{row['digits']}f")),
        Column("counted", _show_counted),
        Column("", lambda row: "ok" if row["reproduced"] else "differs", numeric=False),
    )
    caption = "the collection as its README describes it (SIGIR 2019), and counted in this file"
    return DataTable("figures", "Qulac's published figures", caption, columns, rows)


def _show_counted(row: Row) -> str:
    """To the published digits; in full where those would hide that a whole number differs."""
    shown = format(row["counted"], f",.{row['digits']}f")
    return shown if row["reproduced"] or row["digits"] else format(row["counted"], ",")
