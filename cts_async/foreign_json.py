"""JSON from strangers (models, roles, gateways, tools, run directories), bounded in depth before anybody walks it.

orjson reads 1,024 levels and writes 254, and `str()` of a value fails near 1,000: a value that was read without a
bound can end the program when it is printed or written. Whatever was read here can be copied, printed and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

__all__ = [
    "NestedTooDeeply",
    "as_count",
    "as_float",
    "as_list",
    "as_object",
    "as_text",
    "as_texts",
    "check_depth",
    "loads",
]

MAX_DEPTH: Final = 100
"""Levels of arrays and objects. Real replies have fewer than 20; some levels are added when a record holds a value."""


class NestedTooDeeply(ValueError):
    """The JSON has more than `MAX_DEPTH` levels."""

    def __init__(self) -> None:
        super().__init__(f"the JSON is nested deeper than {MAX_DEPTH} levels")


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Parse JSON strictly, as `orjson.loads` does; raises ValueError if it is none or nested too deeply."""
    value = orjson.loads(data)
    if isinstance(data, memoryview):
        data = bytes(data)
    # Fewer opening brackets than levels are no deep nesting, whatever stands between them: two counts in C.
    if isinstance(data, str):
        opening = data.count("[") + data.count("{")
    else:
        opening = data.count(b"[") + data.count(b"{")
    if opening > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise NestedTooDeeply if the arrays and objects of `value` have more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, (list, tuple)):
                deeper.extend(item)
        if not deeper:
            return
        level = deeper
    # What stands in the deepest level allowed: numbers and texts may, containers may not.
    if any(isinstance(item, (dict, list, tuple)) for item in level):
        raise NestedTooDeeply


# --- Values of unknown type: one of another type counts as missing

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
