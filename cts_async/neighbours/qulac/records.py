"""Qulac's artificial conversations, by record id, and the evaluation dictionaries over them (SIGIR 2019, README)."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, TypeAlias

import orjson

from cts_async.datasets.inspect import Contents
from cts_async.datasets.io import kind_of, parse_json, read_bytes, short, unreadable
from cts_async.errors import InputError, UsageError, write_error
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic, encode_facet_id
from cts_async.report.tables import Column, DataTable, number
from cts_async.report.tables import text as as_text
from cts_async.safe_files import atomic_writer

# --- Record ids: topic - facet - past question 1 - past question 2 - current question - answer flag ------

NO_QUESTION: Final = 0
"""Stands in the place of the current question where none was asked."""
MAX_HISTORY: Final = 2
"""Past questions that an id may have."""

_NUMBER: Final = "[1-9][0-9]{0,8}"
_RECORD: Final = re.compile(
    rf"({_NUMBER})-({_NUMBER})((?:-{_NUMBER}){{0,{MAX_HISTORY}}})-({_NUMBER}|{NO_QUESTION})-([01])"
)
_FACET: Final = re.compile(rf"({_NUMBER})-({_NUMBER})")


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """The id of a record (README, "Record ID"). Ids compare by their numbers: topic, facet, history, question, flag.

    `history` are the numbers of the past questions, in the order in which they were asked. The flag is 1 where the
    current question's answer was used and 0 where it was not. The original query alone has question 0 and flag 0
    (`18-2-0-0`): Qulac's own ids have none for it, and its questions count from 1. Raises ValueError for numbers below
    1, a history longer than MAX_HISTORY, and no question with a history or an answer.
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


def decode_facet_id(text: str) -> tuple[int, int]:
    """Topic and facet of "18-2"; ValueError for anything else."""
    match = _FACET.fullmatch(text)
    if match is None:
        raise ValueError("must be topic-facet, such as 18-2: two numbers from 1")
    return int(match[1]), int(match[2])


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of "-1-2"; none of ""."""
    return tuple(int(number) for number in text.split("-")[1:])


# --- Conversations ---------------------------------------------------------------------------------------

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
    """Qulac's artificial conversations (README, `qulac_hist012_dict`), facet by facet, short ones first.

    Each has a current question and a history of 0, 1 or 2 other questions of the same facet, with that facet's
    answers. The history is a combination, in the order of the questions' numbers: the README calls its records "all
    possible combinations", its example of two past questions is 18-2-1-2-10-1 (the numbers rise), and the current
    question may have any number (1-2-2-1-1 has question 2 behind it and asks question 1). So a facet with n questions
    gives n * C(n - 1, h) conversations with a history of h: of the published file 10,274 + 130,670 + 781,170 = 922,114.
    (Of the three ids with two answers the first in the file counts: a record id could not tell them apart.)

    `turns` are the lengths wanted. Raises ValueError for a length that is not in TURNS. Holds one at a time.
    """
    wanted = _checked_turns(turns)
    for topic in topics:
        for facet in topic.facets:
            for length in wanted:
                yield from _of_facet(topic, facet, length)


def count_conversations(topics: Iterable[Topic], turns: Collection[int] = TURNS) -> Mapping[int, int]:
    """How many conversations of each length `conversations` would yield, by the formula."""
    questions = [len(facet.by_number) for topic in topics for facet in topic.facets]
    return {
        length: sum(n * comb(n - 1, length - 1) for n in questions if n) for length in _checked_turns(turns)
    }


def _of_facet(topic: Topic, facet: Facet, length: int) -> Iterator[Conversation]:
    pairs = facet.by_number
    topic_id, facet_id = decode_facet_id(facet.id)
    for past in combinations(pairs, length - 1):
        history = tuple(pairs[number] for number in past)
        for asked, pair in pairs.items():
            if asked not in past:
                record = RecordId(topic_id, facet_id, past, asked, True)
                yield Conversation(record, topic.text, history, pair)


def _checked_turns(turns: Collection[int]) -> list[int]:
    if unknown := sorted(set(turns) - set(TURNS)):
        raise ValueError(f"conversations have {TURNS[0]} to {TURNS[-1]} turns, not {unknown[0]}")
    return sorted(set(turns))


def counts_table(counts: Mapping[int, int]) -> DataTable:
    """The numbers of conversations by length."""
    rows: list[dict[str, Any]] = [{"turns": turns, "conversations": count} for turns, count in counts.items()]
    rows.append({"turns": "all", "conversations": sum(counts.values())})
    columns = (
        Column("turns", as_text("turns"), numeric=False),
        Column("conversations", number("conversations", ",")),
    )
    caption = "a facet with n questions gives n * C(n - 1, turns - 1)"
    return DataTable("conversations", "Artificial conversations", caption, columns, rows)


# --- Evaluation dictionaries: {metric: {record id: value}}, in JSON --------------------------------------
#
# Qulac's README ("eval_hist012_dict") names eleven metrics: NDCG1, 3, 5, 10, 20; P1, 3, 5, 10, 20; MRR100. The
# dictionaries published there are Python pickles. Reading a pickle runs whatever code its author put into it, so none
# is ever opened here.

Evaluations: TypeAlias = Mapping[str, Mapping[str, float]]
"""Metric -> record id -> value in [0, 1]."""

MAX_EVALUATIONS_BYTES: Final = 512 * 1024 * 1024
"""A file with one metric of all of Qulac's conversations, with and without answers, has about 80 MB."""

