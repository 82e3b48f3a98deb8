"""The static gold: who owns which nuggets, joined by id, else by the text of the fused query.

A gold file is the release's `gold_public_hard518.jsonl`, or any JSON Lines with `gold.nuggets` (an object,
that object as a JSON string, or `nuggets` at top level) and an id, a fused query or both.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from cts_async.datasets.fields import Fields, listed, short
from cts_async.datasets.nuggets import NuggetReader
from cts_async.datasets.rows import Row, read_rows
from cts_async.errors import InputError
from cts_async.records import Nugget


@dataclass(frozen=True, slots=True)
class GoldRecord:
    """One line of a gold file; `id` and `fused_query` are None where the line has none (never both)."""

    line: int
    id: str | None
    fused_query: str | None
    nuggets: tuple[Nugget, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A gold line without usable nuggets, and what is wrong with them."""

    line: int
    id: str | None
    fused_query: str | None
    problem: str

    @property
    def name(self) -> str:
        """What a person knows the line by: its id, else its query."""
        return self.id or short(self.fused_query or "")


@dataclass(frozen=True, slots=True)
class GoldIndex:
    """All records of a gold file by id and by fused query.

    `fields` are those of its first line; `notes` are what a person should know about how it was read.
    """

    path: Path
    fields: tuple[str, ...]
    notes: tuple[str, ...]
    by_id: Mapping[str, GoldRecord] = field(repr=False)
    by_query: Mapping[str, GoldRecord] = field(repr=False)
    left_out: tuple[LeftOut, ...] = ()
    """Lines whose nuggets cannot be used, where they were to be skipped."""

    def leaves_out(self, id: str, fused_query: str) -> bool:
        """Whether an instance that has no nuggets here lost them with a line that was left out."""
        query = normalise(fused_query)
        return any(
            query == normalise(line.fused_query) if line.fused_query else id == line.id
            for line in self.left_out
        )

    def records(self) -> Iterator[GoldRecord]:
        """Every record, some perhaps twice."""
        yield from self.by_id.values()
        yield from self.by_query.values()

    def lookup(self, id: str | None, fused_query: str | None) -> tuple[Nugget, ...] | None:
        """The nuggets for an instance or candidate; None where the gold does not know it. See `find`."""
        record = self.find(id, fused_query)
        return None if record is None else record.nuggets

    def find(self, id: str | None, fused_query: str | None) -> GoldRecord | None:
        """The record with this id, else with this query.

        Where the id's record is about another query, the query decides; if no record has it, the ids of
        the two files do not mean the same, and InputError says so.
        """
        query = normalise(fused_query) if fused_query else None
        with_query = self.by_query.get(query) if query else None
        with_id = self.by_id.get(id) if id else None
        if with_id is None:
            return with_query
        if query is None or with_id.fused_query is None or normalise(with_id.fused_query) == query:
            return with_id
        if with_query is not None:
            return with_query
        problem = (
            f"the ids clash: {short(id)} is {short(with_id.fused_query)} here, but {short(fused_query or '')} in the "
            "file to be joined, a query that this gold does not have"
        )
        raise InputError(self.path, problem, line=with_id.line, field="id")

    def require_join(
        self, path: Path, fields: Iterable[str], keys: Iterable[tuple[str | None, str | None]]
    ) -> None:
        """InputError unless at least one of `keys`, the (id, fused query) pairs of `path`, is found here."""
        if not any(self.find(id, fused_query) for id, fused_query in keys):
            problem = (
                f"nothing in it can be joined with the gold {self.path}, neither by id nor by fused_query; "
                f"it has the fields {listed(fields)}, the gold has {listed(self.fields)}"
            )
            raise InputError(path, problem, field="fused_query")


SKIP_BAD_GOLD: Final = "--skip-bad-gold"
"""The option of `cts run`, `cts plan` and `cts judge` that leaves out gold lines without usable nuggets."""


