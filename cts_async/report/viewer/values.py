"""Values out of anybody's JSON: of the type expected, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

MOST: Final = 1 << 53
"""Whole numbers beyond it are others in a browser."""


def as_text(value: Any) -> str | None:
    """A text; None for anything else."""
    return value if isinstance(value, str) else None


def as_float(value: Any) -> float | None:
    """A number; None for anything else, also true and false."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_int(value: Any) -> int:
    """A whole number; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def as_count(value: Any) -> int:
    """A number of things; 0 for anything else, and no more than a browser can count."""
    number = as_float(value)
    return int(min(max(number, 0.0), MOST)) if number is not None and number == number else 0


def printable(text: str) -> str:
    """A file's name as text, also where its bytes are none."""
    return text.encode("utf-8", "backslashreplace").decode()


def can_be_shown(value: Any) -> bool:
    """Whether JSON that was read can be written again: not where it is nested hundreds of levels deep."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


def as_list(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [one for one in as_list(value) if isinstance(one, str)]


def as_object(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}
