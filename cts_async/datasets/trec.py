"""TREC's text formats, read and written: relevance judgements (qrels) and rankings (runs).

    qrels            topic 0 document grade
    diversity qrels  topic facet document grade      (TREC Web Track 2009-2014)
    run              topic Q0 document rank score tag

Fields are separated by white space; lines may come in any order. Topics and documents are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Final

from cts_async.datasets.fields import short
from cts_async.datasets.io import byte_lines, decode
from cts_async.errors import InputError, UsageError
from cts_async.safe_files import atomic_writer

MAX_LINE_BYTES: Final = 64 * 1024
GRADES: Final = range(-2, 5)
"""The grades of the Web Track: -2 (spam), 0 (not relevant) to 4 (navigational, the key page)."""
_QRELS: Final = "topic 0 document grade"
_RUN: Final = "topic Q0 document rank score tag"
_NO_FACET: Final = ("0", "Q0")
_GRADE: Final = re.compile(r"[+-]?[0-9]{1,9}")
_SCORE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_qrels(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, dict[str, int]]:
    """Return topic -> document -> grade, in file order; the second field is ignored.

    InputError with the line for a wrong number of fields, a grade that is not an integer in `GRADES`, and a document
    that is repeated in a topic; also for a file without judgements.
    """
    return _judgments(path, _qrel_rows(path, max_line_bytes))


def read_facet_qrels(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, dict[str, int]]:
    """Return "topic-facet" -> document -> grade; the keys are Qulac's facet ids. Errors as `read_qrels`.

    Lines with facet 0 have their topic as key, so that judgements with topics such as "12-3" are read too.
    """
    rows = _qrel_rows(path, max_line_bytes)
    keyed = (
        (number, topic if facet in _NO_FACET else f"{topic}-{facet}", facet, document, grade)
        for number, topic, facet, document, grade in rows
    )
    return _judgments(path, keyed)


def read_run(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, list[tuple[str, float]]]:
    """Return topic -> (document, score), highest score first, ties in file order; ranks are ignored.

    InputError with the line for a wrong number of fields, a score that is not finite, and a document that is repeated
    in a topic; also for an empty file.
    """
    found: dict[str, dict[str, float]] = {}
    for number, fields in _fields(path, _RUN, max_line_bytes):
        topic, _, document, _, score, _ = fields
        documents = found.setdefault(topic, {})
        if document in documents:
            raise _repeated(path, number, topic, document)
        documents[document] = _score(path, number, score)
    if not found:
        raise InputError(path, f"contains no ranking; lines must be: {_RUN}")
    return {topic: sorted(found[topic].items(), key=lambda one: -one[1]) for topic in found}


def write_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements by topic or facet, atomically. Raises UsageError."""
    _write(
        path,
        (
            f"{_word(topic)} 0 {_word(document)} {grade}\n"
            for topic, grades in qrels.items()
            for document, grade in grades.items()
        ),
    )


def write_run(path: Path, run: Mapping[str, Sequence[tuple[str, float]]], tag: str) -> None:
    """Write rankings, best first, atomically, with ranks from 1 and exact scores. Raises UsageError."""
    _write(
        path,
        (
            f"{_word(topic)} Q0 {_word(document)} {rank} {score!r} {_word(tag)}\n"
            for topic, ranking in run.items()
            for rank, (document, score) in enumerate(ranking, 1)
        ),
    )


_QrelRow = tuple[int, str, str, str, int]
"""Line, topic or key, facet, document, grade."""


def _qrel_rows(path: Path, max_line_bytes: int) -> Iterator[_QrelRow]:
    for number, (topic, facet, document, grade) in _fields(path, _QRELS, max_line_bytes):
        yield number, topic, facet, document, _grade(path, number, grade)


def _judgments(path: Path, rows: Iterable[_QrelRow]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, key, facet, document, grade in rows:
        grades = found.setdefault(key, {})
        if document in grades:
            hint = "" if facet in _NO_FACET or "-" in key else " (these are diversity qrels, judged by facet)"
            raise _repeated(path, number, key, document, hint)
        grades[document] = grade
    if not found:
        raise InputError(path, f"contains no judgements; lines must be: {_QRELS}")
    return found


def _fields(path: Path, form: str, max_line_bytes: int) -> Iterator[tuple[int, list[str]]]:
    expected = len(form.split())
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        fields = decode(path, line).split()
        if not fields:
            continue
        if len(fields) != expected:
            count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            raise InputError(path, f"has {count} instead of {expected}: {form}", line=line.number)
        yield line.number, fields


def _grade(path: Path, number: int, text: str) -> int:
    if not _GRADE.fullmatch(text):
        raise InputError(path, f"must be an integer, is {short(text)}", line=number, field="grade")
    if int(text) not in GRADES:
        problem = f"must be from {GRADES[0]} to {GRADES[-1]}, is {text}"
        raise InputError(path, problem, line=number, field="grade")
    return int(text)


def _score(path: Path, number: int, text: str) -> float:
    if not _SCORE.fullmatch(text) or not isfinite(float(text)):
        raise InputError(path, f"must be a finite number, is {short(text)}", line=number, field="score")
    return float(text)


def _repeated(path: Path, number: int, topic: str, document: str, hint: str = "") -> InputError:
    problem = f"{short(document)} is repeated in topic {short(topic)}{hint}"
    return InputError(path, problem, line=number, field="document")


def _word(text: str) -> str:
    if not text or text.split() != [text]:
        raise UsageError(f"{short(text)} cannot be written to a TREC file: white space separates its fields")
    return text


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_writer(path) as file:
        file.writelines(line.encode() for line in lines)
