"""Hard518 (Huang et al., KDD 2026): 518 pairs of queries, as the release lays them out.

release/data/hard_518_queries.csv         fused_query, blurred_query, perhaps an id
release/data/gold_public_hard518.jsonl    the static golden nuggets
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from cts_async.datasets.dataset import Dataset, make_dataset
from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.queries import read_queries
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance

QUERIES: Final = "hard_518_queries.csv"
GOLD: Final = "gold_public_hard518.jsonl"


def read_instances(
    path: Path, gold: GoldIndex | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[Instance]:
    """Stream the instances of the queries file, or of the release directory that holds it.

    Errors as `queries.read_queries`.
    """
    return read_queries(queries_file(path), gold=gold, fields=fields)


def queries_file(path: Path) -> Path:
    """The queries file that `path` means: itself, or the one in a release's directory (or its `data/`)."""
    if not path.is_dir():
        return path
    for found in (path / "data" / QUERIES, path / QUERIES):
        if found.exists():
            return found
    raise InputError(
        path, f"holds neither data/{QUERIES} nor {QUERIES}; unzip the release and name its folder"
    )


def open_hard518(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """`hard518:PATH`; without `gold` the release's own gold file is used if it lies beside the queries."""
    if not target:
        raise UsageError("hard518 needs a path: hard518:PATH, the release's folder or its queries CSV")
    path = queries_file(Path(target).expanduser())
    beside = path.parent / GOLD
    gold = gold or (beside if beside.exists() else None)
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    return make_dataset("hard518", path, index, partial(read_instances, path, index, fields))
