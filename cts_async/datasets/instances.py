"""Instances from a queries file, and what every dataset looks like to the rest of the program.

A queries file is CSV or JSON Lines with a fused and a blurred query per row, and optionally an id and gold. Rows
without ids are called q0001, q0002, ... in file order; a file has ids on all of its rows or on none. Such generated
ids are never used to join with a gold file: only the queries are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cts_async.datasets.fields import Fields, short
from cts_async.datasets.gold import GoldIndex, NuggetReader
from cts_async.datasets.io import earlier_line, read_rows, sha256_of, unreadable
from cts_async.errors import InputError
from cts_async.records import Instance, Nugget

_COUNTED_BYTES: Final = 16 * 1024 * 1024

Instances = Callable[[], Iterator[Instance]]
HumanPairs = tuple[tuple[str, str], ...]
"""(question, answer) pairs that people wrote for one intent, in file order."""


@dataclass(frozen=True, slots=True)
class AnnotatedQuery:
    """An underspecified query with people's clarifying questions: distinct texts in file order, of all its intents.

    `ambiguity` is ClariQ's clarification_need from 1 (clear) to 4 (most ambiguous); None if it is not annotated.
    """

    id: str
    query: str
    questions: tuple[str, ...]
    ambiguity: int | None = None


@dataclass(frozen=True, slots=True)
class Annotations:
    """What people wrote about a dataset's queries: `queries` by the exact text of q, `pairs` by instance id."""

    queries: Mapping[str, AnnotatedQuery]
    pairs: Mapping[str, HumanPairs]


@dataclass(frozen=True, slots=True)
class Dataset:
    """An opened dataset. `instances()` streams it from the start, as often as it is called."""

    name: str
    """A short name, for the names of runs."""
    path: Path
    """The main file."""
    gold_path: Path | None
    """The file of the nuggets; None if there are none or they are inline."""
    corpus: Path | None
    """The dataset's own documents."""
    instances: Instances = field(repr=False)
    count: int | None
    """The number of instances; None if the file is too large to be counted when it is opened."""
    notes: tuple[str, ...] = ()
    """Remarks for the user on how the files were read."""
    annotations: Callable[[], Annotations] | None = field(default=None, repr=False)
    """Reads what people wrote about the queries; None if the dataset has nothing of the kind."""
    more_paths: tuple[Path, ...] = ()
    """Further files that the instances come from."""

    def sha256(self) -> str:
        """Return the digest of the main file, or with further files that of their digests."""
        digests = [sha256_of(path) for path in (self.path, *self.more_paths)]
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def make_dataset(
    name: str,
    path: Path,
    gold: GoldIndex | None,
    instances: Instances,
    *,
    corpus: Path | None = None,
    annotations: Callable[[], Annotations] | None = None,
) -> Dataset:
    """Return a Dataset without the instances whose line of `gold` was left out.

    A main file of up to 16 MiB is read once, so that InputErrors come before anything has started; those of a larger
    one come while it streams.
    """
    gold_path, notes = (None, ()) if gold is None else (gold.path, gold.notes)
    if gold is not None and gold.left_out:
        instances = partial(_with_usable_gold, instances, gold)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from None
    count = sum(1 for _ in instances()) if size <= _COUNTED_BYTES else None
    return Dataset(name, path, gold_path, corpus, instances, count, notes, annotations)


def _with_usable_gold(instances: Instances, gold: GoldIndex) -> Iterator[Instance]:
    for instance in instances():
        if instance.nuggets or not gold.leaves_out(instance.id, instance.fused_query):
            yield instance


# --- Queries files


def read_queries(
    path: Path, *, gold: GoldIndex | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[Instance]:
    """Stream the instances in file order, with their nuggets from the gold, else from their own row.

    InputError names file, line and field of what is wrong: a required field that no alias finds, an empty query, a
    repeated id, a file without rows. At least one of the rows must join with `gold`; that is checked first.
    """
    if gold is not None:
        names = next((tuple(row) for _, row in read_rows(path)), ())
        gold.require_join(path, names, ((pair.id, pair.fused_query) for pair in _pairs(path, fields)))
    for row, pair in enumerate(_pairs(path, fields), start=1):
        nuggets = gold.lookup(pair.id, pair.fused_query) if gold is not None else None
        instance_id = pair.id if pair.id is not None else f"q{row:04d}"
        yield Instance(instance_id, pair.fused_query, pair.blurred_query, nuggets or pair.nuggets)


class _Pair(NamedTuple):
    id: str | None
    fused_query: str
    blurred_query: str
    nuggets: tuple[Nugget, ...]


def _pairs(path: Path, mapping: Mapping[str, str] | None) -> Iterator[_Pair]:
    fields = Fields.of_data(path, mapping)
    reader = NuggetReader(path, fields)
    seen: dict[str, int] = {}
    first: tuple[int, bool] | None = None
    for line, row in read_rows(path):
        pair_id = fields.identifier(row, line)
        first = first or (line, pair_id is not None)
        problem = ""
        if first[1] != (pair_id is not None):
            problem = f"unlike line {first[0]}: ids belong on all rows or none"
        elif pair_id is not None and (earlier := earlier_line(seen, pair_id, line)) is not None:
            problem = f"{short(pair_id)} is already used on line {earlier}"
        if problem:
            raise InputError(path, problem, line=line, field=fields.name(row, "id", line) or "id")
        fused_query = fields.text(row, "fused_query", line)
        blurred_query = fields.text(row, "blurred_query", line)
        yield _Pair(pair_id, fused_query, blurred_query, reader.read(row, line) or ())
    if first is None:
        raise InputError(path, "contains no queries", field="fused_query")
