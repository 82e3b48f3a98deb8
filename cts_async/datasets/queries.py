"""Instances from a queries file, CSV or JSON Lines: a fused and a blurred query a row, maybe an id and gold.

Rows without ids are called q0001, q0002, ... in file order; a file has ids on all of its rows or on none.
Made-up ids are never used to join with a gold file: only the queries are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cts_async.datasets.fields import Fields, short
from cts_async.datasets.gold import GoldIndex
from cts_async.datasets.nuggets import NuggetReader
from cts_async.datasets.rows import read_rows
from cts_async.datasets.unique import FirstLines
from cts_async.errors import InputError
from cts_async.records import Instance, Nugget


def read_queries(
    path: Path, *, gold: GoldIndex | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[Instance]:
    """Stream the instances in file order, each with its nuggets if the gold or its own row has them.

    InputError names file, line and field of what is wrong: a needed field that no alias finds, an empty
    query, an id used twice, a file without rows. Before the first instance it is made sure that at least
    one of them joins with `gold`.
    """
    if gold is not None:
        keys = ((pair.id, pair.fused_query) for pair in _pairs(path, fields))
        gold.require_join(path, _first_fields(path), keys)
    for row, pair in enumerate(_pairs(path, fields), start=1):
        nuggets = gold.lookup(pair.id, pair.fused_query) if gold is not None else None
        instance_id = pair.id if pair.id is not None else f"q{row:04d}"
        yield Instance(instance_id, pair.fused_query, pair.blurred_query, nuggets or pair.nuggets)


@dataclass(frozen=True, slots=True)
class _Pair:
    id: str | None
    fused_query: str
    blurred_query: str
    nuggets: tuple[Nugget, ...]


def _pairs(path: Path, mapping: Mapping[str, str] | None) -> Iterator[_Pair]:
    fields = Fields.of_data(path, mapping)
    reader = NuggetReader(path, fields)
    ids = _Ids(path)
    line = 0
    for line, row in read_rows(path):
        pair_id = fields.identifier(row, line)
        ids.check(pair_id, line, fields.name(row, "id", line) or "id")
        fused_query = fields.text(row, "fused_query", line)
        blurred_query = fields.text(row, "blurred_query", line)
        yield _Pair(pair_id, fused_query, blurred_query, reader.read(row, line) or ())
    if not line:
        raise InputError(path, "holds no queries", field="fused_query")


class _Ids:
    """Ids are unique, and there on all rows or on none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first: tuple[int, bool] | None = None
        self._lines = FirstLines()

    def check(self, row_id: str | None, line: int, field: str) -> None:
        """InputError if the row's id (None: it has none) breaks either rule."""
        self._first = self._first or (line, row_id is not None)
        first_line, expected = self._first
        if expected != (row_id is not None):
            problem = "is missing, although" if expected else "is given, although none is on"
            problem += f" line {first_line}" + (" has one" if expected else "")
            raise InputError(self._path, problem + ": ids belong on all rows or none", line=line, field=field)
        earlier = None if row_id is None else self._lines.add(row_id, line)
        if earlier is not None:
            raise InputError(
                self._path, f"{short(row_id)} already stands on line {earlier}", line=line, field=field
            )


def _first_fields(path: Path) -> tuple[str, ...]:
    return next((tuple(row) for _, row in read_rows(path)), ())
