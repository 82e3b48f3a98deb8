"""A worker that the limiter cannot be reached from sends nothing more, and says again what was not heard."""

from __future__ import annotations

import asyncio
import random

from cts_async.cluster.asks import PLACES_S
from fake_limits import Allowance
from limiter_world import ACCOUNT, Network, Provider, Worker, with_limiter
from virtual_time import run_virtual

from cts_async.engine.lane import LaneLimits

FREE = LaneLimits(max_concurrency=8)
SILENT = Allowance(headers="none")


def test_a_worker_that_is_cut_off_keeps_its_places_for_a_while_and_then_stops() -> None:
    provider, network = Provider(SILENT, lambda: 1.0), Network(random.Random(1))

    async def main() -> None:
        worker = Worker("a", network, provider, FREE, width=8)

        async def body() -> None:
            task = asyncio.create_task(worker.run((i, 0.0) for i in range(400)))
            await asyncio.sleep(20.0)
            network.cut_off.add("a")
            await asyncio.sleep(40.0)
            assert provider.busy == 0
            assert 20.0 + PLACES_S - 2.0 <= provider.sent_at[-1] <= 20.0 + PLACES_S
            network.cut_off.clear()
            await task

        await with_limiter(network, body)

    run_virtual(main)
    assert provider.served == 400, "it goes on when the limiter can be reached again"


def test_a_worker_that_counts_as_dead_is_given_nothing_more() -> None:
    provider, network = Provider(SILENT, lambda: 1.0), Network(random.Random(1))

    async def main() -> int:
        worker = Worker("a", network, provider, FREE, width=8)

        async def body() -> None:
            task = asyncio.create_task(worker.run((i, 0.0) for i in range(400)))
            await asyncio.sleep(10.0)
            assert network.limiter
            network.limiter.gone("a")
            await asyncio.sleep(30.0)
            asked = network.asks
            await asyncio.sleep(10.0)
            assert network.asks - asked <= 12, "it does not insist"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await with_limiter(network, body)
        return provider.busy

    assert run_virtual(main) == 0
    assert provider.sent_at[-1] <= 10.0 + PLACES_S


def test_permits_that_nobody_needs_any_more_come_back() -> None:
    """Of ten jobs that wait nine leave as soon as the permits for them are on their way."""
    limits = LaneLimits(requests_per_min=600, kind="sliding", max_concurrency=64)
    provider, network = Provider(SILENT, lambda: 1.0), Network(random.Random(1), (0.05, 0.05))

    async def main() -> dict[str, int]:
        status: dict[str, int] = {}

        async def body() -> None:
            worker = Worker("a", network, provider, limits)
            background = [asyncio.create_task(run()) for run in (worker.shared.run, worker.lane.dispatch)]
            await asyncio.sleep(3.0)
            waiting = [asyncio.create_task(worker.lane.admit(i, 0.0)) for i in range(10)]
            await asyncio.sleep(0.2)
            for task in waiting[1:]:
                task.cancel()
            await waiting[0]
            await asyncio.sleep(3.0)
            assert network.limiter
            status.update(network.limiter.status()[ACCOUNT])
            for task in background:
                task.cancel()

        await with_limiter(network, body)
        return status

    status = run_virtual(main)
    assert status["used"] == 1
    assert status["given"] == status["used"] + status["returned"]
