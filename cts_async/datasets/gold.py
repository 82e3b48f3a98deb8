"""The static gold: nuggets by instance, joined by id, else by the text of the fused query.

A gold file is the release's `gold_public_hard518.jsonl`, or any JSON Lines with `gold.nuggets` (an object, that
object as a JSON string, or `nuggets` at top level) and an id, a fused query or both.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import orjson

from cts_async import foreign_json
from cts_async.datasets.io import Fields, Row, kind_of, listed, read_rows, short
from cts_async.errors import InputError
from cts_async.records import Nugget

# --- Nuggets

_INSIDE_GOLD: Final = ("nuggets", "gold_nuggets", "golden_nuggets")


class NuggetReader:
    """Reads the nuggets of a gold or queries file, record by record.

    Weights concern the whole file: either every nugget has one (finite, above 0), or none has and each counts 1.
    """

    def __init__(self, path: Path, fields: Fields) -> None:
        self._path, self._fields = path, fields
        self._first: tuple[int, bool] | None = None
        """The line of the first nugget, and True if that has a weight."""

    @property
    def unweighted(self) -> bool:
        """True if nuggets were read and none of them had a weight."""
        return self._first is not None and not self._first[1]

    def read(self, row: Row, line: int) -> tuple[Nugget, ...] | None:
        """Return the nuggets of a row, at least one; None if the row has no gold at all."""
        value = self._fields.value(row, "gold", line)
        if value is None or value == "":
            return None
        name = self._fields.name(row, "gold", line) or "gold"
        if isinstance(value, str):
            try:
                value = foreign_json.loads(value)
            except foreign_json.NestedTooDeeply as error:
                raise self._error(f"cannot be read: {error}", line, name) from None
            except orjson.JSONDecodeError as error:
                problem = f"is not valid JSON: {error.msg} at character {error.pos + 1}"
                raise self._error(problem, line, name) from None
        if isinstance(value, dict):
            return self._nuggets_inside(value, line, name)
        return self._nuggets(value, line, name)

    def _nuggets_inside(self, gold: Row, line: int, name: str) -> tuple[Nugget, ...]:
        """Read the list of nuggets from the object that holds it."""
        for key in _INSIDE_GOLD:
            if key in gold:
                return self._nuggets(gold[key], line, f"{name}.{key}")
        problem = f"is missing; the fields of {name!r} are {listed(gold)}"
        raise self._error(problem, line, f"{name}.nuggets")

    def _nuggets(self, items: object, line: int, name: str) -> tuple[Nugget, ...]:
        if not isinstance(items, list):
            raise self._error(f"must be a list, is {kind_of(items)}", line, name)
        if not items:
            raise self._error("is empty: without nuggets nothing can be scored", line, name)
        nuggets: dict[str, Nugget] = {}
        for n, item in enumerate(items):
            nugget = self._nugget(item, n, line, f"{name}[{n}]")
            if nugget.id in nuggets:
                raise self._error(f"two nuggets have the id {short(nugget.id)}", line, name)
            nuggets[nugget.id] = nugget
        return tuple(nuggets.values())

    def _nugget(self, item: object, n: int, line: int, name: str) -> Nugget:
        if not isinstance(item, dict):
            raise self._error(f"must be an object, is {kind_of(item)}", line, name)
        fields, within = self._fields, f"{name}."
        nugget_id = fields.identifier(item, line, "nugget_id", within) or f"N{n + 1}"
        text = fields.text(item, "nugget_text", line, within)
        weight = self._weight(item, line, within)
        sources = fields.value(item, "source_ids", line, within)
        if sources is None:
            sources = []
        elif not isinstance(sources, list):
            sources = [sources]
        for source in sources:
            if isinstance(source, bool) or not isinstance(source, str | int):
                problem = f"must list texts or whole numbers, contains {kind_of(source)}"
                raise fields.error(item, "source_ids", line, problem, within)
        return Nugget(nugget_id, text, weight, tuple(map(str, sources)))

    def _weight(self, item: Row, line: int, within: str) -> float:
        value = self._fields.value(item, "nugget_weight", line, within)
        if self._first is None:
            self._first = (line, value is not None)
        # Weights of some nuggets only would make the others weigh 1 beside 2 and 3.
        first_line, first_has_weight = self._first
        if first_has_weight and value is None:
            problem = f"is missing, but the first nugget (line {first_line}) has one"
            raise self._error(problem, line, f"{within}weight")
        if value is not None and not first_has_weight:
            problem = f"is given, but the first nugget (line {first_line}) has none"
            raise self._error(problem, line, f"{within}weight")
        if value is None:
            return 1.0
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                weight = float(value)
                if math.isfinite(weight) and weight > 0:
                    return weight
        problem = f"must be a finite number above 0, is {short(value)}"
        raise self._fields.error(item, "nugget_weight", line, problem, within)

    def _error(self, problem: str, line: int, name: str) -> InputError:
        return InputError(self._path, problem, line=line, field=name)


# --- The index


@dataclass(frozen=True, slots=True)
class GoldRecord:
    """One line of a gold file; `id` or `fused_query` may be None, but not both."""

    line: int
    id: str | None
    intent: str | None
    nuggets: tuple[Nugget, ...] = ()
    id_field: str = "id"
    """The file's own name of its id field."""
    problem: str = ""
    """Why its nuggets cannot be used."""

    @property
    def name(self) -> str:
        """Its id, else its query, for a message."""
        return self.id or short(self.intent or "")


