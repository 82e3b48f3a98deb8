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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.inspect import Contents, contents_of
from cts_async.datasets.io import MAX_LINE_BYTES, Row, listed, read_tsv, short
from cts_async.datasets.registry import AnnotatedQuery, Annotations, Dataset, make_dataset
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import unescape
from cts_async.records import Instance
from cts_async.report.tables import Column, DataTable, number, text

# --- Rows ------------------------------------------------------------------------------------------------

NO_QUESTION: Final = "Q00001"
"""The id of the question that is none."""
NEEDS: Final = (1, 2, 3, 4)
"""How much a request needs to be clarified: from 1, self-contained, to 4, absolutely ambiguous."""
REQUESTS: Final = ("initial_request", "initial request", "query")
"""What the request's column is called: in the files with labels, in test.tsv, and in both before October 2020."""
LABELS: Final = ("clarification_need", "facet_id", "facet_desc", "question_id", "question", "answer")
"""The columns of a file that is more than a list of topics."""


@dataclass(frozen=True, slots=True)
class ClariqRow:
    """A row. In a file without labels `need` is None and what follows it is "".

    `question` and `answer` are "" where nobody asked (`NO_QUESTION`); an answer may be "" elsewhere, too.
    """

    path: Path
    line: int
    topic_id: str
    request: str
    topic_desc: str
    need: int | None = None
    facet_id: str = ""
    facet_desc: str = ""
    question_id: str = ""
    question: str = ""
    answer: str = ""


