"""Hard518 (Huang et al., KDD 2026): 518 pairs of queries, in the layout of the release.

release/data/hard_518_queries.csv         fused_query, blurred_query, perhaps an id
release/data/gold_public_hard518.jsonl    the static golden nuggets
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cts_async.datasets.kinds import RUN_COMMANDS, Dataset, Kind, open_queries
from cts_async.errors import InputError, UsageError

QUERIES: Final = "hard_518_queries.csv"
GOLD: Final = "gold_public_hard518.jsonl"


def queries_file(path: Path) -> Path:
    """Return the queries file: `path` itself, or the one in a release's folder (or its `data/`)."""
    if not path.is_dir():
        return path
    for file in (path / "data" / QUERIES, path / QUERIES):
        if file.exists():
            return file
    problem = f"contains neither data/{QUERIES} nor {QUERIES}; unzip the release and name its folder"
    raise InputError(path, problem)


def open_hard518(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """Open `hard518:PATH`; without `gold`, the release's own gold file beside the queries is used if it exists."""
    if not target:
        raise UsageError("hard518 needs a path: hard518:PATH, the release's folder or its queries CSV")
    path = queries_file(Path(target).expanduser())
    release_gold = path.parent / GOLD
    if gold is None and release_gold.exists():
        gold = release_gold
    return open_queries("hard518", path, gold, fields, skip_bad_gold)


KIND: Final = Kind(
    name="hard518",
    title="Hard518",
    what="518 pairs of a hidden intent and its blurred query, with a static gold of weighted nuggets",
    paper="Huang et al., KDD 2026: Clarify-Then-Search",
    licence="CC BY 4.0",
    source="https://clarify-then-search.github.io/",
    spec="hard518:PATH",
    expects="the unpacked release's folder, or its hard_518_queries.csv; the gold next to it is used",
    uses=(RUN_COMMANDS, "cts judge, score, compare, diagnose"),
    open=open_hard518,
    position=1,
)
