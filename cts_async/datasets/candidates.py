"""What others made for the same instances: candidate answers, clarifying questions, TREC judgements and rankings.

Candidates are a release's `results/candidates/*.jsonl`, or our own `results.jsonl`.

Questions with answers are a release's `results/clarify_only/*.csv`, or files like it. The questions of an instance
are in one field, as a JSON list or alone, or in numbered ones (question1, question_2, q3; answer1, ...), or on several
rows of the same id or query, in order. Given questions, and given rewritten queries, are read from such files, too. A
researcher's labels are rows of `question` and `type`, several types joined
with `+`.
"""

from __future__ import annotations

import ast
import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Final, Literal

from cts_async import foreign_json
from cts_async.datasets.io import (
    JSONL_SUFFIXES,
    Fields,
    NumberedLine,
    Row,
    byte_lines,
    decode,
    kind_of,
    listed,
    read_rows,
    row_on,
    says_error,
    short,
)
from cts_async.errors import InputError
from cts_async.records import Candidate, Failure, value
from cts_async.tagged_text import find_answer

# --- Candidates


@value
class CandidateLine:
    """A candidate and its position. Its `id` or `fused_query` may be "", but not both."""

    path: Path
    line: int
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class FailedLine:
    """A line that reports why there is no answer: nothing to judge, and not a score of 0."""

    path: Path
    line: int
    id: str
    intent: str
    failure: Failure


def read_candidates(
    paths: Path | str | Iterable[Path | str], fields: Mapping[str, str] | None = None
) -> Iterator[CandidateLine | FailedLine]:
    """Stream the lines of files, glob patterns and directories, sorted by file name.

    A run directory stands for its `results.jsonl`, a directory of judged candidates for its `per_item.jsonl`, any other
    for its `*.jsonl`. Files are looked up at once (InputError if there are none); InputErrors about a line come when it
    is reached: no answer field, or neither an id nor a fused query. Answers are stripped of tags and thoughts, like the
    agent's (`find_answer`); an empty answer is an answer, a null one a failure.
    """
    return _stream(candidate_files(paths), fields)


def candidate_files(paths: Path | str | Iterable[Path | str]) -> tuple[Path, ...]:
    """Return the files that `read_candidates` reads, each once; InputError for a path or pattern without files."""
    if isinstance(paths, Path | str):
        paths = [paths]
    distinct: dict[Path, Path] = {}
    for path in paths:
        for file in _files_at(str(path)):
            distinct.setdefault(file.resolve(), file)
    if not distinct:
        raise InputError("candidates", "no file is named")
    return tuple(distinct.values())


def _files_at(path: str) -> list[Path]:
    """Return the files that a path, a pattern or a directory names."""
    if Path(path).is_dir():
        return _files_in(Path(path))
    if Path(path).exists() or not glob.has_magic(path):
        return [Path(path)]
    files: list[Path] = []
    for match in sorted(glob.glob(path, recursive=True)):
        if Path(match).is_file():
            files.append(Path(match))
    if not files:
        raise InputError(path, "the pattern matches no file")
    return files


def _files_in(folder: Path) -> list[Path]:
    # A run, or what cts judge wrote: its other files hold no answers.
    for name in ("results.jsonl", "per_item.jsonl"):
        if (folder / name).exists():
            return [folder / name]
    files: list[Path] = []
    for suffix in JSONL_SUFFIXES:
        files += folder.glob(f"*{suffix}")
    if not files:
        raise InputError(folder, "is a directory without results.jsonl or any other *.jsonl")
    return sorted(files)


def _stream(files: Iterable[Path], mapping: Mapping[str, str] | None) -> Iterator[CandidateLine | FailedLine]:
    for path in files:
        fields = candidate_fields(path, mapping)
        for line, row in read_rows(path):
            yield _plain(fields, row, line) or _candidate(fields, row, line)


def candidate_fields(path: Path, mapping: Mapping[str, str] | None) -> Fields:
    """Return the fields of a file of candidates, for `candidate_on`."""
    return Fields.of_data(path, mapping, plain_query=True)


def candidate_on(fields: Fields, line: NumberedLine) -> CandidateLine | FailedLine | None:
    """Return the candidate on a line of JSON Lines, as `read_candidates` does; None for a blank line.

    Raises InputError.
    """
    row = row_on(fields.path, line)
    if row is None:
        return None
    return _plain(fields, row, line.number) or _candidate(fields, row, line.number)


def _plain(fields: Fields, row: Row, line: int) -> CandidateLine | None:
    """Return what `_candidate` returns for a line of three texts without an error, three times as fast; else None."""
    names = fields.names(row)
    try:
        row_id, query, answer = row[names["id"]], row[names["fused_query"]], row[names["answer"]]
    except KeyError:
        return None
    if type(row_id) is str and type(query) is str and type(answer) is str and not row.get("error"):
        row_id, query = row_id.strip(), query.strip()
        if row_id and query:
            return CandidateLine(fields.path, line, Candidate(row_id, query, find_answer(answer)[0]))
    return None


