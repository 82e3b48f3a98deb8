"""The form of a line of results or verdicts. What we write has it; an editor, or another program, may have broken it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cts_async.engine.journal import placed_records
from cts_async.errors import InputError
from cts_async.protocol.results import Line
from cts_async.records import COVERAGES, is_one_line

_Form = Callable[[Any], bool]
_LARGEST_WEIGHT: Final = 1e100
"""Far beyond any gold's: the weights of a line can always be added up."""


def checked_results(path: Path) -> Iterator[Line]:
    """`read_results`, for those who rely on the form of the lines. Raises InputError for one of another form."""
    return (line for _, line in placed_results(path, _FORMS))


def placed_results(path: Path, fields: Iterable[str]) -> Iterator[tuple[int, Line]]:
    """The same lines, each with the offset at which it begins; only the form of these fields is looked at."""
    forms = [(field, *_FORMS[field]) for field in fields]
    for offset, line in placed_records(path):
        if not isinstance(line.get("id"), str):
            continue
        for field, form, told in forms:
            value = line.get(field)
            if value is not None and not form(value):
                raise InputError(path, f"has to be {told}", line=_number_of(path, offset), field=field)
        yield offset, line


def _number_of(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        return file.read(offset).count(b"\n") + 1


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_one_line(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_judged(value: Any) -> bool:
    """Nuggets that a score can be computed from, each id once."""
    return (
        isinstance(value, list)
        and all(
            isinstance(one, dict)
            and isinstance(one.get("id"), str)
            and one.get("coverage") in COVERAGES
            and _is_number(one.get("weight"))
            and 0 < one["weight"] <= _LARGEST_WEIGHT
            for one in value
        )
        and len({one["id"] for one in value}) == len(value)
    )


_FORMS: Final[Mapping[str, tuple[_Form, str]]] = {
    "questions": (_is_texts, "a list of texts"),
    "answers": (_is_texts, "a list of texts"),
    "judge": (_is_name, "a text of one line"),
    "restore_score_100": (_is_number, "a number"),
    "nuggets": (
        _is_judged,
        "a list of {id, weight, coverage}, each id once, weights positive, coverage full, partial or none",
    ),
    "error": (lambda value: isinstance(value, dict), "an object {step, kind, message}"),
}