_METRIC: Final = re.compile(r"([A-Za-z]+)([1-9][0-9]*)?")
_PICKLES: Final = (".pkl", ".pickle")
_ARCHIVES: Final = (".tar", ".gz", ".tgz", ".zip")
_PICKLE_STARTS: Final = (b"\x80", b"(d", b"}q")
_ARCHIVE_STARTS: Final = (b"\x1f\x8b", b"PK\x03\x04")
_CONVERT: Final = (
    "reading a pickle runs whatever code it holds, so none is opened here. If you trust where it comes from, convert "
    'it where it can do no harm (a container without network): python3 -c "import json, pickle; '
    "json.dump(pickle.load(open('eval.pkl', 'rb')), open('eval.json', 'w'))\""
)


def read_evaluations(path: Path, *, max_bytes: int = MAX_EVALUATIONS_BYTES) -> dict[str, dict[str, float]]:
    """Read a dictionary, metrics and records in file order.

    InputError for a pickle or an archive, a file larger than `max_bytes`, broken JSON, a key that occurs twice, a
    name that is no metric, an id that does not decode, and a value that is no number from 0 to 1.
    """
    refuse_pickle(path)
    table = parse_json(path, read_bytes(path, max_bytes=max_bytes, advice="write one file for each metric"))
    _check_table(path, table)
    return {metric: {id: float(value) for id, value in values.items()} for metric, values in table.items()}


def metric_order(name: str) -> tuple[str, int]:
    """What to sort metrics by: NDCG3 comes before NDCG20."""
    match = _METRIC.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def _check_table(path: Path, table: Any) -> None:
    if not isinstance(table, Mapping):
        raise InputError(path, f"must be an object {{metric: {{record id: value}}}}, is {kind_of(table)}")
    if not table:
        raise InputError(path, "holds no metrics: {metric: {record id: value}} is expected")
    known: set[str] = set()
    for metric, values in table.items():
        if not _METRIC.fullmatch(metric):
            raise InputError(path, "is no metric: a name and a cutoff, such as NDCG20 or P1", field=metric)
        if not isinstance(values, Mapping):
            problem = f"must be an object {{record id: value}}, is {kind_of(values)}"
            raise InputError(path, problem, field=metric)
        if not values:
            raise InputError(path, "holds no records", field=metric)
        _check_ids(path, metric, values, known)
        _check_values(path, metric, values)


def _check_ids(path: Path, metric: str, values: Mapping[str, Any], known: set[str]) -> None:
    """Every id decodes; metrics mostly have the same ones, and those in `known` have been looked at."""
    for id in values:
        if id in known:
            continue
        try:
            decode_record_id(id)
        except ValueError as error:
            raise InputError(path, f"the record id {short(id)} {error}", field=metric) from None
        known.add(id)


def _check_values(path: Path, metric: str, values: Mapping[str, Any]) -> None:
    for id, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(path, f"must be a number, is {kind_of(value)}", field=f"{metric}.{id}")
        if not (math.isfinite(value) and 0 <= value <= 1):
            raise InputError(path, f"must be a number from 0 to 1, is {value}", field=f"{metric}.{id}")