def read_clariq(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[ClariqRow]:
    """Stream the rows in file order, backslashes before quotes undone in descriptions.

    InputError names file, line and field: a missing column, an empty cell in a required column, and a
    clarification need that is no whole number from 1 to 4.
    """
    for line, row in read_tsv(path, quoting=True, max_line_bytes=max_line_bytes):
        cells = _Cells(path, line, row)
        request = next((name for name in REQUESTS if name in row), REQUESTS[0])
        topic = (cells.text("topic_id"), cells.text(request), unescape(row.get("topic_desc", "").strip()))
        yield _labelled(cells, topic) if _has_labels(row) else ClariqRow(path, line, *topic)


def read_question_bank(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, str]:
    """The questions of `question_bank.tsv` by id, in file order; that of `NO_QUESTION` is "".

    InputError for a missing column, an id without a question, a question without an id, and a repeated id.
    """
    bank: dict[str, str] = {}
    for line, row in read_tsv(path, quoting=True, max_line_bytes=max_line_bytes):
        cells = _Cells(path, line, row)
        id = cells.text("question_id")
        if id in bank:
            raise InputError(path, f"{short(id)} occurs twice", line=line, field="question_id")
        bank[id] = cells.cell("question") if id == NO_QUESTION else cells.text("question")
    if not bank:
        raise InputError(path, "holds no questions", field="question_id")
    return bank


def _has_labels(row: Row) -> bool:
    return any(name in row for name in LABELS)


def _labelled(cells: _Cells, topic: tuple[str, str, str]) -> ClariqRow:
    question_id = cells.text("question_id")
    # Read in any case, so that a missing column is found on the first row.
    question, answer = cells.cell("question"), cells.cell("answer")
    if question_id == NO_QUESTION:
        question = answer = ""
    elif not question:
        raise cells.wrong("question", f"is empty, although {question_id} is not {NO_QUESTION} (no question)")
    return ClariqRow(
        cells.path,
        cells.line,
        *topic,
        need=cells.need(),
        facet_id=cells.text("facet_id"),
        facet_desc=unescape(cells.text("facet_desc")),
        question_id=question_id,
        question=question,
        answer=answer,
    )


@dataclass(frozen=True, slots=True)
class _Cells:
    path: Path
    line: int
    row: Row

    def cell(self, name: str) -> str:
        """The stripped cell; InputError if there is no such column."""
        if name not in self.row:
            raise self.wrong(name, f"the column is missing; the columns are {listed(self.row)}")
        return str(self.row[name]).strip()

    def text(self, name: str) -> str:
        """A cell that must not be empty."""
        if not (cell := self.cell(name)):
            raise self.wrong(name, "is empty")
        return cell

    def need(self) -> int:
        cell = self.cell("clarification_need")
        found = next((need for need in NEEDS if cell in (str(need), f"{need}.0")), None)
        if found is None:
            raise self.wrong("clarification_need", f"must be a whole number from 1 to 4, is {short(cell)}")
        return found

    def wrong(self, name: str, problem: str) -> InputError:
        return InputError(self.path, problem, line=self.line, field=name)


# --- The collection --------------------------------------------------------------------------------------

FILES: Final = ("train.tsv", "dev.tsv", "test_with_labels.tsv")
"""The release's files that have facets."""
COLUMNS: Final = ("topic_id", "initial_request", "facet_id", "facet_desc")
_CHOICE: Final = re.compile(r"(.+),need=(.*)", re.DOTALL)
_RANGE: Final = re.compile(r"([1-4])(?:-([1-4]))?")


@dataclass(slots=True)
class Topic:
    """A request, and what people were asked about it. `need` is None where the file has no labels."""

    id: str
    request: str
    need: int | None
    path: Path
    """The file that has it."""
    questions: dict[str, str] = field(default_factory=dict)
    """Texts by id in file order, that of no question among them."""


@dataclass(slots=True)
class Facet:
    """An intent behind a topic's request, and what people who had it answered."""

    id: str
    topic_id: str
    description: str
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """(question, answer) in file order; one question may have several answers, and no question is no pair."""


@dataclass(slots=True)
class Clariq:
    """Topics and facets by id, in the order in which the files first mention them."""

    topics: dict[str, Topic] = field(default_factory=dict)
    facets: dict[str, Facet] = field(default_factory=dict)
    n_rows: int = 0
    """Of facet, question and answer: the release calls them single-turn conversations."""
    rewordings: dict[str, ClariqRow] = field(default_factory=dict)
    """By topic id the first row whose request differs from the topic's; the release has one such topic, 260."""

    @property
    def notes(self) -> tuple[str, ...]:
        """A note on topics with a second request text, if there are any."""
        if not self.rewordings:
            return ()
        id, row = next(iter(self.rewordings.items()))
        more = f" ({len(self.rewordings)} topics have several)" if len(self.rewordings) > 1 else ""
        return (
            f"{row.path}:{row.line}: topic {short(id)} has a second request text; the first is used{more}",
        )

    def add(self, row: ClariqRow) -> None:
        """Add a row; the topic keeps its first request text. InputError where it contradicts an earlier row."""
        topic = self.topics.setdefault(row.topic_id, Topic(row.topic_id, row.request, row.need, row.path))
        if topic.path != row.path:
            problem = f"topic {short(row.topic_id)} already occurs in {topic.path}"
            raise InputError(row.path, problem, line=row.line, field="topic_id")
        if topic.need != row.need:
            problem = f"topic {short(row.topic_id)} occurs earlier with another clarification_need"
            raise InputError(row.path, problem, line=row.line, field="clarification_need")
        if topic.request != row.request:
            self.rewordings.setdefault(row.topic_id, row)
        if row.facet_id:
            topic.questions[row.question_id] = row.question
            self._add_pair(row)

    def _add_pair(self, row: ClariqRow) -> None:
        self.n_rows += 1
        facet = self.facets.setdefault(row.facet_id, Facet(row.facet_id, row.topic_id, row.facet_desc))
        if (facet.topic_id, facet.description) != (row.topic_id, row.facet_desc):
            problem = f"facet {short(row.facet_id)} occurs earlier with another topic or facet_desc"
            raise InputError(row.path, problem, line=row.line, field="facet_id")
        if row.question_id != NO_QUESTION:
            facet.pairs.append((row.question, row.answer))


def read_collection(paths: Sequence[Path]) -> Clariq:
    """Read files with or without labels. InputError for what contradicts itself, and for a file without rows."""
    found = Clariq()
    for path in paths:
        row = None
        bare: set[str] = set()
        for row in read_clariq(path):
            if not row.facet_id and row.topic_id in bare:
                raise InputError(path, f"{short(row.topic_id)} occurs twice", line=row.line, field="topic_id")
            bare.add(row.topic_id)
            found.add(row)
        if row is None:
            raise InputError(path, "holds no topics", field="topic_id")
    return found


def clariq_files(path: Path) -> tuple[Path, ...]:
    """A file itself; of a directory those of `FILES` in it, or in its `data/`. InputError if there is none."""
    if not path.is_dir():
        return (path,)
    for folder in (path, path / "data"):
        if found := tuple(folder / name for name in FILES if (folder / name).exists()):
            return found
    raise InputError(path, f"holds none of {', '.join(FILES)}")


def open_clariq(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """Open `clariq:PATH` or `clariq:PATH,need=3-4`: a TSV with labels, or the folder of the release. It has no gold."""
    text, needs = _chosen(target)
    if not text:
        raise UsageError("clariq needs a path: clariq:PATH, a TSV with labels or the folder with train.tsv")
    paths = clariq_files(Path(text).expanduser())
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    name = "clariq" if needs == NEEDS else f"clariq-need{'-'.join(map(str, sorted({needs[0], needs[-1]})))}"
    found = read_collection(paths)
    made = make_dataset(
        name,
        paths[0],
        index,
        partial(_instances, found, paths[0], index, needs),
        annotations=partial(_annotations, found),
    )
    return replace(made, more_paths=paths[1:], notes=(*found.notes, *made.notes))


def _chosen(target: str) -> tuple[str, tuple[int, ...]]:
    """The path, and the clarification needs to keep; an existing file of the whole name wins."""
    match = _CHOICE.fullmatch(target)
    if match is None or Path(target).expanduser().exists():
        return target, NEEDS
    found = _RANGE.fullmatch(match[2])
    needs = tuple(need for need in NEEDS if found and int(found[1]) <= need <= int(found[2] or found[1]))
    if not needs:
        raise UsageError(
            f"clariq:...,need={match[2]}: must be a need from 1 to 4, or two of them as in need=3-4"
        )
    return match[1], needs


def _instances(
    found: Clariq, path: Path, gold: GoldIndex | None, needs: Collection[int]
) -> Iterator[Instance]:
    """The facets of topics with one of `needs`, in file order. InputError, naming `path`, if there are none."""
    facets = [facet for facet in found.facets.values() if found.topics[facet.topic_id].need in needs]
    if not facets:
        chosen = "" if needs == NEEDS else f" of clarification need {', '.join(map(str, needs))}"
        raise InputError(path, f"has no facets{chosen}; {', '.join(FILES)} have them", field="facet_id")
    if gold is not None:
        gold.require_join(path, COLUMNS, ((facet.id, facet.description) for facet in facets))
    for facet in facets:
        nuggets = gold.lookup(facet.id, facet.description) if gold is not None else None
        request = found.topics[facet.topic_id].request
        yield Instance(facet.id, facet.description, request, nuggets or ())


def _annotations(found: Clariq) -> Annotations:
    """Requests with their needs and questions; (question, answer) pairs by facet.

    Topics with the same request are one query: its questions are theirs together, its need that of the first.
    """
    questions: dict[str, dict[str, None]] = {}
    first: dict[str, Topic] = {}
    for topic in found.topics.values():
        first.setdefault(topic.request, topic)
        asked = questions.setdefault(topic.request, {})
        asked.update((text, None) for id, text in topic.questions.items() if id != NO_QUESTION)
    queries = {
        request: AnnotatedQuery(topic.id, request, tuple(questions[request]), topic.need)
        for request, topic in first.items()
    }
    return Annotations(queries, {id: tuple(facet.pairs) for id, facet in found.facets.items()})


def clariq_contents(dataset: Dataset, fields: Mapping[str, str] | None) -> Contents:
    """Contents of the instances, and of the question bank and test topics in the same folder. Raises InputError."""
    found, folder = contents_of(dataset, fields), dataset.path.parent
    bank, test = folder / "question_bank.tsv", folder / "test.tsv"
    facts = dict(found.facts)
    if bank.exists():
        facts["question_bank"] = len(read_question_bank(bank))
    if test.exists():
        facts["test_topics"] = len(read_collection((test,)).topics)
    return Contents(facts, found.notes)


# --- Published figures -----------------------------------------------------------------------------------

PUBLISHED: Final = {
    "topics": "187 train, 50 dev",
    "facets": "891 train and dev",
    "questions": "3,929 in all",
    "conversations": "11,489 train and dev",
}
"""The release's README, "ClariQ Train"."""


def _n_topics(found: Clariq, need: int) -> int:
    return sum(topic.need == need for topic in found.topics.values())


def _n_facets(found: Clariq, need: int) -> int:
    return sum(found.topics[facet.topic_id].need == need for facet in found.facets.values())


_FIGURES: Final[Mapping[str, Callable[[Clariq], int]]] = {
    "topics": lambda found: len(found.topics),
    **{f"topics of need {need}": partial(_n_topics, need=need) for need in NEEDS},
    "facets": lambda found: len(found.facets),
    "facets of need 3 or 4": lambda found: _n_facets(found, 3) + _n_facets(found, 4),
    "facets of need 1": lambda found: _n_facets(found, 1),
    "questions": lambda found: len(
        {id for topic in found.topics.values() for id in topic.questions} - {NO_QUESTION}
    ),
    "conversations": lambda found: found.n_rows,
    "pairs": lambda found: sum(len(facet.pairs) for facet in found.facets.values()),
}


def figures_table(parts: Mapping[str, Clariq], everything: Clariq) -> DataTable:
    """Counts by file, and over all of them, beside what is published."""
    columns = {**parts, "all": everything} if len(parts) > 1 else parts
    rows = [
        {
            "figure": name,
            **{part: count(found) for part, found in columns.items()},
            "published": PUBLISHED.get(name),
        }
        for name, count in _FIGURES.items()
    ]
    return DataTable(
        "figures",
        "ClariQ",
        "A conversation is a row: a facet, a question and its answer. Pairs are those with a question.",
        (
            Column("figure", text("figure"), numeric=False),
            *(Column(part, number(part, ",d")) for part in columns),
            Column("published (README)", text("published"), numeric=False),
        ),
        rows,
    )
