"""Real runners as workers, over one limiter: the provider's limit holds for all of them together, and is used."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from fake_limits import Allowance
from limiter_world import ACCOUNT, Network, with_limiter
from simulated import Call, Server, latencies
from virtual_time import run_virtual

from cts_async.cluster.shared_lanes import SharedLanes
from cts_async.engine.events import Events
from cts_async.engine.journal import Journal
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key

JOBS = 300


def job(i: int, call: Call, server: Server, lane: Lane, journal: Journal, ends: list[int]) -> Job:
    """Two steps, one after the other."""

    async def execute(_: object) -> Executed:
        return await server.take(call, call.tokens)

    async def walk(ctx: Context) -> None:
        for name in ("first", "second"):
            step = Step(name, step_key(i, name), execute, lambda r: r, lane=lane, tokens=call.tokens)
            await ctx.step(step)

    async def finish(_: object) -> None:
        ends.append(i)

    return Job("bench", str(i), journal, walk, finish)


async def work(
    name: str, network: Network, server: Server, limits: LaneLimits, stream: Iterator[int], folder: Path
) -> list[int]:
    """One worker's part of the jobs; gives the numbers of those that it has done."""
    shared, ends, calls = SharedLanes(name, network, Events()), list[int](), latencies(JOBS, 3)
    lane = shared.lane(ACCOUNT, "model", limits)
    journal = Journal(folder / f"{name}.jsonl")

    def jobs() -> Iterable[Job]:
        for i in stream:
            yield job(i, Call(calls[i], 100.0), server, lane, journal, ends)

    exchange = asyncio.create_task(shared.run())
    await Runner([lane], in_flight=24).run(jobs())
    exchange.cancel()
    await shared.aclose()
    journal.close()
    return ends


def test_runners_together_keep_a_limit_and_use_it(tmp_path: Path) -> None:
    server = Server(Allowance(requests_per_min=300, headers="openai", window_s=60.0), 3)
    limits = LaneLimits(requests_per_min=300, kind="sliding", max_concurrency=64)
    network, ends = Network(random.Random(1)), list[int]()

    async def main() -> float:
        stream = iter(range(JOBS))

        async def body() -> None:
            parts = (work(f"w{i}", network, server, limits, stream, tmp_path) for i in range(4))
            for part in await asyncio.gather(*parts):
                ends.extend(part)

        await with_limiter(network, body)
        return asyncio.get_running_loop().time()

    run_virtual(main)
    assert sorted(ends) == list(range(JOBS))
    assert (server.refused, server.served) == (0, 2 * JOBS)
    # 300 in the first window and 300 in the second, which begins 60.4 seconds after the first request.
    assert server.last_end <= 60.4 * 1.2 + 10.0
