"""Cached tokens: 518 answers of four systems, judged by a provider that caches prefixes of 1,024 tokens for 5 minutes.

The real commands in virtual time (`cached_judging.py`), with the limits and prices of the shipped catalogue. Before: one
system after the other and without marks for a cache, as versions up to 0.14 judged. After: in blocks across systems.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from cached_judging import Judged, judge_world, write_world

from benchmarks.shared.result import Result, Row
from cts_async.llm.catalog import ModelSpec, load_catalogue

INSTANCES, SYSTEMS = 518, 4
JUDGES = ("gpt", "claude", "qwen", "kimi")
"""Models whose providers cache prompts: two fast accounts, and two on which all systems take more than half an hour."""
_FIELDS = (
    "requests_per_min",
    "tokens_per_min",
    "max_concurrency",
    "input_usd_per_mtok",
    "output_usd_per_mtok",
    "cached_input_usd_per_mtok",
    "cache_write_usd_per_mtok",
)


def bench() -> Result:
    rows: list[Row] = []
    models = load_catalogue().models
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_world(directory, INSTANCES, SYSTEMS)
        for name in JUDGES:
            unmarked = replace(models[name], cache_marks=False)
            before = judge_world(directory, _table(unmarked), target_after_target=True)
            after = judge_world(directory, _table(models[name]))
            rows += _rows(name, before, after)
    title = f"cached tokens: {SYSTEMS} systems of {INSTANCES} answers judged, 20 nuggets each, virtual time"
    return Result(title, rows)


def _rows(name: str, before: Judged, after: Judged) -> list[Row]:
    return [
        Row(f"{name}, before: share of input cached", before.cached_share, digits=2),
        Row(f"{name}, after: share of input cached", after.cached_share, ">=", 0.5, 2),
        Row(f"{name}, cost after / before", after.usd / before.usd, "<=", 1.0, 3),
        Row(f"{name}, time after / before", after.took_s / before.took_s, "<=", 1.02, 3),
    ]


def _table(spec: ModelSpec) -> str:
    """The model's limits and prices as those of a model "mine", which needs no key."""
    lines = ["[models.mine]", 'base_url = "https://a.example/v1"', 'model = "m"', f'api = "{spec.api}"']
    for name in _FIELDS:
        value = getattr(spec, name)
        if value is not None:
            lines.append(f"{name} = {value}")
    if spec.cache_marks:
        lines.append("cache_marks = true")
    return "\n".join(lines) + "\n"
