"""`cts judge` with 1, 2, 4 and 8 workers at a fast endpoint without limits: calls a second, and CPU a judgement.

Start-up is taken out: the difference of two sizes. Meant for a machine with a core for each worker, for the head, Ray
and the endpoint; workers that would have less than a core are left out.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.shared.endpoint import Endpoint, NoNginx, static_endpoint
from benchmarks.shared.judging import JudgeWorld, judge_world
from benchmarks.shared.machine import Shares, watched
from benchmarks.shared.process import interleaved
from benchmarks.shared.result import Result, Row
from benchmarks.workers import NAMES

WORKERS = (1, 2, 4, 8)
OTHER_CORES, ENDPOINT_PROCESSES = 2, 4
"""Cores that head and endpoint need at least, and processes of the endpoint."""
SMALL, LARGE, IN_FLIGHT, ROUNDS = 20_000, 100_000, 1_024, 2
TITLE = (
    f"scale: {LARGE:,} candidates judged by 1 to 8 workers on {os.cpu_count()} cores, replies as providers send them, "
    f"{IN_FLIGHT:,} in flight, {ROUNDS} rounds"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What one more candidate takes."""

    wall_us: float
    cpu_us: dict[str, float]
    """By whose processes they are."""


def bench() -> Result:
    if importlib.util.find_spec("ray") is None:
        return Result(TITLE, skipped="needs Ray")
    numbers = [n for n in WORKERS if n == 1 or n + OTHER_CORES <= (os.cpu_count() or 1)]
    try:
        with tempfile.TemporaryDirectory() as folder, static_endpoint(ENDPOINT_PROCESSES) as endpoint:
            world = judge_world(Path(folder))
            runs = interleaved(ROUNDS, {f"{n}": partial(_judged, world, endpoint, n) for n in numbers})
    except NoNginx as reason:
        return Result(TITLE, skipped=str(reason))
    left_out = [f"{n} workers" for n in WORKERS if n not in numbers]
    remarks = [f"not measured, for want of cores: {', '.join(left_out)}"] if left_out else []
    return Result(TITLE, list(_rows({int(n): found for n, found in runs.items()})), remarks)


def _rows(runs: dict[int, list[Judged]]) -> Iterator[Row]:
    rates = {n: statistics.median(1e6 / run.wall_us for run in found) for n, found in runs.items()}
    for n, found in runs.items():
        by_round = [1e6 / run.wall_us for run in found]
        note = f"{min(by_round):,.0f} to {max(by_round):,.0f}"
        yield Row(f"{n} workers: calls/s", rates[n], note=note)
    if 1 in rates and 8 in rates:
        yield Row("8 workers / 1 worker", rates[8] / rates[1], ">=", 5.0, 2)
    for n, found in runs.items():
        for name in sorted(found[0].cpu_us):
            us = statistics.median(run.cpu_us[name] for run in found)
            is_goal = name == "head" and n == max(runs)
            yield Row(
                f"{n} workers: us CPU a judgement: {name}",
                us,
                "<=" if is_goal else "",
                25 if is_goal else None,
                1,
            )


def _judged(world: JudgeWorld, endpoint: Endpoint, workers: int) -> Judged:
    """One more candidate of so many workers: the difference of LARGE and SMALL."""
    seconds = {}
    for n in (SMALL, LARGE):
        shares = Shares(NAMES)
        words = ("--workers", str(workers))
        with watched(shares):
            spent = world.judge(endpoint.provider, n, IN_FLIGHT, words=words, limited=False)
        seconds[n] = {"wall": spent.wall_s, **shares.by_name()}
    us = {
        name: (large_s - seconds[SMALL].get(name, 0.0)) / (LARGE - SMALL) * 1e6
        for name, large_s in seconds[LARGE].items()
    }
    wall_us = us.pop("wall")
    return Judged(wall_us, us)
