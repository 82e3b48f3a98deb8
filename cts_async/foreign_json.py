"""JSON from strangers (models, roles, gateways, tools, run directories), bounded in depth before anybody walks it.

orjson reads 1,024 levels and writes 254, and `str()` of a value fails near 1,000: a value that was read without a
bound can end the program when it is printed or written. Whatever was read here can be copied, printed and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
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
    "is_surely_shallow",
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
    if type(data) is bytes and data.find(b"{", 1) < 0 and data.find(b"[") < 0:
        return value  # flat, as most lines of input files are: found out with memchr, which copies nothing
    # On the way of every reply: fewer opening brackets than levels are no deep nesting, and are counted in C. In
    # bytes by leaving them out, which finds the few there are with memchr; `count` compares one byte after the other.
    if type(data) is bytes:
        n_open = 2 * len(data) - len(data.replace(b"[", b"")) - len(data.replace(b"{", b""))
    elif type(data) is str:
        n_open = data.count("[") + data.count("{")
    else:
        n_open = len(data)
    if n_open > MAX_DEPTH:
        check_depth(value)
    return value


def is_surely_shallow(data: bytes) -> bool:
    """True if JSON has too few opening brackets, those in texts included, to be nested too deeply."""
    # As in `loads`, which is on the way of every reply and saves the call.
    n_open = 2 * len(data) - len(data.replace(b"[", b"")) - len(data.replace(b"{", b""))
    return n_open <= MAX_DEPTH


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
    if isinstance(value, str):
        return value
    return None


def as_float(value: Any) -> float | None:
    """A number; None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def as_count(value: Any) -> int:
    """A count from 0 to MAX_EXACT_INT; 0 for anything that is not a number."""
    number = as_float(value)
    if number is None or isnan(number):
        return 0
    return int(min(max(number, 0.0), MAX_EXACT_INT))


def as_list(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    if isinstance(value, list):
        return value
    return []


def as_texts(value: Any) -> list[str]:
    """The strings of a list."""
    return [item for item in as_list(value) if isinstance(item, str)]


def as_object(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    if isinstance(value, dict):
        return value
    return {}