@dataclass(frozen=True, slots=True)
class GoldIndex:
    """All records of a gold file by id and by fused query.

    `fields` are those of its first line; `notes` are remarks for the user on how it was read.
    """

    path: Path
    fields: tuple[str, ...]
    notes: tuple[str, ...]
    by_id: Mapping[str, GoldRecord] = field(repr=False)
    by_query: Mapping[str, GoldRecord] = field(repr=False)
    left_out: tuple[GoldRecord, ...] = ()
    """Skipped lines, whose nuggets cannot be used."""

    def leaves_out(self, id: str, fused_query: str) -> bool:
        """True if an instance without nuggets here belongs to a line that was left out."""
        query = normalise(fused_query)
        for line in self.left_out:
            if line.intent and normalise(line.intent) == query:
                return True
            if not line.intent and line.id == id:
                return True
        return False

    def records(self) -> Iterator[GoldRecord]:
        """Yield every record, some of them twice."""
        yield from self.by_id.values()
        yield from self.by_query.values()

    def lookup(self, id: str | None, fused_query: str | None) -> tuple[Nugget, ...] | None:
        """Return the nuggets of an instance or candidate; None if the gold does not have it. See `find`."""
        record = self.find(id, fused_query)
        if record is None:
            return None
        return record.nuggets

    def find(self, id: str | None, fused_query: str | None) -> GoldRecord | None:
        """Return the record with this id, else with this query.

        If the id's record is about another query, the query decides; if no record has it, the ids of the two files
        mean different things: InputError.
        """
        query = normalise(fused_query or "")
        with_query = self.by_query.get(query)
        with_id = self.by_id.get(id or "")
        if with_id is None:
            return with_query
        if not fused_query or with_id.intent is None or normalise(with_id.intent) == query:
            return with_id
        if with_query is not None:
            return with_query
        problem = (
            f"the ids clash: {short(id)} is {short(with_id.intent)} here, but {short(fused_query or '')} in the "
            "file to be joined, a query that this gold does not have"
        )
        raise InputError(self.path, problem, line=with_id.line, field="id")

    def require_join(
        self, path: Path, fields: Iterable[str], keys: Iterable[tuple[str | None, str | None]]
    ) -> None:
        """Raise InputError unless at least one of `keys`, the (id, fused query) pairs of `path`, is found here."""
        if not any(self.find(id, fused_query) for id, fused_query in keys):
            problem = (
                f"nothing in it can be joined with the gold {self.path}, neither by id nor by fused_query; "
                f"it has the fields {listed(fields)}, the gold has {listed(self.fields)}"
            )
            raise InputError(path, problem, field="fused_query")


