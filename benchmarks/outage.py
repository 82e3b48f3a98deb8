"""A provider that is away for a minute in the middle of a real run, in three ways, beside one that is not.

The four runs go side by side, each with a provider of its own that enforces the rate they are paced to.
A makespan is the time from a provider's first request to its last.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared.fakes import RealRun, Remote, provider_process
from benchmarks.shared.result import Result, Row
from benchmarks.shared.sample_world import write_world

N, K, PER_MIN = 60, 3, 240
CALLS = N * (1 + K + 1 + 2 + 1)
FROM_S, OUTAGE_S, GRACE_S, END_S = 60.0, 60.0, 5.0, 500.0
TIMEOUT_S = 10.0
KINDS = ("refuse", "503", "hang")
TITLE = f"outage: {CALLS} calls at {PER_MIN}/min, the provider away from {FROM_S:.0f} s for {OUTAGE_S:.0f} s"


@dataclass(frozen=True, slots=True)
class _Side:
    """One run and its provider."""

    provider: Remote
    run: RealRun
    process: subprocess.Popen[str]


def bench() -> Result:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = write_world(folder / "world", N)
        sides = {kind: _started(stack, folder, world, kind) for kind in ("none", *KINDS)}
        for side in sides.values():
            side.process.communicate(timeout=END_S)
        return _reckoned(sides)


def _started(stack: ExitStack, folder: Path, world: Path, kind: str) -> _Side:
    settings: dict[str, Any] = {
        "latency_s": 0.8,
        "latency_sigma": 0.6,
        "allowance": {"requests_per_min": PER_MIN},
        "hang_s": 10 * TIMEOUT_S,
        "outages": [] if kind == "none" else [(FROM_S, FROM_S + OUTAGE_S, kind)],
    }
    provider = stack.enter_context(provider_process(**settings))
    here = folder / kind
    here.mkdir()
    words = ("--all", "fake", "-k", str(K), "--no-orig", "--limit", str(N), "--data", f"sample:{world}")
    run = RealRun(here, (*words, "--name", "r", "-q"))
    run.configure(provider.url, requests_per_min=PER_MIN, max_concurrency=32, timeout_s=TIMEOUT_S)
    return _Side(provider, run, run.start())


def _reckoned(sides: dict[str, _Side]) -> Result:
    best_s = _makespan_s(sides["none"].provider)
    rows = [
        Row("calls / rate, s", CALLS / PER_MIN * 60, digits=1),
        Row("makespan without an outage, s", best_s, digits=1),
        Row("answers 429 without an outage", sides["none"].provider.stats()["refused"], "=", 0),
    ]
    for kind in KINDS:
        over_s = _makespan_s(sides[kind].provider) - best_s - OUTAGE_S
        results = sides[kind].run.results()
        rows += [
            Row(f"{kind}: makespan - best - outage, s", over_s, "<=", GRACE_S, 1),
            Row(f"{kind}: instances not scored", N - sum("error" not in line for line in results), "=", 0),
            Row(f"{kind}: requests into the outage", _into_outage(sides[kind].provider)),
            Row(f"{kind}: answers 429", sides[kind].provider.stats()["refused"], "=", 0),
            Row(f"{kind}: exit code", sides[kind].process.returncode, "=", 0),
        ]
    return Result(TITLE, rows)


def _makespan_s(provider: Remote) -> float:
    times = [request.at for request in provider.seen()]
    return max(times) - min(times)


def _into_outage(provider: Remote) -> int:
    return sum(request.fault.startswith("outage") for request in provider.seen())
