"""Writes instances as the file that `--data FILE` reads back: JSON Lines or CSV, with their nuggets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.datasets.rows import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.datasets.shelf import Shelf, nugget_row
from cts_async.errors import UsageError
from cts_async.records import Instance
from cts_async.safe_files import atomic_writer

COLUMNS: Final = ("id", "fused_query", "blurred_query", "gold")
"""Of a CSV file; `gold` is a JSON object in a cell, or empty."""


def convert(shelf: Shelf, to: Path, *, limit: int | None = None, force: bool = False) -> int:
    """Write the first `limit` instances, or panes (JSON Lines only), to `to`; gives how many.

    The file appears whole or not at all. UsageError for a suffix that says no format, a file that exists (unless
    `force`) or is one of the dataset's own, panes as CSV, and text that CSV cannot hold.
    """
    as_csv = to.suffix.lower() in CSV_SUFFIXES
    if not as_csv and to.suffix.lower() not in JSONL_SUFFIXES:
        raise UsageError(f"--to {to}: the name must end in {', '.join((*JSONL_SUFFIXES, *CSV_SUFFIXES))}")
    if as_csv and shelf.dataset is None:
        raise UsageError(f"--to {to}: panes have lists in them, write them as .jsonl")
    if any(_same(to, path) for path in shelf.paths):
        raise UsageError(f"--to {to}: that is the dataset itself; choose another name")
    if to.exists() and not force:
        raise UsageError(f"--to {to}: exists already; --force replaces it")
    if shelf.dataset is None:
        return _write(to, map(_json_line, islice(shelf.items(), limit)))
    instances = islice(shelf.dataset.instances(), limit)
    if as_csv:
        return _write(to, _csv_lines(to, instances), header=_csv_line(COLUMNS))
    return _write(to, (_json_line(instance_row(instance)) for instance in instances))


def instance_row(instance: Instance) -> dict[str, Any]:
    """An instance as `queries.read_queries` understands it; nuggets stand under `gold`, where there are any."""
    row: dict[str, Any] = {
        "id": instance.id,
        "fused_query": instance.fused_query,
        "blurred_query": instance.blurred_query,
    }
    return row | ({"gold": _gold(instance)} if instance.nuggets else {})


def _gold(instance: Instance) -> dict[str, Any]:
    return {"nuggets": [nugget_row(nugget) for nugget in instance.nuggets]}


def _json_line(row: Any) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _csv_lines(to: Path, instances: Iterable[Instance]) -> Iterator[bytes]:
    for instance in instances:
        gold = orjson.dumps(_gold(instance)).decode() if instance.nuggets else ""
        cells = (instance.id, instance.fused_query, instance.blurred_query, gold)
        if any("\0" in cell for cell in cells):
            raise UsageError(f"--to {to}: {instance.id} holds a NUL, which CSV cannot; write it as .jsonl")
        yield _csv_line(cells)


def _csv_line(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    # Left to itself, the csv module of Python 3.11 leaves a lone carriage return unquoted, and then refuses it.
    alone = any("\r" in cell for cell in cells)
    csv.writer(line, lineterminator="\n", quoting=csv.QUOTE_ALL if alone else csv.QUOTE_MINIMAL).writerow(
        cells
    )
    return line.getvalue().encode()


def _write(to: Path, lines: Iterable[bytes], header: bytes = b"") -> int:
    n = 0
    with atomic_writer(to) as file:
        file.write(header)
        for line in lines:
            file.write(line)
            n += 1
    return n


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
