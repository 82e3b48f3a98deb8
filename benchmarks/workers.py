"""`cts judge` and `cts run` with `--workers` at a fast endpoint: calls a second with one and with two, start-up out.

Judging twice. As the machine is, head and endpoint need cores, too: of two, two workers have less than one each. And
with all of it on one core for one worker, beside two workers on two. Last with a part of a core for each worker, so that
two leave head and endpoint what they need: what a second worker brings where there are cores for it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.shared.endpoint import NoNginx, static_endpoint
from benchmarks.shared.judging import JudgeWorld, judge_world
from benchmarks.shared.machine import Shares, confined_to, watched
from benchmarks.shared.process import Spent, interleaved
from benchmarks.shared.rations import NoRations, rationed
from benchmarks.shared.result import Result, Row

SMALL, LARGE, IN_FLIGHT, ROUNDS = 20_000, 80_000, 128, 3
RATION, ROUNDS_RATIONED = 0.4, 5
RATIONED = (f"1 worker with {RATION:g} of a core", f"2 workers with {RATION:g} of a core each")
FEW, MANY, CALLS_EACH = 2_000, 16_000, 7
"""Instances of `cts run` with three questions: a call for them, three answers, a rewrite, a search, a verdict."""
NAMES = {
    "ray::WorkerActor": "worker",
    "ray::": "other of Ray",
    "raylet": "other of Ray",
    "gcs_server": "other of Ray",
    "cts_async.cli.main judge": "head",
    "nginx": "endpoint",
}
TITLE = (
    f"workers: {LARGE:,} candidates judged by one and by two workers, {IN_FLIGHT} in flight, {ROUNDS} rounds"
)


def bench() -> Result:
    try:
        return _measured()
    except NoNginx as reason:
        return Result(TITLE, skipped=str(reason))


def _measured() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        world = judge_world(Path(folder))
        work = {
            "1 worker": lambda: _rate(world, 1, {0, 1}),
            "2 workers": lambda: _rate(world, 2, {0, 1}),
            "1 worker on 1 core": lambda: _rate(world, 1, {0}),
            "no workers": lambda: _rate(world, 0, {0, 1}),
            "cts run, 1 worker": lambda: _run_rate(world, 1),
            "cts run, 2 workers": lambda: _run_rate(world, 2),
            "2 workers, limits on": lambda: _rate(world, 2, {0, 1}, limited=True),
        }
        rates = interleaved(ROUNDS, work)
        rationed_rates, no_rations = _with_rations(world)
        shares = _shares(world)
        differ = _different_lines(world)
    median = {name: statistics.median(found) for name, found in rates.items()}
    return Result(
        TITLE,
        [
            *(Row(f"{name}: calls/s", median[name], note=_range(rates[name])) for name in work),
            Row("2 workers / 1 worker", median["2 workers"] / median["1 worker"], ">=", 1.8, 2),
            Row(
                "cts run: 2 workers / 1 worker",
                median["cts run, 2 workers"] / median["cts run, 1 worker"],
                ">=",
                1.8,
                2,
            ),
            Row(
                "2 workers on 2 cores / 1 worker on 1 core",
                median["2 workers"] / median["1 worker on 1 core"],
                ">=",
                1.8,
                2,
                "head and endpoint on the workers' cores",
            ),
            *_rationed_rows(rationed_rates),
            *(Row(f"us CPU a call: {name}", us, digits=1) for name, us in shares.items()),
            Row("lines of results that differ from a local run's", differ, "=", 0),
        ],
        [f"without rows for workers with a part of a core: {no_rations}"] if no_rations else [],
    )


def _with_rations(world: JudgeWorld) -> tuple[dict[str, list[float]], str]:
    """Calls a second of one worker and of two, each with RATION of a core, in rounds; or why there are none."""
    work = {name: partial(_rationed_rate, world, workers) for workers, name in enumerate(RATIONED, 1)}
    try:
        return interleaved(ROUNDS_RATIONED, work), ""
    except NoRations as reason:
        return {}, str(reason)


def _rationed_rate(world: JudgeWorld, workers: int) -> float:
    with rationed("ray::WorkerActor", RATION):
        return _rate(world, workers, {0, 1})


def _rationed_rows(rates: Mapping[str, list[float]]) -> Iterator[Row]:
    if not rates:
        return
    one, two = (rates[name] for name in RATIONED)
    for name, found in rates.items():
        yield Row(f"{name}: calls/s", statistics.median(found), note=_range(found))
    by_rounds = [more / less for less, more in zip(one, two, strict=True)]
    note = f"{min(by_rounds):.2f} to {max(by_rounds):.2f} by rounds"
    ratio = statistics.median(two) / statistics.median(one)
    yield Row(f"2 workers / 1 worker, {RATION:g} of a core each", ratio, ">=", 1.8, 2, note)


def _rate(world: JudgeWorld, workers: int, cores: set[int], *, limited: bool = False) -> float:
    """Calls a second between SMALL and LARGE candidates; each has its own start-up, which so drops out."""
    with confined_to(cores), static_endpoint(processes=len(cores)) as endpoint:
        small = _judged(world, endpoint.url, SMALL, workers, limited=limited)
        large = _judged(world, endpoint.url, LARGE, workers, limited=limited)
    return (LARGE - SMALL) / (large.wall_s - small.wall_s)


def _run_rate(world: JudgeWorld, workers: int) -> float:
    words = ("--workers", str(workers))
    with static_endpoint(processes=2) as endpoint:
        few, many = (world.run(endpoint, n, IN_FLIGHT, words=words) for n in (FEW, MANY))
    return CALLS_EACH * (MANY - FEW) / (many.wall_s - few.wall_s)


def _judged(world: JudgeWorld, url: str, n: int, workers: int, *, limited: bool = False) -> Spent:
    words = ("--workers", str(workers)) if workers else ()
    return world.judge(url, n, IN_FLIGHT, words=words, limited=limited)


def _shares(world: JudgeWorld) -> Mapping[str, float]:
    """Microseconds of CPU a call, by who takes them, of runs with two workers; start-up drops out here, too."""
    small, large = (_cpu_s(world, n) for n in (SMALL, LARGE))
    return {name: (large[name] - small.get(name, 0.0)) / (LARGE - SMALL) * 1e6 for name in sorted(large)}


def _cpu_s(world: JudgeWorld, n: int) -> Mapping[str, float]:
    shares = Shares(NAMES)
    with static_endpoint(processes=2) as endpoint, watched(shares):
        _judged(world, endpoint.url, n, 2)
    return shares.by_name()


def _different_lines(world: JudgeWorld) -> int:
    """How many lines one of two runs has and the other has not, sorted as bytes."""
    with static_endpoint() as endpoint:
        found = []
        for workers in (0, 2):
            _judged(world, endpoint.url, SMALL, workers)
            found.append(set((world.directory / "out" / "per_item.jsonl").read_bytes().splitlines()))
    return len(found[0] ^ found[1])


def _range(rates: list[float]) -> str:
    return f"{min(rates):,.0f} to {max(rates):,.0f}"
