"""ClariQ's evaluation dictionaries: how well documents are found after each question, asked and answered.

    {metric: {facet or context: {question: {"no_answer": x, "with_answer": y}, ..., "MAX": {...}, "MIN": {...}}}}

in JSON. A context is a facet (`F0513`) for single turns, else a number. The release has pickles, which are refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.datasets.evaluations import refuse_pickle
from cts_async.datasets.fields import kind_of
from cts_async.datasets.json_file import parse_json, read_bytes
from cts_async.errors import InputError

ClariqEvaluation: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Metric -> facet or context -> question id, "MAX" or "MIN" -> the value with the answer, from 0 to 1."""

MAX_BYTES: Final = 512 * 1024 * 1024
WORST: Final = "MIN"
WITH_ANSWER: Final = "with_answer"


def read_clariq_evaluation(path: Path, *, max_bytes: int = MAX_BYTES) -> ClariqEvaluation:
    """Read the values with answers; those without are left aside.

    InputError for a pickle, a file larger than `max_bytes`, what is no JSON, a key that stands twice, and, with
    the place in the dictionary as its field, another shape, a context without "MIN", or a value beyond 0 to 1.
    """
    refuse_pickle(path)
    raw = read_bytes(path, max_bytes=max_bytes, advice="write one file for each metric")
    table = _object(path, parse_json(path, raw), "")
    return {
        metric: {
            context: _context(path, f"{metric}.{context}", questions)
            for context, questions in _object(path, contexts, metric).items()
        }
        for metric, contexts in table.items()
    }


def _context(path: Path, place: str, questions: Any) -> dict[str, float]:
    values = {
        question: _value(path, f"{place}.{question}", pair)
        for question, pair in _object(path, questions, place).items()
    }
    if WORST not in values:
        raise InputError(path, f"has no {WORST!r}, what questions that were not judged count", field=place)
    return values


def _value(path: Path, place: str, pair: Any) -> float:
    value = _object(path, pair, place).get(WITH_ANSWER)
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"must be a number, is {kind_of(value)}"
        raise InputError(path, problem, field=f"{place}.{WITH_ANSWER}")
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise InputError(path, f"must be from 0 to 1, is {value}", field=f"{place}.{WITH_ANSWER}")
    return float(value)


def _object(path: Path, value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(path, f"must be an object, is {kind_of(value)}", field=place or None)
    if not value:
        raise InputError(path, "is empty", field=place or None)
    return value
