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
from dataclasses import dataclass, field, fields
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
from cts_async.neighbours.inputs import Text, annotations_of, facet_instances, read_json
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
class Qulac:
    """The file: topics in file order; rows by an id that several have; facets whose type was a slip."""

    topics: tuple[Topic, ...] = field(repr=False)
    repeated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    slips: tuple[str, ...] = ()

    @property
    def facets(self) -> list[Facet]:
        return [facet for topic in self.topics for facet in topic.facets]


def read_qulac(path: Path) -> Qulac:
    """Read the file into memory (the published one has 3.8 MB).

    InputError names field and row of what is wrong: a missing or unequal column, a wrong value, ids that contradict
    each other, a topic or facet described in two ways, a question that occurs twice with the same answer.
    """
    found = read_json(path, _COLUMNS)
    columns: dict[str, dict[str, Any]] = {name: getattr(found, name) for name in ALL_COLUMNS}
    for name, column in columns.items():
        if column.keys() != columns["topic_id"].keys():
            problem = f"has {len(column)} rows that do not match the {len(columns['topic_id'])} of 'topic_id'"
            raise InputError(path, problem, field=name)
    topics: dict[int, tuple[str, TopicType, str]] = {}
    facets: dict[int, dict[str, tuple[FacetType, str]]] = {}
    pairs: dict[str, list[Pair]] = {}
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    slips: dict[str, None] = {}
    for row in columns["topic_id"]:
        cells = {name: column[row] for name, column in columns.items()}
        topic_id, facet_id, id = cells["topic_id"], cells["topic_facet_id"], cells["topic_facet_question_id"]
        if problem := _id_problem(cells):
            raise InputError(path, problem, field=f"topic_facet_question_id.{row}")
        if cells["facet_type"] == "inv":
            slips[facet_id] = None
        kind: FacetType = "inf" if cells["facet_type"] == "inv" else cells["facet_type"]
        topic = (unescape(cells["topic"]), cells["topic_type"], unescape(cells["topic_desc"]))
        facet = (kind, unescape(cells["facet_desc"]))
        if topics.setdefault(topic_id, topic) != topic:
            problem = f"topic {topic_id} occurs earlier with another text, type or description"
            raise InputError(path, problem, field=f"topic_id.{row}")
        if facets.setdefault(topic_id, {}).setdefault(facet_id, facet) != facet:
            problem = f"facet {short(facet_id)} occurs earlier with another type or description"
            raise InputError(path, problem, field=f"topic_facet_id.{row}")
        pair = (cells["question"], cells["answer"])
        same_id = rows.setdefault(id, {})
        if any(other[0] != pair[0] or other == pair for other in same_id.values()):
            problem = f"{short(id)} occurs earlier with another question, or with the same answer"
            raise InputError(path, problem, field=f"topic_facet_question_id.{row}")
        same_id[row] = pair
        of_facet = pairs.setdefault(facet_id, [])
        if not id.endswith("-X"):
            of_facet.append(Pair(int(id.rpartition("-")[2]), *pair))
    if not topics:
        raise InputError(path, "has no rows", field="topic_id")
    return Qulac(
        tuple(
            Topic(
                number, *about, tuple(Facet(id, *of, tuple(pairs[id])) for id, of in facets[number].items())
            )
            for number, about in topics.items()
        ),
        {id: tuple(same) for id, same in rows.items() if len(same) > 1},
        tuple(slips),
    )


def _id_problem(cells: Mapping[str, Any]) -> str:
    """Return what is wrong with the ids of a row, or with a row whose id does or does not name a question."""
    facet_id = f"{cells['topic_id']}-{cells['facet_id']}"
    id = cells["topic_facet_question_id"]
    number = id.removeprefix(f"{facet_id}-")
    if cells["topic_facet_id"] != facet_id or number == id or not _QUESTION.fullmatch(number):
        return f"must be '{facet_id}-' and a question's number or X, with topic_facet_id {facet_id!r}; is {short(id)}"
    there = [bool(cells["question"]), bool(cells["answer"])]
    if any(there) if number == "X" else not all(there):
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
    index = None if gold is None else read_gold(gold, names, skip_bad=skip_bad_gold)
    instances, annotations = partial(read_instances, path, index), partial(read_annotations, path)
    return make_dataset("qulac", path, index, instances, annotations=annotations)


