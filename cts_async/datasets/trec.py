"""TREC's text formats: relevance judgements (qrels) and rankings (runs).

    qrels            topic 0 document grade
    diversity qrels  topic facet document grade      (TREC Web Track 2009-2014)
    run              topic Q0 document rank score tag

Fields are separated by white space; lines may come in any order. Topics and documents are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Final

from cts_async.datasets.io import byte_lines, decode, short
from cts_async.errors import InputError

MAX_LINE_BYTES: Final = 64 * 1024
GRADES: Final = range(-2, 5)
"""The grades of the Web Track: -2 (spam), 0 (not relevant) to 4 (navigational, the key page)."""
_QRELS: Final = "topic 0 document grade"
_RUN: Final = "topic Q0 document rank score tag"
_GRADE: Final = re.compile(r"[+-]?[0-9]{1,9}")
_SCORE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_facet_qrels(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, dict[str, int]]:
    """Return "topic-facet" -> document -> grade, in file order; the keys are Qulac's facet ids.

    Lines with facet 0 have their topic as key, so that judgements with topics such as "12-3" are read too. InputError
    with the line for a wrong number of fields, a grade that is not an integer in `GRADES`, and a document that is
    repeated in a topic; also for a file without judgements.
    """
    found: dict[str, dict[str, int]] = {}
    for line, (topic, facet, document, grade) in _rows(path, _QRELS, max_line_bytes):
        key = topic if facet in ("0", "Q0") else f"{topic}-{facet}"
        grades = found.setdefault(key, {})
        if document in grades:
            raise _repeated(path, line, key, document)
        if not _GRADE.fullmatch(grade):
            raise InputError(path, f"must be an integer, is {short(grade)}", line=line, field="grade")
        if int(grade) not in GRADES:
            problem = f"must be from {GRADES[0]} to {GRADES[-1]}, is {grade}"
            raise InputError(path, problem, line=line, field="grade")
        grades[document] = int(grade)
    if not found:
        raise InputError(path, f"contains no judgements; lines must be: {_QRELS}")
    return found


def read_ranking(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, list[tuple[str, float]]]:
    """Return topic -> (document, score), highest score first, ties in file order; ranks are ignored.

    InputError with the line for a wrong number of fields, a score that is not finite, and a document that is repeated
    in a topic; also for an empty file.
    """
    found: dict[str, dict[str, float]] = {}
    for line, (topic, _, document, _, score, _) in _rows(path, _RUN, max_line_bytes):
        documents = found.setdefault(topic, {})
        if document in documents:
            raise _repeated(path, line, topic, document)
        if not _SCORE.fullmatch(score) or not isfinite(float(score)):
            raise InputError(path, f"must be a finite number, is {short(score)}", line=line, field="score")
        documents[document] = float(score)
    if not found:
        raise InputError(path, f"contains no ranking; lines must be: {_RUN}")
    return {topic: sorted(found[topic].items(), key=lambda one: -one[1]) for topic in found}


def _rows(path: Path, form: str, max_line_bytes: int) -> Iterator[tuple[int, list[str]]]:
    expected = len(form.split())
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        fields = decode(path, line).split()
        if not fields:
            continue
        if len(fields) != expected:
            count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            raise InputError(path, f"has {count} instead of {expected}: {form}", line=line.number)
        yield line.number, fields


def _repeated(path: Path, line: int, topic: str, document: str) -> InputError:
    problem = f"{short(document)} is repeated in topic {short(topic)}"
    return InputError(path, problem, line=line, field="document")
