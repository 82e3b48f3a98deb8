"""100,000 candidates judged again at a fast local endpoint: calls a second and CPU, all different and half repeated.

Half repeated are 100,000 answers of which 50,000 are different: a question is asked once, whoever has the answer.
"""

from __future__ import annotations

from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import Spent
from benchmarks.shared.result import Result, Row

N, DISTINCT, IN_FLIGHT = 100_000, 50_000, 64
TITLE = f"judging: {N:,} candidates judged, {IN_FLIGHT} in flight, one run each"


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    different, calls = _judged(world, endpoint, N)
    repeated, fewer = _judged(world, endpoint, DISTINCT)
    return Result(
        TITLE,
        [
            *_rows("all different", different, calls),
            *_rows("half repeated", repeated, fewer),
            Row("calls, half repeated / distinct answers", fewer / DISTINCT, "<=", 1.0, 3),
        ],
    )


def _judged(world: JudgeWorld, endpoint: Endpoint, distinct: int) -> tuple[Spent, int]:
    """One run, and how many calls reached the endpoint."""
    before = endpoint.counts().requests
    spent = world.judge(endpoint.url, N, IN_FLIGHT, distinct=distinct)
    return spent, endpoint.counts().requests - before - 1  # its own status page


def _rows(name: str, spent: Spent, calls: int) -> list[Row]:
    return [
        Row(f"{name}: s", spent.wall_s, digits=1),
        Row(f"{name}: calls", calls),
        Row(f"{name}: calls/s", calls / spent.wall_s),
        Row(f"{name}: candidates/s", N / spent.wall_s),
        Row(f"{name}: us CPU per candidate", spent.cpu_s / N * 1e6, digits=1),
    ]