SKIP_BAD_GOLD: Final = "--skip-bad-gold"
"""The option of `cts run`, `cts plan` and `cts judge` that leaves out gold lines without usable nuggets."""


def read_gold(path: Path, fields: Mapping[str, str] | None = None, *, skip_bad: bool = False) -> GoldIndex:
    """Read a whole gold file; InputError names file, line and field of what is wrong with it.

    With `skip_bad`, lines without nuggets or with unusable ones (no text, a missing or invalid weight) are left out,
    and listed in `left_out` and `notes`; InputError if these are all lines. `fields` maps canonical names to the
    file's own, as in `Fields.of_gold`.
    """
    finder = Fields.of_gold(path, fields)
    reader = NuggetReader(path, finder)
    records: list[GoldRecord] = []
    unweighted: list[GoldRecord] = []
    left_out: list[GoldRecord] = []
    file_fields: tuple[str, ...] = ()
    first_error: InputError | None = None
    for line, row in read_rows(path):
        file_fields = file_fields or tuple(row)
        id, query = _names(finder, line, row)
        if skip_bad:  # weights are compared below, line by line
            reader = NuggetReader(path, finder)
        try:
            nuggets = reader.read(row, line)
            if nuggets is None:
                raise finder.missing(row, "gold", line)
        except InputError as error:
            if not skip_bad:
                problem = f"{error.problem} (cts run and cts judge leave such lines out with {SKIP_BAD_GOLD})"
                raise InputError(path, problem, line=line, field=error.field) from None
            first_error = first_error or error
            left_out.append(GoldRecord(line, id, query, problem=f"{error.field}: {error.problem}"))
            continue
        record = GoldRecord(line, id, query, nuggets, finder.name(row, "id", line) or "id")
        if reader.unweighted:
            unweighted.append(record)
        else:
            records.append(record)
    if not file_fields:
        raise InputError(path, "contains no gold records")
    if records:  # some lines have weights: those without are bad
        for record in unweighted:
            left_out.append(replace(record, problem="no nugget has a weight"))
    elif first_error and not unweighted:
        raise first_error
    notes: list[str] = []
    if not records:
        notes.append("no nugget has a weight: each counts 1")
    left_out.sort(key=lambda record: record.line)
    if left_out:
        names = "; ".join(f"{record.name} (line {record.line}, {record.problem})" for record in left_out)
        notes.append(f"gold lines left out ({SKIP_BAD_GOLD}): {len(left_out)}: {names}")
    by_id: dict[str, GoldRecord] = {}
    by_query: dict[str, GoldRecord] = {}
    for record in records or unweighted:
        if record.id:
            _add(by_id, record.id, record, path, record.id_field)
        if record.intent:
            _add(by_query, normalise(record.intent), record, path, "fused_query")
    return GoldIndex(path, file_fields, tuple(notes), by_id, by_query, tuple(left_out))


@lru_cache(maxsize=8192)  # many candidates answer the same query
def normalise(query: str) -> str:
    """Return the form in which queries are compared: NFKC, white space collapsed, stripped."""
    return " ".join(unicodedata.normalize("NFKC", query).split())


def _names(finder: Fields, line: int, row: Row) -> tuple[str | None, str | None]:
    """Return a row's id and fused query; InputError if it has neither."""
    record_id = finder.identifier(row, line)
    fused_query = finder.text_or_none(row, "fused_query", line) or None
    if record_id is None and fused_query is None:
        raise finder.missing(row, "fused_query", line)
    return record_id, fused_query


def _add(index: dict[str, GoldRecord], key: str, record: GoldRecord, path: Path, name: str) -> None:
    earlier = index.setdefault(key, record)
    if earlier.nuggets != record.nuggets:
        problem = f"{short(key)} is already used on line {earlier.line}, with other nuggets"
        raise InputError(path, problem, line=record.line, field=name)
