"""A table as pandas writes it to JSON: an object of columns, each {"0": value, "1": ...}."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cts_async.datasets.io import MAX_FILE_BYTES, kind_of, listed, parse_json, read_bytes
from cts_async.errors import InputError


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns that have the same rows. A row is named by its key in the file: "0", "1", ..."""

    path: Path
    values: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @property
    def rows(self) -> Iterable[str]:
        """The rows' keys, in file order."""
        return next(iter(self.values.values()))

    def text(self, name: str, row: str) -> str:
        """A cell that must be there as text; outer white space is removed. InputError where it is not."""
        text = self.text_or_empty(name, row)
        if not text:
            raise self.error(name, row, "is empty")
        return text

    def text_or_empty(self, name: str, row: str) -> str:
        """Like `text`, but possibly empty."""
        value = self.values[name][row]
        if not isinstance(value, str):
            raise self.error(name, row, f"must be text, is {kind_of(value)}")
        return value.strip()

    def number(self, name: str, row: str) -> int:
        """A cell that must be a whole number from 1, of at most nine digits: so many an id may have."""
        value = self.values[name][row]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, row, f"must be a whole number, is {kind_of(value)}")
        if value < 1:
            raise self.error(name, row, f"must be a whole number from 1, is {value}")
        if value >= 10**9:
            raise self.error(name, row, f"must have at most nine digits, is {value}")
        return value

    def error(self, name: str, row: str, problem: str) -> InputError:
        """What is wrong with a cell."""
        return InputError(self.path, f"row {row[:20]}: {problem}", field=name)


def read_columns(path: Path, names: Sequence[str], *, max_bytes: int = MAX_FILE_BYTES) -> Columns:
    """The columns called `names`; others may be there and are left out.

    InputError for what `json_file` refuses, a missing column, and columns of unequal rows.
    """
    table = parse_json(path, read_bytes(path, max_bytes=max_bytes))
    if not isinstance(table, dict):
        raise InputError(path, f"must be an object of columns, is {kind_of(table)}")
    for name in names:
        _check_column(path, table, name, names[0])
    return Columns(path, {name: table[name] for name in names})


def _check_column(path: Path, table: dict[str, Any], name: str, first: str) -> None:
    if name not in table:
        raise InputError(path, f"the column is missing; the columns are {listed(table)}", field=name)
    if not isinstance(table[name], dict):
        problem = f'must be an object {{"0": value, ...}}, is {kind_of(table[name])}'
        raise InputError(path, problem, field=name)
    if table[name].keys() != table[first].keys():
        problem = f"has {len(table[name])} rows that do not match the {len(table[first])} of {first!r}"
        raise InputError(path, problem, field=name)
