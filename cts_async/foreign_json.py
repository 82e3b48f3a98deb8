"""JSON from strangers (models, roles, gateways, tools, run directories), bounded in depth before anybody walks it.

orjson reads 1,024 levels and writes 254, and `str()` of a value fails near 1,000: a value that was read without a
bound can end the program when it is printed or written. Whatever was read here can be copied, printed and written.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

__all__ = ["MAX_DEPTH", "NestedTooDeeply", "check_depth", "loads"]

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
