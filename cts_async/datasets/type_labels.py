"""A researcher's own labels of questions: rows of `question` and `type`, several types joined with `+`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cts_async.datasets.fields import listed, short
from cts_async.datasets.rows import Row, read_rows
from cts_async.errors import InputError

_SEPARATORS: Final = re.compile(r"[+,;|/\s]+")


def read_type_labels(path: Path, types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The types of each question, the primary one first. InputError for a type that is none of `types`,

    a missing column, an empty cell, or a question that is labelled in two ways.
    """
    found: dict[str, tuple[str, ...]] = {}
    for line, row in read_rows(path):
        question = _cell(path, row, "question", line)
        kinds = tuple(dict.fromkeys(_SEPARATORS.split(_cell(path, row, "type", line).casefold())))
        if wrong := [kind for kind in kinds if kind not in types]:
            problem = f"{short(wrong[0])} is no type; the types are {', '.join(types)}"
            raise InputError(path, problem, line=line, field="type")
        if found.setdefault(question, kinds) != kinds:
            problem = "this question stands earlier with another type"
            raise InputError(path, problem, line=line, field="question")
    if not found:
        raise InputError(path, "holds no labels", field="question")
    return found


def _cell(path: Path, row: Row, field: str, line: int) -> str:
    if field not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field=field)
    text = str(row[field] or "").strip()
    if not text:
        raise InputError(path, "is empty", line=line, field=field)
    return text
