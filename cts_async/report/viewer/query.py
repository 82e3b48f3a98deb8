"""What an address asks for, read strictly: a parameter that cannot be understood is refused, in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from cts_async.report.viewer.refusal import Refused

MAX_ROWS: Final = 200
ROWS: Final = 50
MAX_TEXT: Final = 1000
Sort = Literal["", "score", "-score", "-unknown"]
Unknown = Literal["", "none", "some", "all"]
SORTS: Final[tuple[Sort, ...]] = ("", "score", "-score", "-unknown")
UNKNOWNS: Final[tuple[Unknown, ...]] = ("", "none", "some", "all")

Asked = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """Which instances of a run, in which order, after which one."""

    judge: str = ""
    sort: Sort = ""
    least: float | None = None
    most: float | None = None
    unknown: Unknown = ""
    failed: bool | None = None
    text: str = ""
    after: tuple[int, int] | None = None
    """The row of the last one shown, or looked at, and its place in the order."""
    limit: int = ROWS


def instance_query(asked: Asked) -> InstanceQuery:
    """Raises Refused."""
    failed = choice(asked, "failed", ("", "0", "1"))
    text = asked.get("text", "")
    if len(text) > MAX_TEXT:
        raise Refused(400, f"text: longer than {MAX_TEXT} characters")
    return InstanceQuery(
        judge=asked.get("judge", ""),
        sort=cast("Sort", choice(asked, "sort", SORTS)),
        least=_score(asked, "min"),
        most=_score(asked, "max"),
        unknown=cast("Unknown", choice(asked, "unknown", UNKNOWNS)),
        failed=None if not failed else failed == "1",
        text=text,
        after=_cursor(asked.get("after", "")),
        limit=whole(asked, "limit", ROWS, 1, MAX_ROWS),
    )


def choice(asked: Asked, name: str, known: tuple[str, ...]) -> str:
    """One of the known words. Raises Refused."""
    value = asked.get(name, "")
    if value not in known:
        raise Refused(400, f"{name}: is one of {', '.join(filter(None, known))}")
    return value


def whole(asked: Asked, name: str, usual: int, least: int = 0, most: int = 1 << 60) -> int:
    """A whole number, `usual` where none is given. Raises Refused."""
    value = asked.get(name, "")
    if not value:
        return usual
    if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
        raise Refused(
            400, f"{name}: is a whole number from {least}" + (f" to {most}" if most < 1 << 60 else "")
        )
    return int(value)


def _score(asked: Asked, name: str) -> float | None:
    value = asked.get(name, "")
    if not value:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Refused(400, f"{name}: is a number from 0 to 100")
    return number


def _cursor(value: str) -> tuple[int, int] | None:
    if not value:
        return None
    row, _, place = value.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (row, place)):
        raise Refused(400, "after: is what the page before said under next")
    return int(row), int(place)
