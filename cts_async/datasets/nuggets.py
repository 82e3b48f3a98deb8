"""Reads the weighted nuggets of a gold record: from a release's file, or inline in a queries file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import orjson

from cts_async.datasets.fields import Fields, kind_of, listed, short
from cts_async.datasets.rows import Row
from cts_async.errors import InputError
from cts_async.records import Nugget

_INSIDE_GOLD: Final = ("nuggets", "gold_nuggets", "golden_nuggets")


class NuggetReader:
    """Reads one file's nuggets, record by record.

    Weights are a matter of the whole file: either every nugget has one (finite, above 0), or none has
    and each counts 1. `unweighted` tells, after reading, that it was the latter.
    """

    def __init__(self, path: Path, fields: Fields) -> None:
        self._path, self._fields = path, fields
        self._first_weighted: int | None = None
        self._first_unweighted: tuple[int, str] | None = None

    @property
    def unweighted(self) -> bool:
        """Whether nuggets were read and none of them had a weight."""
        return self._first_unweighted is not None and self._first_weighted is None

    def read(self, row: Row, line: int) -> tuple[Nugget, ...] | None:
        """The nuggets of a row, at least one; None where the row has no gold at all."""
        value = self._fields.value(row, "gold", line)
        if value is None or value == "":
            return None
        field = self._fields.name(row, "gold", line) or "gold"
        if isinstance(value, str):
            value = self._parse(value, line, field)
        if isinstance(value, dict):
            value, field = self._inside(value, line, field)
        return self._nuggets(value, line, field)

    def _parse(self, text: str, line: int, field: str) -> object:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            problem = f"is not valid JSON: {error.msg} at character {error.pos + 1}"
            raise InputError(self._path, problem, line=line, field=field) from None

    def _inside(self, gold: Row, line: int, field: str) -> tuple[object, str]:
        name = next((name for name in _INSIDE_GOLD if name in gold), None)
        if name is None:
            problem = f"is missing; the fields of {field!r} are {listed(gold)}"
            raise InputError(self._path, problem, line=line, field=f"{field}.nuggets")
        return gold[name], f"{field}.{name}"

    def _nuggets(self, items: object, line: int, field: str) -> tuple[Nugget, ...]:
        if not isinstance(items, list):
            raise self._error(f"must be a list, is {kind_of(items)}", line, field)
        if not items:
            raise self._error("is empty: without nuggets nothing can be scored", line, field)
        nuggets = tuple(self._nugget(item, n, line, f"{field}[{n}]") for n, item in enumerate(items))
        seen: set[str] = set()
        for nugget in nuggets:
            if nugget.id in seen:
                raise self._error(f"two nuggets have the id {short(nugget.id)}", line, field)
            seen.add(nugget.id)
        return nuggets

    def _nugget(self, item: object, position: int, line: int, field: str) -> Nugget:
        if not isinstance(item, dict):
            raise self._error(f"must be an object, is {kind_of(item)}", line, field)
        inside = _Inside(self._path, self._fields, item, line, field)
        nugget_id = inside.identifier() or f"N{position + 1}"
        return Nugget(nugget_id, inside.text(), self._weight(inside), inside.source_ids())

    def _weight(self, inside: _Inside) -> float:
        weight = inside.weight()
        if weight is None:
            self._first_unweighted = self._first_unweighted or (inside.line, f"{inside.field}.weight")
        else:
            self._first_weighted = self._first_weighted or inside.line
        if self._first_weighted is not None and self._first_unweighted is not None:
            line, field = (
                self._first_unweighted if weight is not None else (inside.line, f"{inside.field}.weight")
            )
            problem = f"is missing, although nuggets on line {self._first_weighted} have weights"
            raise self._error(problem, line, field)
        return 1.0 if weight is None else weight

    def _error(self, problem: str, line: int, field: str) -> InputError:
        return InputError(self._path, problem, line=line, field=field)


class _Inside:
    """One nugget's object, with errors that say where in the record it stands."""

    def __init__(self, path: Path, fields: Fields, item: Row, line: int, field: str) -> None:
        self._path, self._fields, self._item = path, fields, item
        self.line, self.field = line, field

    def identifier(self) -> str | None:
        value, name = self._get("nugget_id")
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._error(f"must be text or a whole number, is {kind_of(value)}", name)
        return str(value).strip()

    def text(self) -> str:
        value, name = self._get("nugget_text")
        if value is None:
            raise self._error(f"is missing; the fields here are {listed(self._item)}", "text")
        if not isinstance(value, str):
            raise self._error(f"must be text, is {kind_of(value)}", name)
        if not value.strip():
            raise self._error("is empty", name)
        return value.strip()

    def weight(self) -> float | None:
        value, name = self._get("nugget_weight")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._error(f"must be a number, is {kind_of(value)}", name)
        try:
            weight = float(value)
        except (ValueError, OverflowError):
            raise self._error(f"must be a number, is {str(value)[:40]!r}", name) from None
        if not math.isfinite(weight) or weight <= 0:
            raise self._error(f"must be finite and above 0, is {value}", name)
        return weight

    def source_ids(self) -> tuple[str, ...]:
        value, name = self._get("source_ids")
        values = [] if value is None else value if isinstance(value, list) else [value]
        for source in values:
            if isinstance(source, bool) or not isinstance(source, str | int):
                raise self._error(f"must list texts or whole numbers, holds {kind_of(source)}", name)
        return tuple(str(source) for source in values)

    def _get(self, field: str) -> tuple[object, str]:
        name = self._fields.name(self._item, field, self.line)
        return self._fields.value(self._item, field, self.line), name or field

    def _error(self, problem: str, name: str) -> InputError:
        return InputError(self._path, problem, line=self.line, field=f"{self.field}.{name}")
