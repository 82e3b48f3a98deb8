"""Questions with their answers and nothing else: a release's `results/clarify_only/*.csv`, or files like it.

The questions of an instance stand in one field, as a JSON list or alone, or in numbered ones (question1,
question_2, q3; answer1, ...), or on several rows of the same id or query, in their order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import orjson

from cts_async.datasets.fields import Fields, kind_of, says_error
from cts_async.datasets.rows import Row, read_rows
from cts_async.errors import InputError

_PREFIX: Final = r"(?:clarif(?:ication|ying)|ua|user)?_?"
_NUMBERED: Final = {
    "questions": re.compile(rf"{_PREFIX}(?:question|cq|q)_?(\d{{1,2}})"),
    "answers": re.compile(rf"{_PREFIX}(?:answer|ans|a)_?(\d{{1,2}})"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One instance. `questions[i]` was answered with `answers[i]`; both are empty where it failed."""

    id: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]


def read_asked(path: Path, fields: Mapping[str, str] | None = None) -> list[Asked]:
    """The instances of a .csv or .jsonl file, in the order of their first rows; a query stands in for an id.

    A row without questions or answers, or with a question that has no answer, is a failed instance. InputError
    names file, line and field of what cannot be understood: no such field, or unequal numbers of both.
    """
    of = Fields.of_data(path, fields)
    instances: dict[str, Asked] = {}
    broken: set[str] = set()
    for line, row in read_rows(path):
        id = _id(of, row, line)
        questions, answers = _pairs(of, row, line)
        if says_error(row.get("error")) or not questions or not all(questions) or not all(answers):
            broken.add(id)
        before = instances.get(id, Asked(id, (), ()))
        instances[id] = Asked(id, before.questions + questions, before.answers + answers)
    if not instances:
        raise InputError(path, "holds no questions", field="questions")
    return [Asked(id, (), ()) if id in broken else instance for id, instance in instances.items()]


def _id(of: Fields, row: Row, line: int) -> str:
    queries = (of.text_or_none(row, field, line) for field in ("fused_query", "blurred_query"))
    return of.identifier(row, line) or next((query for query in queries if query), f"line {line}")


def _pairs(of: Fields, row: Row, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Questions and answers, as many of one as of the other; without answers at all, these are empty texts."""
    questions, answers = _texts(of, row, line, "questions"), _texts(of, row, line, "answers")
    while questions and len(questions) == len(answers) and not (questions[-1] or answers[-1]):
        questions, answers = questions[:-1], answers[:-1]  # numbered fields that this instance does not use
    answers = answers or ("",) * len(questions)
    if questions and len(questions) != len(answers):
        problem = f"{len(answers)} where there are {len(questions)} questions"
        raise InputError(of.path, problem, line=line, field="answers")
    return questions, answers


def _texts(of: Fields, row: Row, line: int, field: Literal["questions", "answers"]) -> tuple[str, ...]:
    if (name := of.name(row, field, line)) is not None:
        return _listed(of.path, name, of.value(row, field, line), line)
    numbered = sorted(
        (int(found[1]), name)
        for name in row
        if (found := _NUMBERED[field].fullmatch(name.strip().casefold().replace(" ", "_")))
    )
    if not numbered:
        raise of.missing(row, field, line)
    return tuple(_text(of.path, name, row[name], line) for _, name in numbered)


def _listed(path: Path, name: str, value: object, line: int) -> tuple[str, ...]:
    """A list, the text of one (JSON, or as Python prints it), or a single text."""
    if isinstance(value, str) and value.strip().startswith("["):
        value = _parsed(path, name, value.strip(), line)
    if isinstance(value, list):
        return tuple(_text(path, name, text, line) for text in value)
    text = _text(path, name, value, line)
    return (text,) if text else ()


def _parsed(path: Path, name: str, text: str, line: int) -> list[object]:
    value: object
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = ast.literal_eval(text)  # literals only: nothing is executed
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, list):
        raise InputError(path, "begins like a list, and is none", line=line, field=name)
    return value


def _text(path: Path, name: str, value: object, line: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(path, f"must be text, is {kind_of(value)}", line=line, field=name)
    return value.strip()
