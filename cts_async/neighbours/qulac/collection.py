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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, StringConstraints, TypeAdapter

from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.inspect import contents_of
from cts_async.datasets.io import short
from cts_async.datasets.kinds import AnnotatedQuery, Annotations, Contents, Dataset, make_dataset
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import Text, facet_instances, merged_annotations, read_json
from cts_async.records import Instance
from cts_async.tables.table import Column, DataTable, Row, text

TopicType: TypeAlias = Literal["faceted", "ambiguous"]
FacetType: TypeAlias = Literal["inf", "nav"]

_Number: TypeAlias = Annotated[int, Field(strict=True, ge=1, lt=10**9)]
_Maybe: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True)]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The file: each column has the same rows."""

    topic_id: dict[str, _Number]
    facet_id: dict[str, _Number]
    topic_facet_id: dict[str, Text]
    topic_facet_question_id: dict[str, Text]
    topic: dict[str, Text]
    topic_type: dict[str, TopicType]
    facet_type: dict[str, Literal["inf", "nav", "inv"]]
    topic_desc: dict[str, Text]
    facet_desc: dict[str, Text]
    question: dict[str, _Maybe]
    answer: dict[str, _Maybe]


_COLUMNS: Final = TypeAdapter(_Columns)
ALL_COLUMNS: Final = tuple(column.name for column in fields(_Columns))
JOINED: Final = ("topic_facet_id", "topic", "facet_desc")
"""The columns that instances, and their gold, are identified by."""
_QUESTION: Final = re.compile("[1-9][0-9]{0,8}|X")
"""The number of a question within its topic, or X where a row has none."""
_ESCAPED: Final = re.compile(r"""\\(['"])""")


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
    def numbers(self) -> tuple[int, int]:
        """Topic and facet: (21, 1)."""
        topic, facet = self.id.split("-")
        return int(topic), int(facet)

    @property
    def by_number(self) -> dict[int, Pair]:
        """The pairs by their question's number, rising; of pairs with the same number the first in the file."""
        by_number: dict[int, Pair] = {}
        for pair in self.pairs:
            by_number.setdefault(pair.number, pair)
        return dict(sorted(by_number.items()))


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
        questions: dict[str, None] = {}
        for facet in self.facets:
            for pair in facet.pairs:
                questions[pair.question] = None
        return tuple(questions)


@dataclass(frozen=True, slots=True)
class Qulac:
    """The file: topics in file order; rows by an id that several have; facets whose type was a slip."""

    topics: tuple[Topic, ...] = field(repr=False)
    repeated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    slips: tuple[str, ...] = ()

    @property
    def facets(self) -> list[Facet]:
        facets: list[Facet] = []
        for topic in self.topics:
            facets += topic.facets
        return facets


def read_qulac(path: Path) -> Qulac:
    """Read the file into memory (the published one has 3.8 MB).

    InputError names field and row of what is wrong: a missing or unequal column, a wrong value, ids that contradict
    each other, a topic or facet described in two ways, a question that occurs twice with the same answer.
    """
    file = _Builder(path)
    for row, cells in _rows_of_file(path):
        file.add(row, cells)
    if not file.topics:
        raise InputError(path, "has no rows", field="topic_id")
    return file.build()


def _rows_of_file(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the number and the cells of each row."""
    table = read_json(path, _COLUMNS)
    columns: dict[str, dict[str, Any]] = {name: getattr(table, name) for name in ALL_COLUMNS}
    for name, column in columns.items():
        if column.keys() != columns["topic_id"].keys():
            problem = f"has {len(column)} rows that do not match the {len(columns['topic_id'])} of 'topic_id'"
            raise InputError(path, problem, field=name)
    for row in columns["topic_id"]:
        yield row, {name: column[row] for name, column in columns.items()}


class _Builder:
    """The topics, facets and pairs of the rows so far. A topic is described again in every row."""

    def __init__(self, path: Path) -> None:
        self.topics: dict[int, Topic] = {}
        """Without their facets."""
        self._path = path
        self._facets: dict[int, dict[str, Facet]] = {}
        """By topic and id, without their pairs."""
        self._pairs: dict[str, list[Pair]] = {}
        """By facet."""
        self._rows: dict[str, dict[str, tuple[str, str]]] = {}
        """Question and answer by the id of the pair, and by row."""
        self._slips: dict[str, None] = {}

    def add(self, row: str, cells: Mapping[str, Any]) -> None:
        """Add a row. InputError where it contradicts itself or an earlier one."""
        topic_id, facet_id, id = cells["topic_id"], cells["topic_facet_id"], cells["topic_facet_question_id"]
        problem = _id_problem(cells)
        if problem:
            raise InputError(self._path, problem, field=f"topic_facet_question_id.{row}")
        kind: FacetType = cells["facet_type"]
        if cells["facet_type"] == "inv":
            # A slip of the published file: read so, its figures are those of the README.
            kind = "inf"
            self._slips[facet_id] = None
        description = unescape(cells["topic_desc"])
        topic = Topic(topic_id, unescape(cells["topic"]), cells["topic_type"], description, ())
        facet = Facet(facet_id, kind, unescape(cells["facet_desc"]), ())
        if self.topics.setdefault(topic_id, topic) != topic:
            problem = f"topic {topic_id} occurs earlier with another text, type or description"
            raise InputError(self._path, problem, field=f"topic_id.{row}")
        if self._facets.setdefault(topic_id, {}).setdefault(facet_id, facet) != facet:
            problem = f"facet {short(facet_id)} occurs earlier with another type or description"
            raise InputError(self._path, problem, field=f"topic_facet_id.{row}")
        question, answer = cells["question"], cells["answer"]
        # Three ids of the published file have two answers; a question is never worded in two ways.
        rows_of_id = self._rows.setdefault(id, {})
        for earlier_question, earlier_answer in rows_of_id.values():
            if earlier_question != question or earlier_answer == answer:
                problem = f"{short(id)} occurs earlier with another question, or with the same answer"
                raise InputError(self._path, problem, field=f"topic_facet_question_id.{row}")
        rows_of_id[row] = (question, answer)
        pairs = self._pairs.setdefault(facet_id, [])
        if not id.endswith("-X"):
            pairs.append(Pair(int(id.rpartition("-")[2]), question, answer))

    def build(self) -> Qulac:
        topics = []
        for topic in self.topics.values():
            facets = []
            for facet in self._facets[topic.id].values():
                facets.append(replace(facet, pairs=tuple(self._pairs[facet.id])))
            topics.append(replace(topic, facets=tuple(facets)))
        repeated: dict[str, tuple[str, ...]] = {}
        for id, rows in self._rows.items():
            if len(rows) > 1:
                repeated[id] = tuple(rows)
        return Qulac(tuple(topics), repeated, tuple(self._slips))


def _id_problem(cells: Mapping[str, Any]) -> str:
    """Return what is wrong with the ids of a row, or with a row whose id does or does not name a question."""
    facet_id = f"{cells['topic_id']}-{cells['facet_id']}"
    id = cells["topic_facet_question_id"]
    number = id.removeprefix(f"{facet_id}-")
    if cells["topic_facet_id"] != facet_id or number == id or not _QUESTION.fullmatch(number):
        return f"must be '{facet_id}-' and a question's number or X, with topic_facet_id {facet_id!r}; is {short(id)}"
    # X says that there is no question; any other row has one, and an answer to it.
    n_expected = 2
    if number == "X":
        n_expected = 0
    n_texts = bool(cells["question"]) + bool(cells["answer"])
    if n_texts != n_expected:
        return f"{short(id)}: question and answer must be empty if the id ends in -X, and only then"
    return ""


def unescape(text: str) -> str:
    """Undo the backslash before a quote."""
    return _ESCAPED.sub(r"\1", text)


# --- Instances: the topic is ambiguous, its facet is the intent ------------------------------------------


def open_qulac(
    target: str, gold: Path | None, names: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """`qulac:PATH`, the path of `qulac.json`. It has no gold of its own."""
    if not target:
        raise UsageError("qulac needs a path: qulac:PATH, the file qulac.json")
    path = Path(target).expanduser()
    index = None
    if gold is not None:
        index = read_gold(gold, names, skip_bad=skip_bad_gold)
    instances, annotations = partial(read_instances, path, index), partial(read_annotations, path)
    return make_dataset("qulac", path, index, instances, annotations=annotations)


def read_instances(path: Path, gold: GoldIndex | None = None) -> Iterator[Instance]:
    """Return the facets by topic, 762 in the published file; id = `topic_facet_id`. Errors as `read_qulac`."""
    facets: list[tuple[str, str, str]] = []
    for topic in read_qulac(path).topics:
        for facet in topic.facets:
            facets.append((facet.id, facet.description, topic.text))
    return facet_instances(path, JOINED, facets, gold)


def read_annotations(path: Path) -> Annotations:
    """What people wrote about each topic and facet; errors as `read_qulac`.

    The questions of a query are the distinct ones of all topics with that text; a facet's pairs are all of its own,
    so that a question asked twice is there with both answers.
    """
    collection = read_qulac(path)
    queries = [AnnotatedQuery(str(topic.id), topic.text, topic.questions) for topic in collection.topics]
    pairs = {}
    for facet in collection.facets:
        pairs[facet.id] = tuple((pair.question, pair.answer) for pair in facet.pairs)
    return merged_annotations(queries, pairs)


def qulac_contents(dataset: Dataset, names: Mapping[str, str] | None) -> Contents:
    """What the instances hold, and what the other columns do. Raises InputError."""
    contents, collection = contents_of(dataset, names), read_qulac(dataset.path)
    n_ambiguous = sum(topic.kind == "ambiguous" for topic in collection.topics)
    facts = dict(contents.facts)
    facts["topics"] = {"total": len(collection.topics), "ambiguous": n_ambiguous}
    notes = list(contents.notes)
    if collection.repeated:
        notes.append(f"ids with several answers, all kept: {', '.join(collection.repeated)}")
    if collection.slips:
        notes.append(f"facet_type 'inv' read as 'inf': {', '.join(collection.slips)}")
    return Contents(facts, tuple(notes))


# --- Published figures -----------------------------------------------------------------------------------


def qulac_figures(topics: Sequence[Topic]) -> DataTable:
    """The README's table, row by row, beside what is counted here. An average over nothing is 0.

    Definitions that reproduce it: rows without a question are no pairs; questions are distinct texts within a topic; a
    facet is informational where it is not navigational; terms are what white space separates, those of questions
    counted over the distinct texts of the collection and those of answers over all pairs.
    """
    kinds = Counter(topic.kind for topic in topics)
    facet_kinds = Counter[FacetType]()
    n_facets_of_topics: list[int] = []
    n_questions = 0
    questions: set[str] = set()
    answers: list[str] = []
    for topic in topics:
        n_facets_of_topics.append(len(topic.facets))
        n_questions += len(topic.questions)
        questions.update(topic.questions)
        for facet in topic.facets:
            facet_kinds[facet.kind] += 1
            for pair in facet.pairs:
                answers.append(pair.answer)
    n_facets = facet_kinds.total()
    n_navigational = facet_kinds["nav"]
    # Name, published value, value here, digits after the point.
    figures = (
        ("topics", 198, len(topics), 0),
        ("faceted topics", 141, kinds["faceted"], 0),
        ("ambiguous topics", 57, kinds["ambiguous"], 0),
        ("facets", 762, n_facets, 0),
        ("facets per topic, average", 3.85, fmean(n_facets_of_topics or [0]), 2),
        ("facets per topic, median", 4, median(n_facets_of_topics or [0]), 0),
        ("informational facets", 577, n_facets - n_navigational, 0),
        ("navigational facets", 185, n_navigational, 0),
        ("questions", 2_639, n_questions, 0),
        ("question-answer pairs", 10_277, len(answers), 0),
        ("terms per question, average", 9.49, _mean_n_terms(questions), 2),
        ("terms per answer, average", 8.21, _mean_n_terms(answers), 2),
    )
    rows: list[Row] = []
    for name, published, counted, digits in figures:
        # A figure is reproduced if it agrees to the digits published, a whole number exactly.
        agrees = digits > 0 and f"{counted:.{digits}f}" == str(published)
        rows.append(
            {
                "figure": name,
                "published": published,
                "counted": counted,
                "reproduced": counted == published or agrees,
                "digits": digits,
            }
        )
    columns = (
        Column("figure", text("figure"), numeric=False),
        Column("published", _published_figure),
        Column("counted", _counted_figure),
        Column("", _ok_or_differs, numeric=False),
    )
    caption = "the collection as its README describes it (SIGIR 2019), and counted in this file"
    return DataTable("figures", "Qulac's published figures", caption, columns, rows)


def _published_figure(row: Row) -> str:
    return format(row["published"], f",.{row['digits']}f")


def _counted_figure(row: Row) -> str:
    """To the published digits; in full where those would hide that a whole number differs."""
    if row["reproduced"] or row["digits"]:
        return format(row["counted"], f",.{row['digits']}f")
    return format(row["counted"], ",")


def _ok_or_differs(row: Row) -> str:
    if row["reproduced"]:
        return "ok"
    return "differs"


def _mean_n_terms(texts: Iterable[str]) -> float:
    return fmean([len(text.split()) for text in texts] or [0])