def read_gold(path: Path, fields: Mapping[str, str] | None = None, *, skip_bad: bool = False) -> GoldIndex:
    """Read a gold file whole; InputError names file, line and field of whatever is wrong with it.

    With `skip_bad`, lines that have no nuggets or whose nuggets cannot be used (no text, a missing or invalid
    weight) are left out, and are in `left_out` and `notes`; InputError where that would be all of them.
    `fields` maps canonical names to the file's own: see `fields.Fields.of_gold`.
    """
    finder = Fields.of_gold(path, fields)
    whole, records, bad = NuggetReader(path, finder), list[_Read](), list[LeftOut]()
    first: tuple[str, ...] = ()
    problem: InputError | None = None
    for line, row in read_rows(path):
        first = first or tuple(row)
        id, query = _names(finder, line, row)
        # Whether a weight is missing is a matter of the whole file: line by line it is looked at below.
        reader = NuggetReader(path, finder) if skip_bad else whole
        try:
            record = GoldRecord(line, id, query, _nuggets(finder, reader, line, row))
        except InputError as error:
            problem = problem or error
            if not skip_bad:
                raise _with_hint(error) from None
            bad.append(LeftOut(line, id, query, f"{error.field}: {error.problem}"))
        else:
            records.append(_Read(record, finder.name(row, "id", line) or "id", reader.unweighted))
    if not first:
        raise InputError(path, "holds no gold records")
    unweighted = all(read.unweighted for read in records)
    if skip_bad and not unweighted:
        without = [read.record for read in records if read.unweighted]
        bad += [LeftOut(one.line, one.id, one.fused_query, "no nugget has a weight") for one in without]
        records = [read for read in records if not read.unweighted]
    if problem and not records:
        raise problem
    by_id: dict[str, GoldRecord] = {}
    by_query: dict[str, GoldRecord] = {}
    for record, id_field, _ in records:
        if record.id:
            _add(by_id, record.id, record, path, id_field)
        if record.fused_query:
            _add(by_query, normalise(record.fused_query), record, path, "fused_query")
    notes = ("no nugget has a weight: each counts 1",) if unweighted else ()
    left_out = tuple(sorted(bad, key=lambda one: one.line))
    return GoldIndex(path, first, (*notes, *_told(left_out)), by_id, by_query, left_out)


class _Read(NamedTuple):
    """A record, what its id's field is called, and whether none of its nuggets has a weight."""

    record: GoldRecord
    id_field: str
    unweighted: bool


def _with_hint(error: InputError) -> InputError:
    problem = f"{error.problem} (cts run and cts judge leave such lines out with {SKIP_BAD_GOLD})"
    return InputError(error.path, problem, line=error.line, field=error.field)


def _told(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """One sentence that counts and names the lines left out; none where there are none."""
    if left_out:
        lines = "1 gold line is" if len(left_out) == 1 else f"{len(left_out)} gold lines are"
        names = "; ".join(f"{one.name} (line {one.line}, {one.problem})" for one in left_out)
        yield f"{lines} left out ({SKIP_BAD_GOLD}): {names}"


@lru_cache(maxsize=8192)  # many candidates answer the same query
def normalise(query: str) -> str:
    """The form in which queries are compared: NFKC, white space folded, ends stripped."""
    return " ".join(unicodedata.normalize("NFKC", query).split())


def _names(finder: Fields, line: int, row: Row) -> tuple[str | None, str | None]:
    """A row's id and fused query; InputError where it has neither."""
    record_id = finder.identifier(row, line)
    fused_query = finder.text_or_none(row, "fused_query", line) or None
    if record_id is None and fused_query is None:
        raise finder.missing(row, "fused_query", line)
    return record_id, fused_query


def _nuggets(finder: Fields, reader: NuggetReader, line: int, row: Row) -> tuple[Nugget, ...]:
    nuggets = reader.read(row, line)
    if nuggets is None:
        raise finder.missing(row, "gold", line)
    return nuggets


def _add(index: dict[str, GoldRecord], key: str, record: GoldRecord, path: Path, name: str) -> None:
    earlier = index.setdefault(key, record)
    if earlier.nuggets != record.nuggets:
        problem = f"{short(key)} already stands on line {earlier.line}, with other nuggets"
        raise InputError(path, problem, line=record.line, field=name)