def _candidate(fields: Fields, row: Row, line: int) -> CandidateLine | FailedLine:
    row_id = fields.identifier(row, line) or ""
    fused_query = fields.text_or_none(row, "fused_query", line) or ""
    if not row_id and not fused_query:
        raise fields.missing(row, "fused_query", line)
    failure = _failure(row, fields, line)
    if failure is not None and not (_failed_at(failure.step, _JUDGING) and row.get("answer")):
        return FailedLine(fields.path, line, row_id, fused_query, failure)
    answer = fields.text_or_none(row, "answer", line)
    if answer is None:
        raise fields.missing(row, "answer", line)
    return CandidateLine(fields.path, line, Candidate(row_id, fused_query, find_answer(answer)[0]))


_JUDGING: Final = ("judge",)
"""A run's failures at these steps stand beside an answer, which any other judge can label."""
_AFTER_ANSWERS: Final = ("rewrite", "reformulate", "search", "judge")
"""A run's failures at these steps took no question and no answer away."""


def _failed_at(step: str, first_words: Sequence[str]) -> bool:
    """Whether a failed step is one of these: "search" and all that begins with "search/"."""
    return step.partition("/")[0] in first_words


def _failure(row: Row, fields: Fields, line: int) -> Failure | None:
    error = row.get("error")
    if says_error(error) and isinstance(error, dict):
        step, kind = str(error.get("step") or "candidate"), str(error.get("kind") or "failed")
        return Failure(step, kind, str(error.get("message") or ""))
    if says_error(error) and isinstance(error, str):
        return Failure("candidate", "failed", error)
    if says_error(error):
        return Failure("candidate", "failed", f"error is {kind_of(error)}")
    if fields.name(row, "answer", line) is not None and fields.value(row, "answer", line) is None:
        return Failure("candidate", "no_answer", "the answer is null")
    return None


# --- Questions

_PREFIX: Final = r"(?:clarif(?:ication|ying)|ua|user)?_?"
_NUMBERED: Final = {
    "questions": re.compile(rf"{_PREFIX}(?:question|cq|q)_?(\d{{1,2}})"),
    "answers": re.compile(rf"{_PREFIX}(?:answer|ans|a)_?(\d{{1,2}})"),
}


@dataclass(frozen=True, slots=True)
class QuestionedInstance:
    """The questions of one instance; `answers[i]` answers `questions[i]`. Both are empty if the instance failed."""

    id: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]


def read_question_file(path: Path, fields: Mapping[str, str] | None = None) -> list[QuestionedInstance]:
    """Read the instances of a .csv or .jsonl file, in the order of their first rows; a query replaces a missing id.

    An instance with a row without questions, or with a question or answer that is empty, counts as failed. InputError
    names file, line and field of what is wrong: no such field, or unequal numbers of questions and answers.
    """
    columns = Fields.of_data(path, fields)
    instances: dict[str, QuestionedInstance] = {}
    broken: set[str] = set()
    for line, row in read_rows(path):
        id = _instance_name(columns, row, line)
        questions, answers = _pairs(columns, row, line)
        # The questions of an instance whose search failed were asked and answered all the same.
        failed = says_error(row.get("error")) and not _failed_at(_step(row), _AFTER_ANSWERS)
        if failed or not questions or not all(questions) or not all(answers):
            broken.add(id)
        before = instances.get(id, QuestionedInstance(id, (), ()))
        instances[id] = QuestionedInstance(id, before.questions + questions, before.answers + answers)
    if not instances:
        raise InputError(path, "contains no questions", field="questions")
    for id in broken:
        instances[id] = QuestionedInstance(id, (), ())
    return list(instances.values())


def _step(row: Row) -> str:
    """The step of a row's error, as our results have it in an object and our exports before a colon."""
    error = row.get("error")
    if isinstance(error, dict):
        return str(error.get("step") or "")
    return str(error).partition(":")[0]


def _instance_name(columns: Fields, row: Row, line: int) -> str:
    """Return a row's id, else its intent, else its query, else the number of its line."""
    return (
        columns.identifier(row, line)
        or columns.text_or_none(row, "fused_query", line)
        or columns.text_or_none(row, "blurred_query", line)
        or f"line {line}"
    )


