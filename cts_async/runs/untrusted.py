"""Parsed JSON of unknown origin as plain values: a value of another type counts as missing. And lines of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

# The plain values, too: readers of runs find them here.
from cts_async.foreign_json import MAX_EXACT_INT as MAX_EXACT_INT
from cts_async.foreign_json import as_count as as_count
from cts_async.foreign_json import as_float as as_float
from cts_async.foreign_json import as_list as as_list
from cts_async.foreign_json import as_object as as_object
from cts_async.foreign_json import as_text as as_text
from cts_async.foreign_json import as_texts as as_texts


def turns_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation of a line of results, turn by turn; without turns, each question with its answer."""
    turns = [as_object(turn) for turn in as_list(line.get("turns"))]
    if not turns:
        questions, answers = as_texts(line.get("questions")), as_texts(line.get("answers"))
        for n, question in enumerate(questions):
            turns.append({"offered": [question], "answers": answers[n : n + 1]})
    return [
        {
            "n": n,
            "offered": as_texts(turn.get("offered")),
            "answers": as_texts(turn.get("answers")),
            "chosen": turn["chosen"] if isinstance(turn.get("chosen"), int) else None,
            "types": as_texts(turn.get("types")),
            "reasoning": as_text(turn.get("reasoning")) or "",
            "query": as_text(turn.get("query")) or "",
        }
        for n, turn in enumerate(turns, start=1)
    ]


MAX_FURTHER: Final = 200
"""Further fields of one line that are read: what code of the user's may write into a file has no limit."""


def further_of(line: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the replies of an instance had beyond their forms: by step, values by name."""
    further: dict[str, dict[str, Any]] = {}
    n_fields = 0
    for step, fields in as_object(line.get("further")).items():
        for name, value in as_object(fields).items():
            if n_fields == MAX_FURTHER:
                return further
            further.setdefault(step, {})[name] = value
            n_fields += 1
    return further


def further_texts(further: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Further fields as (step, name, text): a text as it is, a list of texts one a line, any other value as JSON."""
    rows: list[tuple[str, str, str]] = []
    for step, fields in further.items():
        for name, value in fields.items():
            if isinstance(value, str):
                text = value
            elif isinstance(value, list) and all(isinstance(item, str) for item in value):
                text = "\n".join(value)
            else:
                text = orjson.dumps(value).decode()
            rows.append((step, name, text))
    return rows


def nuggets_of(verdicts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The nuggets {id, weight, text, coverage by judge} of verdicts by judge, in the order in which they are named."""
    rows: dict[str, dict[str, Any]] = {}
    for judge, verdict in verdicts.items():
        for nugget in map(as_object, as_list(verdict.get("nuggets"))):
            id, label = as_text(nugget.get("id")), as_text(nugget.get("coverage"))
            if id is not None and label is not None:
                weight, text = as_float(nugget.get("weight")) or 1.0, as_text(nugget.get("text"))
                row = rows.setdefault(id, {"id": id, "weight": weight, "text": text, "coverage": {}})
                row["coverage"][judge] = label
    return list(rows.values())
