"""The sample world: a few dozen queries, their gold and a small corpus, written for this project.

queries.jsonl   {"id", "fused_query", "blurred_query"}
gold.jsonl      as the release's gold file
corpus.jsonl    the documents that the embedded search finds
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import cts_async
from cts_async.datasets.kinds import RUN_COMMANDS, Dataset, Kind, open_queries

QUERIES: Final = "queries.jsonl"
GOLD: Final = "gold.jsonl"
CORPUS: Final = "corpus.jsonl"


def sample_dir() -> Path:
    """Return the folder of the sample: inside the installed package, or `data/sample` of a checkout."""
    package = Path(cts_async.__file__).parent
    # Where the build of a wheel puts it.
    installed = package / "_sample"
    if installed.exists():
        return installed
    return package.parent / "data" / "sample"


def open_sample(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """Open `sample`, or `sample:DIR` for another world with the same three files."""
    folder = sample_dir()
    if target:
        folder = Path(target).expanduser()
    corpus: Path | None = folder / CORPUS
    if not (folder / CORPUS).exists():
        corpus = None
    return open_queries("sample", folder / QUERIES, gold or folder / GOLD, fields, skip_bad_gold, corpus)


KIND: Final = Kind(
    name="sample",
    title="The sample world",
    what="28 queries in English and Chinese with gold and a small corpus, all made up: for learning",
    licence="MIT or CC0 1.0",
    source="included",
    spec="sample, sample:DIR",
    expects="nothing, or a folder with queries.jsonl, gold.jsonl and perhaps corpus.jsonl",
    uses=(RUN_COMMANDS, "cts judge, score, compare, diagnose"),
    open=open_sample,
    position=0,
)