def _pairs(columns: Fields, row: Row, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return equally many questions and answers; without an answers field, the answers are ""."""
    questions, answers = _texts(columns, row, line, "questions"), _texts(columns, row, line, "answers")
    while questions and len(questions) == len(answers) and not (questions[-1] or answers[-1]):
        questions, answers = questions[:-1], answers[:-1]  # numbered fields that are unused here
    answers = answers or ("",) * len(questions)
    if questions and len(questions) != len(answers):
        problem = f"the numbers of answers ({len(answers)}) and questions ({len(questions)}) differ"
        raise InputError(columns.path, problem, line=line, field="answers")
    return questions, answers


def _texts(columns: Fields, row: Row, line: int, field: Literal["questions", "answers"]) -> tuple[str, ...]:
    """Return the texts of a field that holds them all, or of numbered fields (`question_1`, `cq2`, ...)."""
    name = columns.name(row, field, line)
    if name is not None:
        return _listed_texts(columns.path, name, columns.value(row, field, line), line)
    numbered: list[tuple[int, str]] = []
    for name in row:
        match = _NUMBERED[field].fullmatch(name.strip().casefold().replace(" ", "_"))
        if match:
            numbered.append((int(match[1]), name))
    if not numbered:
        raise columns.missing(row, field, line)
    return tuple(_text(columns.path, name, row[name], line) for _, name in sorted(numbered))


def _listed_texts(path: Path, name: str, value: object, line: int) -> tuple[str, ...]:
    """Return the texts of a list, of a list written as text (JSON or Python), or a single text."""
    if isinstance(value, str) and value.strip().startswith("["):
        value = _parsed(path, name, value.strip(), line)
    if isinstance(value, list):
        return tuple(_text(path, name, text, line) for text in value)
    text = _text(path, name, value, line)
    if not text:
        return ()
    return (text,)


def _parsed(path: Path, name: str, text: str, line: int) -> list[object]:
    for parse in (foreign_json.loads, ast.literal_eval):  # the latter parses literals only, executes nothing
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = parse(text)
            if isinstance(value, list):
                return value
    raise InputError(path, "begins like a list, but is not one", line=line, field=name)


def _text(path: Path, name: str, value: object, line: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(path, f"must be text, is {kind_of(value)}", line=line, field=name)
    return value.strip()


# --- Given questions and rewritten queries

GivenField = Literal["questions", "rewritten_query"]


@dataclass(frozen=True, slots=True)
class GivenRow:
    """What a file gives for one instance: its questions, or one rewritten query; each is one line of text.

    At least one of `id` and the queries is not "". A row with a `problem` cannot be used.
    """

    line: int
    id: str
    intent: str
    query: str
    texts: tuple[str, ...]
    problem: str = ""


def read_given(
    path: Path, field: GivenField, mapping: Mapping[str, str] | None = None, *, latest: bool = False
) -> list[GivenRow]:
    """Read the rows of a .csv or .jsonl file, one for each id (without an id: for each query), in file order.

    Questions on several rows of one id are one row's, in order; with `latest`, as in a run's results, the last row of
    an id counts instead. InputError names file, line and field of what is wrong: no such field, no id and no query, or
    two rewritten queries of one id.
    """
    columns = Fields.of_data(path, mapping)
    by_key: dict[str, GivenRow] = {}
    for line, row in read_rows(path):
        given_row = _given_row(columns, row, line, field)
        key = given_row.id or given_row.intent or given_row.query
        if not key:
            raise columns.missing(row, "id", line)
        if key in by_key and not latest:
            before = by_key[key]
            if field != "questions":
                problem = f"{short(key)} is already on line {before.line}"
                raise InputError(path, problem, line=line, field="id")
            texts = before.texts + given_row.texts
            given_row = replace(before, texts=texts, problem=before.problem or given_row.problem)
        by_key[key] = given_row
    if not by_key:
        raise InputError(path, "is empty", field=field)
    return list(by_key.values())


def _given_row(columns: Fields, row: Row, line: int, field: GivenField) -> GivenRow:
    intent = columns.text_or_none(row, "fused_query", line) or ""
    query = columns.text_or_none(row, "blurred_query", line) or ""
    given_row = GivenRow(line, columns.identifier(row, line) or "", intent, query, ())
    if says_error(row.get("error")):
        failure = _failure(row, columns, line)
        # What failed later takes away nothing that was made before.
        later_steps: tuple[str, ...] = ("search", "judge")
        if field == "questions":
            later_steps = _AFTER_ANSWERS
        if failure and not (_failed_at(failure.step, later_steps) and row.get(field)):
            return replace(given_row, problem=f"it failed ({failure.step}: {short(failure.message)})")
    if field == "questions":
        given_texts = list(_texts(columns, row, line, field))
    else:
        rewritten = columns.text_or_none(row, field, line)
        if rewritten is None:
            raise columns.missing(row, field, line)
        given_texts = [rewritten]
    texts = [" ".join(text.split()) for text in given_texts]
    while texts and not texts[-1]:
        texts.pop()  # numbered fields that are unused here
    problem = ""
    if not all(texts):
        problem = f"question {texts.index('') + 1} is empty"
    return replace(given_row, texts=tuple(texts), problem=problem)


# --- Labels

_SEPARATORS: Final = re.compile(r"[+,;|/\s]+")


def read_type_labels(path: Path, types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the types of each question, the primary one first.

    InputError for a type that is not in `types`, a missing column, an empty cell, or contradictory labels.
    """
    labels: dict[str, tuple[str, ...]] = {}
    for line, row in read_rows(path):
        question = _cell(path, row, "question", line)
        words = _SEPARATORS.split(_cell(path, row, "type", line).casefold())
        for word in words:
            if word not in types:
                problem = f"{short(word)} is not a type; the types are {', '.join(types)}"
                raise InputError(path, problem, line=line, field="type")
        label = tuple(dict.fromkeys(words))
        if labels.setdefault(question, label) != label:
            problem = "this question has another type on an earlier line"
            raise InputError(path, problem, line=line, field="question")
    if not labels:
        raise InputError(path, "contains no labels", field="question")
    return labels


def _cell(path: Path, row: Row, field: str, line: int) -> str:
    if field not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field=field)
    text = str(row[field] or "").strip()
    if not text:
        raise InputError(path, "is empty", line=line, field=field)
    return text


