"""Where the CPU of `cts judge` goes: us per candidate by room and library, sampled in one run of it."""

from __future__ import annotations

import json
import sys

from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import CTS, spent_by
from benchmarks.shared.result import Result, Row

N, IN_FLIGHT, LEAST_US = 30_000, 64, 1.0
TITLE = f"where: CPU of cts judge, {N:,} candidates, {IN_FLIGHT} in flight, one sampled run, us per candidate"


def bench() -> Result:
    return against_static_endpoint(TITLE, _sampled)


def _sampled(world: JudgeWorld, endpoint: Endpoint) -> Result:
    out = world.directory / "samples.json"
    arguments = world.command(endpoint.url, N, IN_FLIGHT)[len(CTS) :]
    spent_by([sys.executable, "-m", "benchmarks.shared.sampler", str(out), *arguments], cwd=world.directory)
    found = json.loads(out.read_bytes())
    total_us = found["cpu_s"] / N * 1e6
    samples = found["samples"]
    us = {place: n / sum(samples.values()) * total_us for place, n in samples.items()}
    rows = [
        Row(place, us[place], digits=1)
        for place in sorted(us, key=us.__getitem__, reverse=True)
        if us[place] >= LEAST_US
    ]
    rest = sum(value for value in us.values() if value < LEAST_US)
    of_it = Row("of it garbage collection", found["gc_s"] / N * 1e6, digits=1)
    return Result(TITLE, [Row("all", total_us, digits=1), of_it, *rows, Row("the rest", rest, digits=1)])
