"""Four workers at one strict provider: does the whole cluster keep its limit, and use it?

The provider counts every request when it arrives, refused ones among them, in a process of its own.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

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
    slices = [("60 s", 60.0)] if kind.counts == "sliding" else [("60 s", 60.0), ("second", 1.0)]
    return [
        Row(f"{kind.name}: s for {n:,} requests", arrivals[-1] - arrivals[0], digits=1),
        Row(f"{kind.name}: limit / used", wait_s(arrivals, PER_MIN) / 60.0, "<=", 1.01, 3),
        *(
            Row(f"{kind.name}: fullest {name} / limit", most / (PER_MIN * s / 60.0), "<=", 1.01, 3)
            for name, s in slices
            for most in [fullest(arrivals, s)]
        ),
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


def wait_s(arrivals: list[float], n: int) -> float:
    """How long after a request the n-th after it arrives, on average: a whole window where a limit of n is used up."""
    return fmean(later - earlier for earlier, later in zip(arrivals, arrivals[n:], strict=False))


def fullest(arrivals: list[float], window_s: float) -> int:
    """The most requests that arrived within any `window_s`."""
    most, first = 0, 0
    for last, at in enumerate(arrivals):
        while arrivals[first] <= at - window_s:
            first += 1
        most = max(most, last - first + 1)
    assert all(earlier <= later for earlier, later in pairwise(arrivals))
    return most