# --- TREC's text formats: relevance judgements (qrels) and rankings (runs)
#
# qrels            topic 0 document grade
# diversity qrels  topic facet document grade      (TREC Web Track 2009-2014)
# run              topic Q0 document rank score tag
#
# Fields are separated by white space; lines may come in any order. Topics and documents are text.

MAX_LINE_BYTES: Final = 64 * 1024
GRADES: Final = range(-2, 5)
"""The grades of the Web Track: -2 (spam), 0 (not relevant) to 4 (navigational, the key page)."""
_QRELS: Final = "topic 0 document grade"
_RUN: Final = "topic Q0 document rank score tag"
_GRADE: Final = re.compile(r"[+-]?[0-9]{1,9}")
_SCORE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_facet_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return "topic-facet" -> document -> grade, in file order; the keys are Qulac's facet ids.

    Lines with facet 0 have their topic as key, so that judgements with topics such as "12-3" are read too. InputError
    with the line for a wrong number of fields, a grade that is not an integer in `GRADES`, and a document that is
    repeated in a topic; also for a file without judgements.
    """
    qrels: dict[str, dict[str, int]] = {}
    for line, (topic, facet, document, grade) in _split_lines(path, _QRELS):
        key = f"{topic}-{facet}"
        if facet in ("0", "Q0"):
            key = topic
        grades = qrels.setdefault(key, {})
        if document in grades:
            raise _repeated(path, line, key, document)
        if not _GRADE.fullmatch(grade):
            raise InputError(path, f"must be an integer, is {short(grade)}", line=line, field="grade")
        if int(grade) not in GRADES:
            problem = f"must be from {GRADES[0]} to {GRADES[-1]}, is {grade}"
            raise InputError(path, problem, line=line, field="grade")
        grades[document] = int(grade)
    if not qrels:
        raise InputError(path, f"contains no judgements; lines must be: {_QRELS}")
    return qrels


def read_ranking(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Return topic -> (document, score), highest score first, ties in file order; ranks are ignored.

    InputError with the line for a wrong number of fields, a score that is not finite, and a document that is repeated
    in a topic; also for an empty file.
    """
    scores: dict[str, dict[str, float]] = {}
    for line, (topic, _, document, _, score, _) in _split_lines(path, _RUN):
        documents = scores.setdefault(topic, {})
        if document in documents:
            raise _repeated(path, line, topic, document)
        if not _SCORE.fullmatch(score) or not isfinite(float(score)):
            raise InputError(path, f"must be a finite number, is {short(score)}", line=line, field="score")
        documents[document] = float(score)
    if not scores:
        raise InputError(path, f"contains no ranking; lines must be: {_RUN}")
    rankings: dict[str, list[tuple[str, float]]] = {}
    for topic, documents in scores.items():
        rankings[topic] = sorted(documents.items(), key=lambda scored: -scored[1])
    return rankings


def _split_lines(path: Path, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line that is not blank; InputError for another number of fields."""
    expected = len(form.split())
    for line in byte_lines(path, MAX_LINE_BYTES):
        fields = decode(path, line).split()
        if not fields:
            continue
        if len(fields) != expected:
            problem = f"has {len(fields)} fields instead of {expected}: {form}"
            if len(fields) == 1:
                problem = f"has 1 field instead of {expected}: {form}"
            raise InputError(path, problem, line=line.number)
        yield line.number, fields


def _repeated(path: Path, line: int, topic: str, document: str) -> InputError:
    problem = f"{short(document)} is repeated in topic {short(topic)}"
    return InputError(path, problem, line=line, field="document")
