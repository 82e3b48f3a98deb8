"""CPU per judged candidate in `cts judge`, beside a bare aiohttp client that posts the same bodies.

Whole processes, start-up included, and the cost of one more candidate: the difference of two sizes. What the lexical
judge takes, which `cts judge` runs beside a model unless told not to, is measured apart: it makes no calls.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import ROOT, Spent, interleaved, marginal_us, median_cpu_s, spent_by
from benchmarks.shared.result import Result, Row

LARGE, SMALL, IN_FLIGHT, ROUNDS = 30_000, 6_000, 64, 3
TITLE = f"cpu: {LARGE:,} candidates judged, {IN_FLIGHT} in flight, median of {ROUNDS} interleaved rounds"
"""Every run has connections of its own, and keeps them: nginx's own counts are below the table."""


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    bodies = world.bodies(LARGE)
    work = {
        "cts": partial(world.judge, endpoint.url, LARGE, IN_FLIGHT),
        "bare": partial(bare, endpoint.url, bodies, LARGE),
        "lexical": partial(world.judge, endpoint.url, LARGE, IN_FLIGHT, lexical=True),
        "cts small": partial(world.judge, endpoint.url, SMALL, IN_FLIGHT),
        "bare small": partial(bare, endpoint.url, bodies, SMALL),
    }
    before = endpoint.counts()
    runs = interleaved(ROUNDS, work)
    after = endpoint.counts()
    whole = {name: median_cpu_s(runs[name]) / LARGE * 1e6 for name in ("cts", "bare", "lexical")}
    more = {name: marginal_us(runs[name], LARGE, runs[f"{name} small"], SMALL) for name in ("cts", "bare")}
    calls = after.requests - before.requests
    return Result(
        TITLE,
        [
            Row("cts judge, us per candidate, whole process", whole["cts"], digits=1),
            Row("bare client, us per call, whole process", whole["bare"], digits=1),
            Row("cts judge / bare, whole process", whole["cts"] / whole["bare"], "<=", 1.5, 2),
            Row("cts judge, us for one more candidate", more["cts"], digits=1),
            Row("bare client, us for one more call", more["bare"], digits=1),
            Row("cts judge / bare, one more", more["cts"] / more["bare"], "<=", 1.5, 2),
            Row("the lexical judge beside, us per candidate", whole["lexical"] - whole["cts"], digits=1),
            Row("bytes of a request", bodies.stat().st_size / LARGE),
        ],
        [f"nginx saw {calls:,} requests on {after.connections - before.connections:,} connections"],
    )


def bare(url: str, bodies: Path, n: int, in_flight: int = IN_FLIGHT) -> Spent:
    """The yardstick, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bare", url, str(bodies), str(n), str(in_flight)]
    spent = spent_by(command, cwd=ROOT)
    if int(spent.printed) != n:
        raise RuntimeError(f"the bare client read {spent.printed.strip()} of {n} verdicts")
    return spent
