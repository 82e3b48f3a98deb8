"""Use of the rate: makespan / the best possible, and refusals. The real engine, in virtual time (`simulated.py`).

2,000 calls at 1,200 a minute, latency log-normal (median 0.8 s, sigma 0.6), 200 in flight, as in the
comparison of limiters that the goals come from; then tokens as the binding limit, a pipeline of three
stages, and an outage.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from fake_limits import Allowance
from simulated import (
    TRIP_S,
    Call,
    Server,
    allowed_at,
    latencies,
    meters_of,
    oracle,
    run_engine,
    single_calls,
    staged_calls,
    take_at,
)

from benchmarks.shared.result import Result, Row
from cts_async.engine.lane import LaneLimits

CALLS, PER_MIN, IN_FLIGHT, SEEDS = 2000, 1200.0, 200, (1, 2, 3)
LOOPBACK_S = 0.0005


@dataclass(frozen=True, slots=True)
class Told:
    """One server, what we are told about it, and the goals: makespan / best possible, answers 429."""

    name: str
    allowance: Allowance
    limits: LaneLimits
    ratio: float | None = None
    refused: int | None = None
    trip_s: float = TRIP_S


def lane(**fields: Any) -> LaneLimits:
    return LaneLimits(max_concurrency=IN_FLIGHT, **fields)


SLIDING = Allowance(requests_per_min=PER_MIN, headers="none")
BUCKET = replace(SLIDING, kind="bucket")
SLICED = replace(SLIDING, kind="per_second")

SERVERS = [
    Told("sliding 60 s, configured", SLIDING, lane(requests_per_min=PER_MIN, kind="sliding"), 1.03, 0),
    Told(
        "sliding 10 s, configured",
        replace(SLIDING, window_s=10.0),
        lane(requests_per_min=PER_MIN, kind="sliding", window_s=10.0),
        1.05,
        2,
    ),
    Told("bucket, configured", BUCKET, lane(requests_per_min=PER_MIN, kind="bucket"), 1.05),
    Told("bucket, kind unknown", BUCKET, lane(requests_per_min=PER_MIN, kind="auto"), 1.10, 5),
    Told("sliding 60 s, kind unknown", SLIDING, lane(requests_per_min=PER_MIN, kind="auto")),
    Told("per second, kind unknown", SLICED, lane(requests_per_min=PER_MIN, kind="auto")),
    Told("per second, paced", SLICED, lane(requests_per_min=PER_MIN)),
    Told("per second, paced, on loopback", SLICED, lane(requests_per_min=PER_MIN), 1.03, 0, LOOPBACK_S),
    Told("bucket, only headers and 429s", replace(BUCKET, headers="openai"), lane(), 1.15, 19),
    Told("sliding 60 s, only headers and 429s", replace(SLIDING, headers="openai"), lane(), 1.15, 19),
    Told("per second, only headers and 429s", replace(SLICED, headers="openai"), lane()),
    Told("bucket, only 429s", BUCKET, lane()),
    Told("sliding 60 s, only 429s", SLIDING, lane()),
    Told("per second, only 429s", SLICED, lane()),
]


class Found:
    """What the seeds of one case came to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.best: list[float] = []
        self.ours: list[float] = []
        self.refused: list[int] = []

    def add(self, best: float, ours: float, refused: int) -> None:
        self.best.append(best)
        self.ours.append(ours)
        self.refused.append(refused)

    def rows(self, ratio: float | None = None, refused: int | None = None) -> list[Row]:
        """Median of makespan / best possible, and the most answers 429 of any seed."""
        found = median(ours / best for ours, best in zip(self.ours, self.best, strict=True))
        note = f"{median(self.ours):.1f} s, best possible {median(self.best):.1f} s"
        return [
            Row(f"{self.name}: makespan / best", found, "<=" if ratio else "", ratio, 3, note),
            Row("  answers 429", max(self.refused), "" if refused is None else "<=", refused),
        ]


def bench() -> Result:
    rows = [*requests(), *tokens(), *pipeline(), *outage()]
    return Result(
        f"rates: {CALLS:,} calls at {PER_MIN:g}/min, virtual time, medians of {len(SEEDS)} seeds", rows
    )


def requests() -> list[Row]:
    rows = []
    for told in SERVERS:
        found = Found(told.name)
        for seed in SEEDS:
            calls = [Call(latency) for latency in latencies(CALLS, seed)]
            server = Server(told.allowance, seed, told.trip_s)
            makespan, _ = run_engine(server, told.limits, CALLS, single_calls(calls), IN_FLIGHT)
            found.add(oracle(told.allowance, calls, IN_FLIGHT), makespan, server.refused)
        rows += found.rows(told.ratio, told.refused)
    return rows


TOKEN_CALLS, TOKENS_PER_MIN = 1000, 1_000_000.0


