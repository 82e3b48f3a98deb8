"""The sample world with as many instances as wanted: the same ones again under other ids and other words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from cts_async.datasets.kinds.sample import sample_dir


def write_world(directory: Path, n: int) -> Path:
    """Write queries, gold and corpus of `n` instances; no two ask the same."""
    directory.mkdir()
    for name in ("queries.jsonl", "gold.jsonl"):
        rows = [json.loads(line) for line in (sample_dir() / name).read_text(encoding="utf-8").splitlines()]
        with (directory / name).open("w", encoding="utf-8") as out:
            for row in islice(_varied(rows), n):
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
    (directory / "corpus.jsonl").write_bytes((sample_dir() / "corpus.jsonl").read_bytes())
    return directory


def _varied(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for turn in count():
        for row in rows:
            new = dict(row)
            if turn:
                new["id"] = f"{row['id']}-{turn}"
                for field in ("fused_query", "blurred_query"):
                    if row.get(field):
                        new[field] = f"{row[field]} ({turn})"
            yield new
