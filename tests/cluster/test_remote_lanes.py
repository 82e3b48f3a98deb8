"""A worker that the limiter cannot be reached from sends nothing more, and says again what was not heard."""

from __future__ import annotations

import asyncio
import random

from fake_limits import Allowance
from limiter_world import Network, Provider, Worker, with_limiter
from virtual_time import run_virtual

from cts_async.cluster.limiter import LEASE_S
from cts_async.engine.lane import LaneLimits

FREE = LaneLimits(max_concurrency=8)
SILENT = Allowance(headers="none")


def test_worker_cut_off_from_limiter_stops_sending_and_resumes() -> None:
    provider, network = Provider(SILENT, lambda: 1.0), Network(random.Random(1))

    async def main() -> None:
        worker = Worker("a", network, provider, FREE, width=8)

        async def body() -> None:
            task = asyncio.create_task(worker.run((i, 0.0) for i in range(400)))
            await asyncio.sleep(20.0)
            network.cut_off.add("a")
            await asyncio.sleep(40.0)
            assert provider.busy == 0
            assert provider.sent_at[-1] <= 20.0 + LEASE_S
            network.cut_off.clear()
            await task

        await with_limiter(network, body)

    run_virtual(main)
    assert provider.served == 400, "it goes on when the limiter can be reached again"


def test_worker_declared_dead_gets_nothing_more() -> None:
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
            assert network.asks - asked <= 25, "it does not insist"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await with_limiter(network, body)
        return provider.busy

    assert run_virtual(main) == 0
    assert provider.sent_at[-1] <= 10.0 + LEASE_S


def test_permits_that_nobody_needs_any_more_are_given_back() -> None:
    """Of ten callers nine leave while their permits are on the way; the next ten find the window empty but for one."""
    limits = LaneLimits(requests_per_min=11, kind="sliding", max_concurrency=64)
    network = Network(random.Random(1), (0.05, 0.05))

    async def main() -> float:
        took_s = 0.0

        async def body() -> None:
            nonlocal took_s
            worker = Worker("a", network, Provider(SILENT, lambda: 1.0), limits)
            background = [asyncio.create_task(run()) for run in (worker.shared.run, worker.lane.dispatch)]
            await asyncio.sleep(3.0)
            waiting = [asyncio.create_task(worker.lane.admit(i, 0.0)) for i in range(10)]
            await asyncio.sleep(0.02)
            for task in waiting[1:]:
                task.cancel()
            await waiting[0]
            await asyncio.sleep(3.0)
            began = asyncio.get_running_loop().time()
            for i in range(10):
                await worker.lane.admit(10 + i, 0.0)
            took_s = asyncio.get_running_loop().time() - began
            for task in background:
                task.cancel()

        await with_limiter(network, body)
        return took_s

    assert run_virtual(main) < 3.0
