"""Permits: an account's limits hold for several workers, and are used to the full."""

from __future__ import annotations

import asyncio
import random

import pytest
from fake_limits import Allowance
from limiter_world import Network, Provider, Worker, with_limiter
from virtual_time import run_virtual

from cts_async.cluster.limiter import Ask, Limiter
from cts_async.engine.lane import LaneLimits
from cts_async.errors import RateLimited


def test_limiter_that_replaces_another_waits_a_window_and_counts_what_is_under_way() -> None:
    limits = LaneLimits(60, max_concurrency=4, kind="sliding", window_s=20.0)

    async def main() -> None:
        limiter = Limiter(fresh=False)
        running = asyncio.create_task(limiter.run())

        async def ask(worker: str, number: int, in_flight: int, wants: int) -> int:
            generation = limiter.generation if number > 1 else ""
            wanted = tuple((i, 0.0) for i in range(wants))
            grant = await limiter.ask(Ask(worker, "a", limits, number, generation, 0, in_flight, wanted))
            return len(grant.permits)

        assert await ask("a", 1, 3, 0) == 0
        for number in range(1, 20):
            assert await ask("b", number, 0, 9) == 0
        while not (permits := await ask("b", number := number + 1, 0, 9)):
            assert asyncio.get_running_loop().time() < 22.0
        assert asyncio.get_running_loop().time() >= 20.5
        assert permits == 1, "three of four are under way at the other worker"
        running.cancel()

    run_virtual(main)


def shared(
    allowance: Allowance, limits: LaneLimits, *, n: int, workers: int, latency_s: float = 0.5
) -> Provider:
    """`n` requests by several workers at one provider."""
    rng = random.Random(3)
    provider, network = Provider(allowance, lambda: latency_s), Network(rng, (0.001, 0.003))

    async def main() -> None:
        jobs = iter([(i, 0.0) for i in range(n)])

        async def body() -> None:
            team = [Worker(f"w{i}", network, provider, limits) for i in range(workers)]
            await asyncio.gather(*(worker.run(jobs) for worker in team))

        await with_limiter(network, body)

    run_virtual(main)
    assert provider.served == n
    return provider


@pytest.mark.parametrize(
    ("kind", "counts", "longest_s"),
    [("sliding", "sliding", 122.0), ("bucket", "bucket", 64.0), ("paced", "sliding", 124.0)],
)
def test_several_workers_use_a_limit_to_the_full(kind: str, counts: str, longest_s: float) -> None:
    """1,200 requests at 600 a minute: two windows, or a full bucket and one minute."""
    allowance = Allowance(600, kind=counts, headers="none")  # type: ignore[arg-type]
    limits = LaneLimits(600, kind=kind)  # type: ignore[arg-type]
    provider = shared(allowance, limits, n=1_200 if kind != "sliding" else 1_201, workers=4)
    assert provider.refused == 0
    assert provider.last_end <= longest_s


def test_account_without_rates_is_used_up_to_its_concurrency() -> None:
    """1,000 requests of half a second, 20 at once: 25 s and a start."""
    provider = shared(
        Allowance(headers="none"), LaneLimits(max_concurrency=20, kind="paced"), n=1_000, workers=3
    )
    assert provider.most_busy == 20
    assert provider.last_end <= 32.0


def test_pause_that_one_worker_is_told_holds_for_all() -> None:
    limits = LaneLimits(600, kind="sliding")
    provider, network = Provider(Allowance(headers="none"), lambda: 0.1), Network(random.Random(1))

    async def main() -> None:
        async def body() -> None:
            one, other = (Worker(name, network, provider, limits) for name in "ab")
            background = [
                asyncio.create_task(run())
                for worker in (one, other)
                for run in (worker.shared.run, worker.lane.dispatch)
            ]
            permit = await one.lane.admit(0)
            one.lane.failed(permit, RateLimited("slower", retry_after_s=9.0, status=429), "k")
            await asyncio.sleep(0.5)
            began = asyncio.get_running_loop().time()
            await other.lane.admit(1)
            assert asyncio.get_running_loop().time() - began >= 8.0
            for task in background:
                task.cancel()

        await with_limiter(network, body)

    run_virtual(main)
