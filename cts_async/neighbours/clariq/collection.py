"""ClariQ (Aliannejadi et al., EMNLP 2021): the collection, and the instances made of it.

`train.tsv`, `dev.tsv` and `test_with_labels.tsv` have a row for each facet, question and answer; `test.tsv` has
topics alone, and calls the second column `initial request`. Cells may be quoted. `Q00001` is the question that
stands for none: its question and answer are empty. (facet, question) is not unique. `topic_desc` may be missing.

The release is known to have 1,070 facets; 539 have a clarification need of 3 or 4 and suit the benchmark best, 77 have
need 1 and are a negative control. No test checks these counts, since the data's repository names no licence and users
bring it; `cts data clariq figures` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, TypeAdapter

from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.inspect import contents_of
from cts_async.datasets.io import short
from cts_async.datasets.kinds import AnnotatedQuery, Annotations, Contents, Dataset, make_dataset
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import Text, checked, facet_instances, merged_annotations, read_columns
from cts_async.neighbours.qulac.collection import unescape
from cts_async.records import Instance
from cts_async.tables.table import Column, DataTable, Row, number, text

# --- Rows ------------------------------------------------------------------------------------------------

NO_QUESTION: Final = "Q00001"
"""The id of the question that is none."""
NEEDS: Final = (1, 2, 3, 4)
"""How much a request needs to be clarified: from 1, self-contained, to 4, absolutely ambiguous."""
Need: TypeAlias = Annotated[int, Field(ge=1, le=4)]


@dataclass(frozen=True, slots=True)
class _TopicRow:
    """A row of a file without labels."""

    topic_id: Text
    initial_request: Text


@dataclass(frozen=True, slots=True)
class ClariqRow(_TopicRow):
    """A row. `question` and `answer` are "" where nobody asked (`NO_QUESTION`); an answer may be "" elsewhere, too."""

    clarification_need: Need
    facet_id: Text
    facet_desc: Text
    question_id: Text
    question: str
    answer: str


_TOPIC_ROW: Final = TypeAdapter(_TopicRow)
_ROW: Final = TypeAdapter(ClariqRow)
_LABELS: Final = tuple(ClariqRow.__slots__)
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "topic_id": ("topic_id",),
    # In the files with labels, in test.tsv, and in both before October 2020.
    "initial_request": ("initial_request", "initial request", "query"),
    "clarification_need": ("clarification_need",),
    "facet_id": ("facet_id",),
    "facet_desc": ("facet_desc",),
    "question_id": ("question_id",),
    "question": ("question",),
    "answer": ("answer",),
}
"""Our names of the columns, and their spellings."""


def read_clariq(path: Path) -> Iterator[tuple[int, _TopicRow]]:
    """Stream line and row in file order, backslashes before quotes undone in descriptions.

    InputError names file, line and field: a missing column, an empty cell, and a clarification need that is no whole
    number from 1 to 4.
    """
    for line, cells in read_columns(path, _COLUMNS, quoting=True, optional=_LABELS):
        # A file without labels has topics and requests alone.
        if len(cells) == 2:
            yield line, checked(_TOPIC_ROW, cells, path, line=line)
            continue
        row = checked(_ROW, cells, path, line=line)
        if row.question_id == NO_QUESTION:
            row = replace(row, question="", answer="")
        elif not row.question:
            problem = f"is empty, although {row.question_id} is not {NO_QUESTION} (no question)"
            raise InputError(path, problem, line=line, field="question")
        yield line, replace(row, facet_desc=unescape(row.facet_desc))


def read_question_bank(path: Path) -> dict[str, str]:
    """The questions of `question_bank.tsv` by id, in file order; that of `NO_QUESTION` is "".

    InputError for a missing column, an id without a question, a repeated id, and a file without questions.
    """
    bank: dict[str, str] = {}
    columns = {"question_id": ("question_id",), "question": ("question",)}
    for line, cells in read_columns(path, columns, quoting=True):
        id = cells["question_id"]
        if id in bank:
            raise InputError(path, f"{short(id)} occurs twice", line=line, field="question_id")
        if not id:
            raise InputError(path, "is empty", line=line, field="question_id")
        if id != NO_QUESTION and not cells["question"]:
            raise InputError(path, "is empty", line=line, field="question")
        bank[id] = cells["question"]
    if not bank:
        raise InputError(path, "holds no questions", field="question_id")
    return bank


# --- The collection --------------------------------------------------------------------------------------

FILES: Final = ("train.tsv", "dev.tsv", "test_with_labels.tsv")
"""The release's files that have facets."""
JOINED: Final = ("topic_id", "initial_request", "facet_id", "facet_desc")
"""The columns that instances, and their gold, are identified by."""


