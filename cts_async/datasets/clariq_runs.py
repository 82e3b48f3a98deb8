"""What systems send to ClariQ: run files of ranked questions, and files of predicted clarification needs.

A run's line is `topic Q0 question rank score tag` between spaces, ranks from 0; the order is that of the scores.
For conversations the first is a context's id and the third the question's text in double quotes, "" for none.
A prediction's line is `topic label`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cts_async.datasets.fields import short
from cts_async.datasets.lines import MAX_LINE_BYTES, byte_lines, decode
from cts_async.datasets.unique import FirstLines
from cts_async.errors import InputError

RUN_COLUMNS: Final = ("topic", "Q0", "question", "rank", "score", "tag")
PREDICTION_COLUMNS: Final = ("topic", "label")


class RunLine(NamedTuple):
    """A question that was ranked for a topic or a context. A score is finite; the highest comes first."""

    topic: str
    question: str
    score: float


def read_run(
    path: Path, repeats: list[int] | None = None, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[RunLine]:
    """Stream a run in file order, repeated questions included, since official run files have some.

    `repeats` collects the numbers of the lines whose question stood earlier for its topic. InputError names
    file, line and field: other than six cells, a rank or score that is no number, and a file without lines.
    """
    seen = FirstLines()
    number = 0
    for number, cells in _lines(path, RUN_COLUMNS, max_line_bytes):
        topic, _, question, rank, score, _ = cells
        if not rank.isdecimal():
            problem = f"must be a whole number from 0, is {short(rank)}"
            raise InputError(path, problem, line=number, field="rank")
        if seen.add(f"{topic} {question}", number) is not None and repeats is not None:
            repeats.append(number)
        yield RunLine(topic, question, _score(path, number, score))
    if not number:
        raise InputError(path, f"holds no lines: {' '.join(RUN_COLUMNS)} is expected")


def read_predictions(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, int]:
    """The predicted label of each topic. InputError as `read_run`; a label is a whole number."""
    found: dict[str, int] = {}
    for number, (topic, label) in _lines(path, PREDICTION_COLUMNS, max_line_bytes):
        if topic in found:
            raise InputError(path, f"{short(topic)} stands twice", line=number, field="topic")
        if not label.isdecimal() or len(label) > 4:
            problem = f"must be a whole number from 0, is {short(label)}"
            raise InputError(path, problem, line=number, field="label")
        found[topic] = int(label)
    if not found:
        raise InputError(path, f"holds no lines: {' '.join(PREDICTION_COLUMNS)} is expected")
    return found


def _lines(path: Path, columns: tuple[str, ...], max_line_bytes: int) -> Iterator[tuple[int, list[str]]]:
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        text = decode(path, line).strip()
        if not text:
            continue
        cells = _cells(text)
        if cells is None:
            raise InputError(path, "has a quote that is not closed, or text after one", line=line.number)
        if len(cells) != len(columns):
            problem = f"has {len(cells)} cells, not {len(columns)}: {' '.join(columns)} is expected"
            raise InputError(path, problem, line=line.number)
        yield line.number, cells


def _cells(text: str) -> list[str] | None:
    """Cells between white space, or between single spaces where a quote may hold some; None for broken quotes."""
    if '"' not in text:
        return text.split()
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # the line is bounded already
    try:
        return next(csv.reader([text], delimiter=" ", strict=True, skipinitialspace=True))
    except csv.Error:
        return None


def _score(path: Path, line: int, cell: str) -> float:
    try:
        score = float(cell)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(path, f"must be a finite number, is {short(cell)}", line=line, field="score")
    return score


def with_ids(lines: Iterable[RunLine], bank: Mapping[str, str]) -> Iterator[RunLine]:
    """Lines of conversations with the ids of their questions, which `bank` has by id; "" for what it has not."""
    ids = {text: id for id, text in bank.items()}
    return (line._replace(question=ids.get(line.question, "")) for line in lines)
