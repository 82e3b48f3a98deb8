"""Where the cost of `cts judge` on our own side goes, by room and library: CPU, sampled, and function calls, counted.

The us per candidate are of one run. The calls are those of one more candidate: the difference of two sizes, start-up
taken out. They hardly depend on the machine and what else it does, so they show what a change costs where times cannot.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import CTS, spent_by
from benchmarks.shared.result import Result, Row

N, IN_FLIGHT, LEAST_US = 30_000, 64, 1.0
SMALL, LARGE, LEAST_CALLS = 600, 1_400, 1.0
"""Candidates in the runs whose calls are counted: both more than the gold has instances, which are read once each."""
TITLE = f"where: CPU of cts judge, {N:,} candidates, {IN_FLIGHT} in flight, one sampled run, us per candidate"


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    rows = [*_sampled(world, endpoint), *_counted(world, endpoint)]
    return Result(TITLE, rows)


def _sampled(world: JudgeWorld, endpoint: Endpoint) -> Iterator[Row]:
    found = _observed("sampler", world, endpoint.url, N)
    total_us = found["cpu_s"] / N * 1e6
    samples = found["samples"]
    us = {place: n / sum(samples.values()) * total_us for place, n in samples.items()}
    yield Row("all", total_us, digits=1)
    yield Row("of it garbage collection", found["gc_s"] / N * 1e6, digits=1)
    yield from _largest_first(us, LEAST_US)


def _counted(world: JudgeWorld, endpoint: Endpoint) -> Iterator[Row]:
    """Calls a candidate whose reply looks as providers send them."""
    small, large = (_observed("call_counter", world, endpoint.provider, n) for n in (SMALL, LARGE))
    calls = {place: (large[place] - small.get(place, 0)) / (LARGE - SMALL) for place in large}
    yield Row("calls a candidate", sum(calls.values()), digits=1)
    for row in _largest_first(calls, LEAST_CALLS):
        yield Row(f"calls: {row.name}", row.value, digits=1)


def _observed(observer: str, world: JudgeWorld, url: str, n: int) -> dict[str, Any]:
    """What `shared/OBSERVER.py` writes about a fresh `cts judge` of `n` candidates."""
    shutil.rmtree(world.directory / "out", ignore_errors=True)
    written = world.directory / f"{observer}-{n}.json"
    arguments = world.command(url, n, IN_FLIGHT)[len(CTS) :]
    command = [sys.executable, "-m", f"benchmarks.shared.{observer}", str(written), *arguments]
    spent_by(command, cwd=world.directory)
    observed: dict[str, Any] = json.loads(written.read_bytes())
    return observed


def _largest_first(amounts: dict[str, float], least: float) -> Iterator[Row]:
    """A row for each place with at least so much, and one for the rest."""
    rest = 0.0
    for place in sorted(amounts, key=amounts.__getitem__, reverse=True):
        if amounts[place] >= least:
            yield Row(place, amounts[place], digits=1)
        else:
            rest += amounts[place]
    yield Row("the rest", rest, digits=1)