@dataclass(slots=True)
class ClariqTopic:
    """A request, and what people were asked about it. `need` is None where the file has no labels."""

    id: str
    request: str
    need: int | None
    path: Path
    """The file that has it."""
    questions: dict[str, str] = field(default_factory=dict)
    """Texts by id in file order, that of no question among them."""


@dataclass(slots=True)
class ClariqFacet:
    """An intent behind a topic's request, and what people who had it answered."""

    id: str
    topic_id: str
    description: str
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """(question, answer) in file order; one question may have several answers, and no question is no pair."""


@dataclass(slots=True)
class Clariq:
    """Topics and facets by id, in the order in which the files first mention them."""

    topics: dict[str, ClariqTopic] = field(default_factory=dict)
    facets: dict[str, ClariqFacet] = field(default_factory=dict)
    n_rows: int = 0
    """Of facet, question and answer: the release calls them single-turn conversations."""
    reworded: dict[str, str] = field(default_factory=dict)
    """By id of a topic with a second request text a note on it; the release has one such topic, 260."""

    def add(self, path: Path, line: int, row: _TopicRow) -> None:
        """Add a row; the topic keeps its first request text. InputError where it contradicts an earlier row."""
        need = None
        if isinstance(row, ClariqRow):
            need = row.clarification_need
        topic = self.topics.setdefault(
            row.topic_id, ClariqTopic(row.topic_id, row.initial_request, need, path)
        )
        if topic.path != path:
            problem = f"topic {short(row.topic_id)} already occurs in {topic.path}"
            raise InputError(path, problem, line=line, field="topic_id")
        if topic.need != need:
            problem = f"topic {short(row.topic_id)} occurs earlier with another clarification_need"
            raise InputError(path, problem, line=line, field="clarification_need")
        if topic.request != row.initial_request:
            note = f"{path}:{line}: topic {short(row.topic_id)} has a second request text; the first is used"
            self.reworded.setdefault(row.topic_id, note)
        if not isinstance(row, ClariqRow):
            return
        topic.questions[row.question_id] = row.question
        self.n_rows += 1
        facet = self.facets.setdefault(row.facet_id, ClariqFacet(row.facet_id, row.topic_id, row.facet_desc))
        if (facet.topic_id, facet.description) != (row.topic_id, row.facet_desc):
            problem = f"facet {short(row.facet_id)} occurs earlier with another topic or facet_desc"
            raise InputError(path, problem, line=line, field="facet_id")
        if row.question_id != NO_QUESTION:
            facet.pairs.append((row.question, row.answer))


def read_collection(paths: Sequence[Path]) -> Clariq:
    """Read files with or without labels. InputError for what contradicts itself, and for a file without rows."""
    collection = Clariq()
    for path in paths:
        n_topics = len(collection.topics)
        for line, row in read_clariq(path):
            collection.add(path, line, row)
        if len(collection.topics) == n_topics:
            raise InputError(path, "holds no topics", field="topic_id")
    return collection


def clariq_files(path: Path) -> tuple[Path, ...]:
    """A file itself; of a directory those of `FILES` in it, or in its `data/`. InputError if there is none."""
    if not path.is_dir():
        return (path,)
    # The release's repository has its files in data/.
    for folder in (path, path / "data"):
        paths: list[Path] = []
        for name in FILES:
            if (folder / name).exists():
                paths.append(folder / name)
        if paths:
            return tuple(paths)
    raise InputError(path, f"holds none of {', '.join(FILES)}")


# --- Instances: the request is ambiguous, its facet is the intent ----------------------------------------

_PATH_AND_NEEDS: Final = re.compile(r"(.+),need=(.*)", re.DOTALL)
_RANGE: Final = re.compile(r"([1-4])(?:-([1-4]))?")


