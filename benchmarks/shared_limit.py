"""Four workers at one strict provider: does the whole cluster keep its limit, and use it?

The provider counts every request when it arrives, refused ones among them, in a process of its own.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.shared.fakes import Remote, provider_process
from benchmarks.shared.judging import JudgeWorld, judge_world
from benchmarks.shared.process import CTS, spent_by
from benchmarks.shared.result import Result, Row

WORKERS, PER_MIN, MINUTES = 4, 1200, 3
TITLE = f"shared_limit: {WORKERS} workers, {PER_MIN:,} requests a minute, for {MINUTES} minutes each"


@dataclass(frozen=True, slots=True)
class _Kind:
    """How the provider counts, and how the client was told."""

    name: str
    counts: str
    told: str


KINDS = (_Kind("a window that slides", "sliding", "sliding"), _Kind("an even flow", "per_second", "paced"))


def bench() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        world = judge_world(Path(folder))
        return Result(TITLE, [row for kind in KINDS for row in _rows(kind, world)])


def _rows(kind: _Kind, world: JudgeWorld) -> list[Row]:
    n = PER_MIN * MINUTES
    allowance = {"requests_per_min": PER_MIN, "kind": kind.counts, "headers": "none"}
    with provider_process(allowance=allowance, latency_s=0.3, latency_sigma=0.5) as provider:
        _judged(world, provider, kind, n)
        arrivals = sorted(seen.at for seen in provider.seen())
        refused = sum(seen.fault.startswith("limit") for seen in provider.seen())
    took_s = arrivals[-1] - arrivals[0]
    # The last of n arrives at the earliest when all before it have made room: a whole window in steps, or evenly.
    best_s = (MINUTES - 1) * 60.0 if kind.counts == "sliding" else (n - 1) * 60.0 / PER_MIN
    window_s, limit = (60.0, PER_MIN) if kind.counts == "sliding" else (1.0, PER_MIN / 60)
    return [
        Row(f"{kind.name}: s for {n:,} requests", took_s, digits=1),
        Row(f"{kind.name}: time / the least possible", took_s / best_s, "<=", 1.01, 3),
        Row(f"{kind.name}: fullest window / limit", fullest(arrivals, window_s) / limit, "<=", 1.01, 3),
        Row(f"{kind.name}: refused", refused, "<=", math.ceil(0.01 * n)),
    ]


def _judged(world: JudgeWorld, provider: Remote, kind: _Kind, n: int) -> None:
    (world.directory / "cts.toml").write_text(
        f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\nmax_concurrency = 256\n'
        f'requests_per_min = {PER_MIN}\nlimit = "{kind.told}"\n'
    )
    files = ["--gold", "gold.jsonl", "--candidates", world.candidates(n).name, "--out", kind.counts]
    words = ["--judge", "fake", "--workers", str(WORKERS), "-q", "--json"]
    spent_by([*CTS, "judge", *files, *words], cwd=world.directory)


def fullest(arrivals: list[float], window_s: float) -> int:
    """The most requests that arrived within any `window_s`."""
    most, first = 0, 0
    for last, at in enumerate(arrivals):
        while arrivals[first] <= at - window_s:
            first += 1
        most = max(most, last - first + 1)
    assert all(earlier <= later for earlier, later in pairwise(arrivals))
    return most