def refuse_pickle(path: Path) -> None:
    """InputError for a pickle or an archive, with the reason and the way out; reads no more than its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise unreadable(path, error) from None
    suffix = path.suffix.lower()
    if suffix in _PICKLES or start.startswith(_PICKLE_STARTS):
        raise InputError(path, f"is a pickle, not JSON: {_CONVERT}")
    if suffix in _ARCHIVES or start.startswith(_ARCHIVE_STARTS):
        raise InputError(path, f"is an archive, not JSON; unpack it first. If it holds a pickle: {_CONVERT}")


def evaluations_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Contents of an evaluation dictionary. Raises InputError, also for a pickle."""
    found = read_evaluations(Path(path))
    return Contents({"values": sum(map(len, found.values())), "metrics": list(found)})


class EvaluationWriter:
    """Writes an evaluation dictionary record by record, in constant memory.

    All of Qulac's conversations are 1.8 million records of eleven metrics, and the file has metric by metric what comes
    record by record. So each metric is collected in an unnamed file beside the target, and the file put together last.
    """

    def __init__(self, path: Path, columns: Mapping[str, BinaryIO]) -> None:
        self._path, self._columns = path, columns
        self.records = 0

    def add(self, evaluations: Evaluations) -> None:
        """Add records: for each metric the same ones in the same order, none that was added before.

        UsageError where they cannot be written, StorageFull where there is no room.
        """
        for metric, values in evaluations.items():
            lines = (
                b",\n    %b: %b" % (orjson.dumps(record), orjson.dumps(value))
                for record, value in values.items()
            )
            try:
                self._columns[metric].writelines(lines)
            except OSError as error:
                raise write_error(self._path, error) from None
        self.records += len(next(iter(evaluations.values()), ()))


@contextmanager
def evaluations_written(path: Path, metrics: Sequence[str]) -> Iterator[EvaluationWriter]:
    """Open `path` for an evaluation dictionary; it is there, whole, when the block ends without an error.

    Metrics are in order of name and cutoff, records in the order in which they were added. UsageError where nothing
    can be written, and for no record at all.
    """
    with ExitStack() as opened:
        try:
            columns = {
                name: opened.enter_context(TemporaryFile(dir=path.resolve().parent)) for name in metrics
            }
        except OSError as error:
            raise write_error(path, error) from None
        writer = EvaluationWriter(path, columns)
        yield writer
        if not writer.records:
            raise UsageError(f"{path}: not written: there are no records")
        with atomic_writer(path) as file:
            _put_together(file, columns)


def _put_together(file: BinaryIO, columns: Mapping[str, BinaryIO]) -> None:
    separator = b"{\n  "
    for metric in sorted(columns, key=metric_order):
        column = columns[metric]
        column.seek(1)  # without the first comma
        file.write(separator + orjson.dumps(metric) + b": {")
        shutil.copyfileobj(column, file, 1 << 20)
        file.write(b"\n  }")
        separator = b",\n  "
    file.write(b"\n}\n")


# --- EVAL.about.json: how a dictionary was made, for which its own format has no room --------------------

NOTES: Final = "notes"
"""The key of the notes for readers of the numbers, a list of sentences."""
_MAX_BYTES: Final = 1 << 20


def about_path(evaluations: Path) -> Path:
    """Give `eval.about.json` for `eval.json`."""
    return evaluations.with_name(f"{evaluations.stem}.about.json")


def write_about(evaluations: Path, settings: Mapping[str, Any], notes: list[str]) -> None:
    """Write settings and notes to the file beside the dictionary. UsageError if it cannot be written."""
    with atomic_writer(about_path(evaluations)) as file:
        file.write(
            orjson.dumps({**settings, NOTES: notes}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )


def read_notes(evaluations: Path) -> list[str]:
    """The notes on a dictionary; none without such a file. InputError for a broken one."""
    path = about_path(evaluations)
    if not path.exists():
        return []
    table = parse_json(path, read_bytes(path, max_bytes=_MAX_BYTES))
    notes = table.get(NOTES) if isinstance(table, dict) else None
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise InputError(path, "must be a list of sentences", field=NOTES)
    return notes
