"""Use of the rate: makespan / the best possible, and refusals. The real engine, in virtual time (`simulated.py`).

2,000 calls at 1,200 a minute, latency log-normal (median 0.8 s, sigma 0.6), 200 in flight, as in the
comparison of limiters that the goals come from; then tokens as the binding limit, a pipeline of three
stages, and an outage.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fake_limits import Allowance

from benchmarks.simulated import (
    Call,
    Server,
    latencies,
    oracle,
    oracle_stages,
    run_engine,
    single_calls,
)
from cts_async.engine.lane import LaneLimits
from cts_async.engine.runner import Context

CALLS, PER_MIN, IN_FLIGHT, SEEDS = 2000, 1200.0, 200, (1, 2, 3)
LOOPBACK_S = 0.0005


@dataclass(frozen=True)
class Row:
    """One server, and what we are told about it."""

    name: str
    goal: str
    allowance: Allowance
    limits: LaneLimits
    trip_s: float = 0.03


def lane(**fields: Any) -> LaneLimits:
    return LaneLimits(max_concurrency=IN_FLIGHT, **fields)


SLIDING = Allowance(requests_per_min=PER_MIN, headers="none")
SLIDING_10 = replace(SLIDING, window_s=10.0)
BUCKET = replace(SLIDING, kind="bucket")
SLICED = replace(SLIDING, kind="per_second")
SPOKEN = {"headers": "openai"}

ROWS = [
    Row("sliding 60 s, configured", "<= 1.03, 0", SLIDING, lane(requests_per_min=PER_MIN, kind="sliding")),
    Row(
        "sliding 10 s, configured",
        "<= 1.05, <= 2",
        SLIDING_10,
        lane(requests_per_min=PER_MIN, kind="sliding", window_s=10.0),
    ),
    Row("bucket, configured", "<= 1.05", BUCKET, lane(requests_per_min=PER_MIN, kind="bucket")),
    Row("bucket, kind unknown", "<= 1.10, <= 5", BUCKET, lane(requests_per_min=PER_MIN, kind="auto")),
    Row("sliding 60 s, kind unknown", "", SLIDING, lane(requests_per_min=PER_MIN, kind="auto")),
    Row("per second, kind unknown", "", SLICED, lane(requests_per_min=PER_MIN, kind="auto")),
    Row("per second, paced", "", SLICED, lane(requests_per_min=PER_MIN)),
    Row("per second, paced, loopback", "<= 1.03, 0", SLICED, lane(requests_per_min=PER_MIN), LOOPBACK_S),
    Row("bucket, only headers and 429s", "<= 1.15, < 20", replace(BUCKET, **SPOKEN), lane()),
    Row("sliding 60 s, only headers and 429s", "<= 1.15, < 20", replace(SLIDING, **SPOKEN), lane()),
    Row("per second, only headers and 429s", "", replace(SLICED, **SPOKEN), lane()),
    Row("bucket, only 429s", "", BUCKET, lane()),
    Row("sliding 60 s, only 429s", "", SLIDING, lane()),
    Row("per second, only 429s", "", SLICED, lane()),
]


def report(
    name: str, best: Sequence[float], ours: Sequence[float], refused: Sequence[int], goal: str
) -> None:
    ratio = statistics.median(o / b for o, b in zip(ours, best, strict=True))
    print(
        f"  {name:38s} {statistics.median(best):8.1f} {statistics.median(ours):8.1f} {ratio:6.3f} "
        f"{max(refused):5d}  {goal}"
    )


def requests() -> None:
    for row in ROWS:
        best, ours, refused = [], [], []
        for seed in SEEDS:
            calls = [Call(latency) for latency in latencies(CALLS, seed)]
            server = Server(row.allowance, seed, row.trip_s)
            makespan, _ = run_engine(server, row.limits, CALLS, single_calls(calls), IN_FLIGHT)
            best.append(oracle(row.allowance, calls, IN_FLIGHT))
            ours.append(makespan)
            refused.append(server.refused)
        report(row.name, best, ours, refused, row.goal)


TOKEN_CALLS, TOKENS_PER_MIN = 1000, 1_000_000.0


def tokens() -> None:
    """Prompts of 200 to 20,000 tokens, log-uniform; what we expect of each is off by up to 15 %."""
    for kind in ("sliding", "bucket"):
        allowance = Allowance(tokens_per_min=TOKENS_PER_MIN, kind=kind, headers="none")
        best, ours, refused, unfair = [], [], [], []
        for seed in SEEDS:
            rng = random.Random(f"tokens/{seed}")
            sizes = [float(int(200 * 100 ** rng.random())) for _ in range(TOKEN_CALLS)]
            calls = [Call(t, size) for t, size in zip(latencies(TOKEN_CALLS, seed), sizes, strict=True)]
            off = {call: rng.uniform(0.85, 1.15) for call in calls}
            waits: dict[int, list[float]] = {}
            server = Server(allowance, seed)
            makespan, _ = run_engine(
                server,
                lane(tokens_per_min=TOKENS_PER_MIN, kind=kind),
                TOKEN_CALLS,
                single_calls(calls, lambda call: call.tokens * off[call], waits),  # noqa: B023
                IN_FLIGHT,
            )
            best.append(oracle(allowance, calls, IN_FLIGHT))
            ours.append(makespan)
            refused.append(server.refused)
            unfair.append(max(max(w) / max(statistics.median(w), 1e-9) for w in waits.values()))
        report(f"tokens/min, {kind}", best, ours, refused, "<= 1.05, 0")
        print(f"    longest wait / median of its size class: {max(unfair):.2f}  goal <= 3")


JOBS, K = 500, 3


def pipeline() -> None:
    """Clarify, k answers side by side, rewrite: 2,500 calls on one account."""
    best, ours, refused = [], [], []
    for seed in SEEDS:
        draws = iter(latencies(JOBS * (K + 2), seed))
        jobs = [
            [[Call(next(draws))], [Call(next(draws)) for _ in range(K)], [Call(next(draws))]]
            for _ in range(JOBS)
        ]

        async def walk(ctx: Context, send: Any, i: int) -> Any:
            for s, stage in enumerate(jobs[i]):  # noqa: B023
                await ctx.gather(
                    [
                        lambda c=c, call=call, s=s: send(ctx, f"{s}/{c}", call, 0.0)
                        for c, call in enumerate(stage)
                    ]
                )

        server = Server(SLIDING, seed)
        makespan, _ = run_engine(
            server, lane(requests_per_min=PER_MIN, kind="sliding"), JOBS, walk, IN_FLIGHT
        )
        best.append(oracle_stages(SLIDING, jobs, IN_FLIGHT))
        ours.append(makespan)
        refused.append(server.refused)
    report("three stages, sliding 60 s", best, ours, refused, "<= 1.05")


OUTAGE_S = 60.0


def outage() -> None:
    """3,600 calls at an even 1,200 a minute, and nothing answers from second 60 to 120."""
    n = 3600
    paced = Allowance(requests_per_min=PER_MIN, kind="bucket", window_s=1.0, headers="none")
    best, ours, refused, late = [], [], [], []
    for seed in SEEDS:
        calls = [Call(latency) for latency in latencies(n, seed)]
        server = Server(Allowance(headers="none"), seed, down=[(60.0, 60.0 + OUTAGE_S)])
        makespan, _ = run_engine(server, lane(requests_per_min=PER_MIN), n, single_calls(calls), IN_FLIGHT)
        best.append(oracle(paced, calls, IN_FLIGHT))
        ours.append(makespan)
        refused.append(server.refused)
        late.append(makespan - best[-1] - OUTAGE_S)
        assert server.served == n
    report("3 minutes with 60 s of outage", best, ours, refused, "")
    print(f"    later than best + outage by {max(late):.1f} s  goal <= 5")


def main() -> None:
    print(f"{CALLS:,} calls at {PER_MIN:g}/min, {IN_FLIGHT} in flight; medians over seeds {SEEDS}, most 429s")
    print(
        f"  {'server, and what we know of it':38s} {'best s':>8s} {'ours s':>8s} {'ratio':>6s} {'429s':>5s}  goal"
    )
    requests()
    tokens()
    pipeline()
    outage()


if __name__ == "__main__":
    main()
