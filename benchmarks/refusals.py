"""Servers that refuse some: at random, beyond what they can do at once, or everything for a while.

The real engine in virtual time (`simulated.py`), beside the same calls at a server that refuses nobody; then `cts judge`
at a real server on the loopback. Latency is log-normal with a median of 0.1 s, at most 64 calls are under way.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from fake_limits import Allowance
from simulated import SIGMA, Call, UnsteadyServer, latencies, run_engine, single_calls

from benchmarks.shared.fakes import provider_process
from benchmarks.shared.judging import JudgeWorld, judge_world
from benchmarks.shared.process import CTS, spent_by
from benchmarks.shared.result import Result, Row
from cts_async.engine.lane import Lane, LaneLimits

CALLS, MEDIAN_S, IN_FLIGHT, SEEDS = 6000, 0.1, 200, (1, 2, 3)
TRIP_S = 0.002
SHARES = ((0.01, 1.15), (0.03, 1.5))
FORMS = ((429, None), (429, 1.0), (503, None), (503, 1.0), (529, None), (529, 1.0))
"""Status and Retry-After."""
PLACES, STORM_S = 32, 10.0
LANES = {
    "nothing known": LaneLimits(),
    "limits known": LaneLimits(requests_per_min=600_000, kind="bucket"),
}
N_REAL = 1500


def bench() -> Result:
    rows = [*at_random(), *overload(), *storm(), *on_loopback()]
    return Result(f"refusals: {CALLS:,} calls of {MEDIAN_S:g} s, virtual time, medians of {len(SEEDS)}", rows)


def _played(seed: int, limits: LaneLimits, **server: Any) -> tuple[float, UnsteadyServer, Lane]:
    calls = [Call(latency) for latency in latencies(CALLS, seed, MEDIAN_S)]
    unsteady = UnsteadyServer(Allowance(headers="none"), seed, TRIP_S, **server)
    makespan_s, lane = run_engine(unsteady, limits, CALLS, single_calls(calls), IN_FLIGHT)
    if unsteady.served != CALLS:
        raise RuntimeError(f"{CALLS - unsteady.served} calls were given up")
    return makespan_s, unsteady, lane


def at_random() -> list[Row]:
    rows = []
    for name, limits in LANES.items():
        without = [_played(seed, limits)[0] for seed in SEEDS]
        rows.append(Row(f"{name}: s without refusals", median(without), digits=1))
        for share, most in SHARES:
            for status, asks_s in FORMS:
                found = [
                    _played(seed, limits, share=share, status=status, asks_s=asks_s)[0] / best
                    for seed, best in zip(SEEDS, without, strict=True)
                ]
                form = f"{status}, {'no Retry-After' if asks_s is None else f'Retry-After: {asks_s:g}'}"
                note = f"{min(found):.2f} to {max(found):.2f}"
                rows.append(Row(f"{name}: {share:.0%} {form}", median(found), "<=", most, 2, note))
    return rows


def overload() -> list[Row]:
    """Use of what the server can do, and what it refuses, from 4 s on."""
    rows = []
    best = PLACES / (MEDIAN_S * math.exp(SIGMA**2 / 2))
    servers: dict[str, dict[str, Any]] = {
        f"{PLACES} at once, others 429": {"capacity": PLACES},
        f"{PLACES} at once, others 503": {"capacity": PLACES, "status": 503},
        f"{PLACES} at once, others 503 after a while": {"capacity": PLACES, "status": 503, "late": True},
        f"slower above {PLACES}": {"slow_above": PLACES},
    }
    for name, limits in LANES.items():
        for what, server in servers.items():
            used, refused = [], []
            for seed in SEEDS:
                makespan_s, unsteady, _ = _played(seed, limits, **server)
                answers_per_s, share = unsteady.used(4.0, makespan_s - 2.0)
                used.append(answers_per_s / best)
                refused.append(share)
            rows.append(Row(f"{name}: {what}: used", median(used), ">=", 0.9, 3))
            rows.append(Row("  share refused", max(refused), "<=", 0.02, 3))
    return rows


def storm() -> list[Row]:
    """Everything is answered 429 for a while."""
    rows = []
    for name, limits in LANES.items():
        for asks_s in (None, 0.0, 1.0):
            late, refused = [], []
            for seed in SEEDS:
                without = _played(seed, limits)[0]
                makespan_s, unsteady, _ = _played(seed, limits, storms=[(2.0, 2.0 + STORM_S)], asks_s=asks_s)
                late.append(makespan_s - without - STORM_S)
                refused.append(unsteady.refused)
            form = "no Retry-After" if asks_s is None else f"Retry-After: {asks_s:g}"
            note = f"{max(refused)} refused"
            rows.append(Row(f"{name}: {STORM_S:g} s of 429, {form}: s beyond", max(late), "<=", 3.0, 1, note))
    return rows


def on_loopback() -> list[Row]:
    """`cts judge` of 1,500 candidates; a server in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        world = judge_world(Path(folder))
        without_s = _judged_s(world, {})
        rows = [Row(f"loopback: s for {N_REAL:,} without refusals", without_s, digits=1)]
        for share, most in SHARES:
            for fault in ("429", "503", "529"):
                took_s = _judged_s(world, {fault: share}, retry_after="none")
                rows.append(Row(f"loopback: {share:.0%} {fault}", took_s / without_s, "<=", most, 2))
        return rows


def _judged_s(world: JudgeWorld, faults: dict[str, float], **settings: Any) -> float:
    """Seconds from the first request to the last."""
    with provider_process(faults=faults, latency_s=MEDIAN_S, latency_sigma=SIGMA, **settings) as provider:
        (world.directory / "cts.toml").write_text(
            f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\nmax_concurrency = 64\n'
        )
        with tempfile.TemporaryDirectory(dir=world.directory) as out:
            files = [
                "--gold",
                "gold.jsonl",
                "--candidates",
                world.candidates(N_REAL).name,
                "--out",
                f"{out}/j",
            ]
            spent_by([*CTS, "judge", *files, "--judge", "fake", "-q", "--json"], cwd=world.directory)
        times = [seen.at for seen in provider.seen()]
    return max(times) - min(times)