def read_instances(path: Path, gold: GoldIndex | None = None) -> Iterator[Instance]:
    """Return the facets by topic, 762 in the published file; id = `topic_facet_id`. Errors as `read_qulac`."""
    facets = [
        (facet.id, facet.description, topic.text)
        for topic in read_qulac(path).topics
        for facet in topic.facets
    ]
    return facet_instances(path, JOINED, facets, gold)


def read_annotations(path: Path) -> Annotations:
    """What people wrote about each topic and facet; errors as `read_qulac`.

    The questions of a query are the distinct ones of all topics with that text; a facet's pairs are all of its own,
    so that a question asked twice is there with both answers.
    """
    found = read_qulac(path)
    queries = (AnnotatedQuery(str(topic.id), topic.text, topic.questions) for topic in found.topics)
    pairs = {facet.id: tuple((pair.question, pair.answer) for pair in facet.pairs) for facet in found.facets}
    return annotations_of(queries, pairs)


def qulac_contents(dataset: Dataset, names: Mapping[str, str] | None) -> Contents:
    """What the instances hold, and what the other columns do. Raises InputError."""
    found, table = contents_of(dataset, names), read_qulac(dataset.path)
    ambiguous = sum(topic.kind == "ambiguous" for topic in table.topics)
    topics = {"topics": {"total": len(table.topics), "ambiguous": ambiguous}}
    notes = list(found.notes)
    if table.repeated:
        ids = ", ".join(table.repeated)
        notes.append(f"ids with several answers, all kept: {ids}")
    if table.slips:
        notes.append(f"facet_type 'inv' read as 'inf': {', '.join(table.slips)}")
    return Contents({**found.facts, **topics}, tuple(notes))


# --- Published figures -----------------------------------------------------------------------------------


def qulac_figures(topics: Sequence[Topic]) -> DataTable:
    """The README's table, row by row, beside what is counted here. An average over nothing is 0.

    Definitions that reproduce it: rows without a question are no pairs; questions are distinct texts within a topic; a
    facet is informational where it is not navigational; terms are what white space separates, those of questions
    counted over the distinct texts of the collection and those of answers over all pairs.
    """
    kinds = [topic.kind for topic in topics]
    facets = [facet for topic in topics for facet in topic.facets]
    pairs = [pair for facet in facets for pair in facet.pairs]
    per_topic = [len(topic.facets) for topic in topics]
    navigational = sum(facet.kind == "nav" for facet in facets)
    figures = (
        ("topics", 198, len(kinds), 0),
        ("faceted topics", 141, kinds.count("faceted"), 0),
        ("ambiguous topics", 57, kinds.count("ambiguous"), 0),
        ("facets", 762, len(facets), 0),
        ("facets per topic, average", 3.85, fmean(per_topic or [0]), 2),
        ("facets per topic, median", 4, median(per_topic or [0]), 0),
        ("informational facets", 577, len(facets) - navigational, 0),
        ("navigational facets", 185, navigational, 0),
        ("questions", 2_639, sum(len(topic.questions) for topic in topics), 0),
        ("question-answer pairs", 10_277, len(pairs), 0),
        ("terms per question, average", 9.49, _terms({pair.question for pair in pairs}), 2),
        ("terms per answer, average", 8.21, _terms([pair.answer for pair in pairs]), 2),
    )
    # A figure is reproduced if it agrees to the digits published, a whole number exactly.
    rows: list[Row] = [
        {
            "figure": name,
            "published": published,
            "counted": counted,
            "reproduced": counted == published or (digits > 0 and f"{counted:.{digits}f}" == str(published)),
            "digits": digits,
        }
        for name, published, counted, digits in figures
    ]
    columns = (
        Column("figure", text("figure"), numeric=False),
        Column("published", lambda row: format(row["published"], f",.{row['digits']}f")),
        Column("counted", _counted),
        Column("", lambda row: "ok" if row["reproduced"] else "differs", numeric=False),
    )
    caption = "the collection as its README describes it (SIGIR 2019), and counted in this file"
    return DataTable("figures", "Qulac's published figures", caption, columns, rows)


def _counted(row: Row) -> str:
    """To the published digits; in full where those would hide that a whole number differs."""
    return format(row["counted"], f",.{row['digits']}f" if row["reproduced"] or row["digits"] else ",")


def _terms(texts: Iterable[str]) -> float:
    return fmean([len(text.split()) for text in texts] or [0])