def open_clariq(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """Open `clariq:PATH` or `clariq:PATH,need=3-4`: a TSV with labels, or the folder of the release. It has no gold."""
    text, needs = _path_and_needs(target)
    if not text:
        raise UsageError("clariq needs a path: clariq:PATH, a TSV with labels or the folder with train.tsv")
    paths = clariq_files(Path(text).expanduser())
    index = None
    if gold is not None:
        index = read_gold(gold, fields, skip_bad=skip_bad_gold)
    name = "clariq"
    # Other needs are other instances: the name tells such datasets apart.
    if needs != NEEDS:
        name = f"clariq-need{needs[0]}"
        if len(needs) > 1:
            name += f"-{needs[-1]}"
    collection = read_collection(paths)
    instances = partial(_instances, collection, paths[0], index, needs)
    annotations = partial(_annotations, collection)
    dataset = make_dataset(name, paths[0], index, instances, annotations=annotations)
    notes = list(collection.reworded.values()) + list(dataset.notes)
    return replace(dataset, more_paths=paths[1:], notes=tuple(notes))


def _path_and_needs(target: str) -> tuple[str, tuple[int, ...]]:
    """The path, and the clarification needs to keep; an existing file of the whole name wins."""
    match = _PATH_AND_NEEDS.fullmatch(target)
    if match is None or Path(target).expanduser().exists():
        return target, NEEDS
    path, text = match.groups()
    needs: tuple[int, ...] = ()
    limits = _RANGE.fullmatch(text)
    if limits:
        lowest, highest = int(limits[1]), int(limits[2] or limits[1])
        needs = tuple(range(lowest, highest + 1))
    if not needs:
        raise UsageError(f"clariq:...,need={text}: must be a need from 1 to 4, or two of them as in need=3-4")
    return path, needs


def _instances(
    collection: Clariq, path: Path, gold: GoldIndex | None, needs: Collection[int]
) -> Iterator[Instance]:
    """The facets of topics with one of `needs`, in file order. InputError, naming `path`, if there are none."""
    facets = []
    for facet in collection.facets.values():
        topic = collection.topics[facet.topic_id]
        if topic.need in needs:
            facets.append((facet.id, facet.description, topic.request))
    if not facets:
        problem = "has no facets"
        if needs != NEEDS:
            problem += f" of clarification need {', '.join(map(str, needs))}"
        raise InputError(path, f"{problem}; {', '.join(FILES)} have them", field="facet_id")
    return facet_instances(path, JOINED, facets, gold)


def _annotations(collection: Clariq) -> Annotations:
    """Requests with their needs and questions; (question, answer) pairs by facet."""
    queries: list[AnnotatedQuery] = []
    for topic in collection.topics.values():
        questions: list[str] = []
        for id, question in topic.questions.items():
            # One text may have several ids.
            if id != NO_QUESTION and question not in questions:
                questions.append(question)
        queries.append(AnnotatedQuery(topic.id, topic.request, tuple(questions), topic.need))
    pairs = {id: tuple(facet.pairs) for id, facet in collection.facets.items()}
    return merged_annotations(queries, pairs)


def clariq_contents(dataset: Dataset, fields: Mapping[str, str] | None) -> Contents:
    """Contents of the instances, and of the question bank and test topics in the same folder. Raises InputError."""
    contents, folder = contents_of(dataset, fields), dataset.path.parent
    bank, test = folder / "question_bank.tsv", folder / "test.tsv"
    facts = dict(contents.facts)
    if bank.exists():
        facts["question_bank"] = len(read_question_bank(bank))
    if test.exists():
        facts["test_topics"] = len(read_collection((test,)).topics)
    return Contents(facts, contents.notes)


# --- Published figures -----------------------------------------------------------------------------------

PUBLISHED: Final = {
    "topics": "187 train, 50 dev",
    "facets": "891 train and dev",
    "questions": "3,929 in all",
    "conversations": "11,489 train and dev",
}
"""The release's README, "ClariQ Train"."""


def _count_figures(collection: Clariq) -> dict[str, int]:
    topics_by_need, facets_by_need = Counter[int | None](), Counter[int | None]()
    questions: set[str] = set()
    for topic in collection.topics.values():
        topics_by_need[topic.need] += 1
        questions.update(topic.questions)
    n_pairs = 0
    for facet in collection.facets.values():
        facets_by_need[collection.topics[facet.topic_id].need] += 1
        n_pairs += len(facet.pairs)
    figures = {"topics": len(collection.topics)}
    for need in NEEDS:
        figures[f"topics of need {need}"] = topics_by_need[need]
    figures["facets"] = len(collection.facets)
    figures["facets of need 3 or 4"] = facets_by_need[3] + facets_by_need[4]
    figures["facets of need 1"] = facets_by_need[1]
    figures["questions"] = len(questions - {NO_QUESTION})
    figures["conversations"] = collection.n_rows
    figures["pairs"] = n_pairs
    return figures


def clariq_figures(collections: Mapping[str, Clariq], everything: Clariq) -> DataTable:
    """Counts by file, and over all of them, beside what is published."""
    figures_of_all = _count_figures(everything)
    figures_by_file = {name: _count_figures(collection) for name, collection in collections.items()}
    # Not their sum: files may share questions.
    if len(collections) > 1:
        figures_by_file["all"] = figures_of_all
    rows: list[Row] = []
    for figure in figures_of_all:
        row: dict[str, Any] = {"figure": figure}
        for name, figures in figures_by_file.items():
            row[name] = figures[figure]
        row["published"] = PUBLISHED.get(figure)
        rows.append(row)
    columns = [Column("figure", text("figure"), numeric=False)]
    for name in figures_by_file:
        columns.append(Column(name, number(name, ",d")))
    columns.append(Column("published (README)", text("published"), numeric=False))
    caption = "A conversation is a row: a facet, a question and its answer. Pairs are those with a question."
    return DataTable("figures", "ClariQ", caption, columns, rows)
