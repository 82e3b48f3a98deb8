"""Parsed JSON of unknown origin as plain values: a value of another type counts as missing. And lines of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cts_async.foreign_json import (
    MAX_EXACT_INT,
    as_count,
    as_float,
    as_list,
    as_object,
    as_text,
    as_texts,
)

__all__ = [
    "MAX_EXACT_INT",
    "as_count",
    "as_float",
    "as_list",
    "as_object",
    "as_text",
    "as_texts",
    "nuggets_of",
    "turns_of",
]


def turns_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation of a line of results, turn by turn; without turns, each question with its answer."""
    turns = [as_object(turn) for turn in as_list(line.get("turns"))]
    if not turns:
        questions, answers = as_texts(line.get("questions")), as_texts(line.get("answers"))
        turns = [{"offered": [one], "answers": answers[n : n + 1]} for n, one in enumerate(questions)]
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