def tokens() -> list[Row]:
    """Prompts of 200 to 20,000 tokens, log-uniform; what we expect of each is off by up to 15 %."""
    rows = []
    for kind in ("sliding", "bucket"):
        allowance = Allowance(tokens_per_min=TOKENS_PER_MIN, kind=kind, headers="none")
        found, unfair = Found(f"tokens/min, {kind}"), []
        for seed in SEEDS:
            rng = random.Random(f"tokens/{seed}")
            sizes = [float(int(200 * 100 ** rng.random())) for _ in range(TOKEN_CALLS)]
            calls = [Call(t, size) for t, size in zip(latencies(TOKEN_CALLS, seed), sizes, strict=True)]
            off = {call: call.tokens * rng.uniform(0.85, 1.15) for call in calls}
            waits: dict[int, list[float]] = {}
            server = Server(allowance, seed)
            walk = single_calls(calls, off.__getitem__, waits)
            limits = lane(tokens_per_min=TOKENS_PER_MIN, kind=kind)
            makespan, _ = run_engine(server, limits, TOKEN_CALLS, walk, IN_FLIGHT)
            found.add(oracle(allowance, calls, IN_FLIGHT), makespan, server.refused)
            unfair.append(max(max(w) / median(w) for w in waits.values()))
        rows += found.rows(1.05, 0)
        rows.append(Row("  longest wait / median of its size class", max(unfair), "<=", 3.0, 2))
    return rows


JOBS, K = 500, 3


def pipeline() -> list[Row]:
    """Clarify, k answers side by side, rewrite: 2,500 calls on one account."""
    found = Found(f"three stages, {JOBS} instances, k = {K}")
    for seed in SEEDS:
        draws = iter(latencies(JOBS * (K + 2), seed))
        jobs = [[[Call(next(draws)) for _ in range(n)] for n in (1, K, 1)] for _ in range(JOBS)]
        server = Server(SLIDING, seed)
        limits = lane(requests_per_min=PER_MIN, kind="sliding")
        makespan, _ = run_engine(server, limits, JOBS, staged_calls(jobs), IN_FLIGHT)
        found.add(oracle_stages(SLIDING, jobs, IN_FLIGHT), makespan, server.refused)
    return found.rows(1.05)


N_OUTAGE, OUTAGE_S = 3600, 60.0
BEGINS_S = (55.0, 58.5, 60.0, 61.3, 70.0)
"""What an outage costs depends on where its beginning and its end fall between requests and probes."""


def outage() -> list[Row]:
    """Three minutes of an even flow, and every connection refused for a minute in the middle."""
    late = [_late_s(begins_s, seed) for begins_s in BEGINS_S for seed in SEEDS]
    name = "60 s of outage in 3 minutes: s beyond best + outage"
    note = f"median of {len(late)}, {min(late):.1f} to {max(late):.1f}"
    return [Row(name, statistics.median(late), "<=", 5.0, 1, note)]


def _late_s(begins_s: float, seed: int) -> float:
    even = replace(BUCKET, window_s=1.0)
    calls = [Call(latency) for latency in latencies(N_OUTAGE, seed)]
    server = Server(Allowance(headers="none"), seed, down=[(begins_s, begins_s + OUTAGE_S)])
    makespan, _ = run_engine(server, lane(requests_per_min=PER_MIN), N_OUTAGE, single_calls(calls), IN_FLIGHT)
    if server.served != N_OUTAGE:
        raise RuntimeError(f"{N_OUTAGE - server.served} calls were given up")
    return makespan - oracle(even, calls, IN_FLIGHT) - OUTAGE_S


def oracle_stages(allowance: Allowance, jobs: Sequence[Sequence[Sequence[Call]]], in_flight: int) -> float:
    """The shortest makespan for jobs of stages: the calls of a stage go side by side, the oldest job first."""
    meters = meters_of(allowance)
    ready: list[tuple[int, int, int]] = []  # (job, stage, call)
    ends: list[tuple[float, int, int]] = []
    left = {(j, s): len(stage) for j, stages in enumerate(jobs) for s, stage in enumerate(stages)}
    waiting: Iterator[int] = iter(range(len(jobs)))

    def start(job: int, stage: int) -> None:
        for c in range(len(jobs[job][stage])):
            heapq.heappush(ready, (job, stage, c))

    for job in (j for _, j in zip(range(in_flight), waiting)):  # noqa: B905
        start(job, 0)
    now = last = 0.0
    while ready or ends:
        while ends and (not ready or ends[0][0] <= now):
            end, job, stage = heapq.heappop(ends)
            now = max(now, end)
            left[job, stage] -= 1
            if left[job, stage] == 0:
                if stage + 1 < len(jobs[job]):
                    start(job, stage + 1)
                elif (fresh := next(waiting, None)) is not None:
                    start(fresh, 0)
        if not ready:
            continue
        job, stage, c = ready[0]
        call = jobs[job][stage][c]
        at = allowed_at(meters, now, call)
        if ends and ends[0][0] < at:
            now = ends[0][0]
            continue
        heapq.heappop(ready)
        now = take_at(meters, now, call)
        heapq.heappush(ends, (now + call.latency_s, job, stage))
        last = max(last, now + call.latency_s)
    return last
