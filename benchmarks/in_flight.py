"""CPU for one more judged candidate at 512 in flight beside 1: the engine must not slow down with width."""

from __future__ import annotations

from functools import partial

from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import interleaved, marginal_us
from benchmarks.shared.result import Result, Row

LARGE, SMALL, WIDTHS, ROUNDS = 12_000, 2_000, (1, 64, 512), 3
TITLE = f"in_flight: one more of {LARGE:,} candidates judged, median of {ROUNDS} interleaved rounds"


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    sizes = [(width, n) for width in WIDTHS for n in (LARGE, SMALL)]
    runs = interleaved(
        ROUNDS, {f"{width} {n}": partial(world.judge, endpoint.url, n, width) for width, n in sizes}
    )
    more = {
        width: marginal_us(runs[f"{width} {LARGE}"], LARGE, runs[f"{width} {SMALL}"], SMALL)
        for width in WIDTHS
    }
    rows = [Row(f"us per call at {width} in flight", us, digits=1) for width, us in more.items()]
    return Result(TITLE, [*rows, Row("at 512 / at 1", more[512] / more[1], "<=", 1.25, 2)])
