"""Parsed JSON of unknown origin as plain values: a value of another type counts as missing. And lines of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_EXACT_INT: Final = 1 << 53
"""JavaScript numbers beyond it are not exact."""


def as_text(value: Any) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def as_float(value: Any) -> float | None:
    """A number; None for anything else, booleans included."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_count(value: Any) -> int:
    """A count from 0 to MAX_EXACT_INT; 0 for anything that is not a number."""
    number = as_float(value)
    return int(min(max(number, 0.0), MAX_EXACT_INT)) if number is not None and number == number else 0


def as_list(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_texts(value: Any) -> list[str]:
    """The strings of a list."""
    return [one for one in as_list(value) if isinstance(one, str)]


def as_object(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


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
