"""Files of questions: questions with their answers, and a researcher's labels of question types.

Questions with answers are a release's `results/clarify_only/*.csv`, or files like it. The questions of an instance
are in one field, as a JSON list or alone, or in numbered ones (question1, question_2, q3; answer1, ...), or on several
rows of the same id or query, in order. Labels are rows of `question` and `type`, several types joined with `+`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import orjson

from cts_async.datasets.io import Fields, Row, kind_of, listed, read_rows, says_error, short
from cts_async.errors import InputError

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
    of = Fields.of_data(path, fields)
    instances: dict[str, QuestionedInstance] = {}
    broken: set[str] = set()
    for line, row in read_rows(path):
        id = _id(of, row, line)
        questions, answers = _pairs(of, row, line)
        if says_error(row.get("error")) or not questions or not all(questions) or not all(answers):
            broken.add(id)
        before = instances.get(id, QuestionedInstance(id, (), ()))
        instances[id] = QuestionedInstance(id, before.questions + questions, before.answers + answers)
    if not instances:
        raise InputError(path, "contains no questions", field="questions")
    return [
        QuestionedInstance(id, (), ()) if id in broken else instance for id, instance in instances.items()
    ]


def _id(of: Fields, row: Row, line: int) -> str:
    queries = (of.text_or_none(row, field, line) for field in ("fused_query", "blurred_query"))
    return of.identifier(row, line) or next((query for query in queries if query), f"line {line}")


def _pairs(of: Fields, row: Row, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return equally many questions and answers; without an answers field, the answers are ""."""
    questions, answers = _texts(of, row, line, "questions"), _texts(of, row, line, "answers")
    while questions and len(questions) == len(answers) and not (questions[-1] or answers[-1]):
        questions, answers = questions[:-1], answers[:-1]  # numbered fields that are unused here
    answers = answers or ("",) * len(questions)
    if questions and len(questions) != len(answers):
        problem = f"the numbers of answers ({len(answers)}) and questions ({len(questions)}) differ"
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
    """Return the texts of a list, of a list written as text (JSON or Python), or a single text."""
    if isinstance(value, str) and value.strip().startswith("["):
        value = _parsed(path, name, value.strip(), line)
    if isinstance(value, list):
        return tuple(_text(path, name, text, line) for text in value)
    text = _text(path, name, value, line)
    return (text,) if text else ()


def _parsed(path: Path, name: str, text: str, line: int) -> list[object]:
    for parse in (orjson.loads, ast.literal_eval):  # the latter parses literals only, executes nothing
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


# --- Labels

_SEPARATORS: Final = re.compile(r"[+,;|/\s]+")


def read_type_labels(path: Path, types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the types of each question, the primary one first.

    InputError for a type that is not in `types`, a missing column, an empty cell, or contradictory labels.
    """
    found: dict[str, tuple[str, ...]] = {}
    for line, row in read_rows(path):
        question = _cell(path, row, "question", line)
        kinds = tuple(dict.fromkeys(_SEPARATORS.split(_cell(path, row, "type", line).casefold())))
        if wrong := [kind for kind in kinds if kind not in types]:
            problem = f"{short(wrong[0])} is not a type; the types are {', '.join(types)}"
            raise InputError(path, problem, line=line, field="type")
        if found.setdefault(question, kinds) != kinds:
            problem = "this question has another type on an earlier line"
            raise InputError(path, problem, line=line, field="question")
    if not found:
        raise InputError(path, "contains no labels", field="question")
    return found


def _cell(path: Path, row: Row, field: str, line: int) -> str:
    if field not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field=field)
    text = str(row[field] or "").strip()
    if not text:
        raise InputError(path, "is empty", line=line, field=field)
    return text
