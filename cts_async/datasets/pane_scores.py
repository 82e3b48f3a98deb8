"""Anybody's scores of panes, to rank them by: JSON Lines, CSV or TSV with query, pane and score.

`pane` is the number of the pane among its query's, from 1, as `cts data mimics-duo panes` writes it. Where a query
has one pane only with a question, `question` names it as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from cts_async.datasets.fields import kind_of, listed, short
from cts_async.datasets.lines import MAX_LINE_BYTES
from cts_async.datasets.rows import TSV_SUFFIXES, Row, read_rows, read_tsv
from cts_async.errors import InputError
from cts_async.records import Pane

_MANY: Final = 3


def numbered(panes: Iterable[Pane]) -> Iterator[tuple[int, Pane]]:
    """Each pane with its number among its query's, from 1."""
    number, query = 0, None
    for pane in panes:
        number = number + 1 if pane.query == query else 1
        query = pane.query
        yield number, pane


def as_records(panes: Iterable[Pane]) -> Iterator[dict[str, Any]]:
    """Each pane as a line of JSON has it: its query, its number, and then its other fields by their names."""
    for number, pane in numbered(panes):
        fields = {field.name: getattr(pane, field.name) for field in dataclasses.fields(pane)}
        yield {"query": fields.pop("query"), "pane": number, **fields}


def read_pane_scores(
    path: Path, panes: Sequence[Pane], *, max_line_bytes: int = MAX_LINE_BYTES
) -> list[float]:
    """The score of each of `panes`, in their order; lines may come in any order.

    InputError, with file and line, for a missing column, a query or pane that is not there, a pane scored twice, a
    score that is no finite number, and panes that have none.
    """
    places = _Places(panes)
    scores: list[float | None] = [None] * len(panes)
    lines: dict[int, int] = {}
    for line, row in _rows(path, max_line_bytes):
        place = places.of(path, line, row)
        if place in lines:
            problem = f"scores the pane of line {lines[place]} again"
            raise InputError(path, problem, line=line)
        lines[place] = line
        scores[place] = _score(path, line, row)
    found = [score for score in scores if score is not None]
    if len(found) < len(scores):
        raise InputError(path, places.unscored(scores))
    return found


class _Places:
    """Where in the list of panes a row's pane stands."""

    def __init__(self, panes: Sequence[Pane]) -> None:
        self._names = [(pane.query, number) for number, pane in numbered(panes)]
        self._by_number = {name: place for place, name in enumerate(self._names)}
        self._by_question: dict[tuple[str, str], list[int]] = {}
        for place, pane in enumerate(panes):
            self._by_question.setdefault((pane.query, pane.question), []).append(place)

    def of(self, path: Path, line: int, row: Row) -> int:
        query = _text(path, line, row, "query")
        if (query, 1) not in self._by_number:
            raise InputError(path, f"no pane is for {short(query)}", line=line, field="query")
        if row.get("pane") not in (None, ""):
            return self._numbered(path, line, query, row["pane"])
        if "question" in row:
            return self._asked(path, line, query, _text(path, line, row, "question"))
        problem = "is empty" if "pane" in row else f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field="pane")

    def _numbered(self, path: Path, line: int, query: str, value: object) -> int:
        text = str(value).strip()
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
        place = self._by_number.get((query, number))
        if place is None:
            last = max(pane for name, pane in self._names if name == query)
            problem = f"must be a pane of {short(query)}, 1 to {last}, is {short(value)}"
            raise InputError(path, problem, line=line, field="pane")
        return place

    def _asked(self, path: Path, line: int, query: str, question: str) -> int:
        places = self._by_question.get((query, question), [])
        if len(places) != 1:
            many = (
                f"{len(places)} panes of {short(query)} ask" if places else f"no pane of {short(query)} asks"
            )
            problem = f"{many} {short(question)}; say which by `pane`, its number among the query's, from 1"
            raise InputError(path, problem, line=line, field="question")
        return places[0]

    def unscored(self, scores: Sequence[float | None]) -> str:
        missing = [name for name, score in zip(self._names, scores, strict=True) if score is None]
        named = ", ".join(f"{short(query)} pane {number}" for query, number in missing[:_MANY])
        more = f" and {len(missing) - _MANY} more" if len(missing) > _MANY else ""
        return f"has no score for {named}{more}; every pane needs one"


def _rows(path: Path, max_line_bytes: int) -> Iterator[tuple[int, Row]]:
    if path.suffix.lower() in TSV_SUFFIXES:
        return read_tsv(path, quoting=False, max_line_bytes=max_line_bytes)
    return read_rows(path, max_line_bytes=max_line_bytes)


def _text(path: Path, line: int, row: Row, field: str) -> str:
    if field not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field=field)
    if not isinstance(row[field], str):
        raise InputError(path, f"must be text, is {kind_of(row[field])}", line=line, field=field)
    return str(row[field]).strip()


def _score(path: Path, line: int, row: Row) -> float:
    if "score" not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field="score")
    value = row["score"]
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise InputError(path, f"must be a finite number, is {short(value)}", line=line, field="score")
    return score
