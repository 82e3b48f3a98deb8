"""A lane keeps its account's limits, serves the oldest first, and lets everybody go when the run stops."""

from __future__ import annotations

import asyncio
import random

import pytest
from virtual_time import run_virtual

from cts_async.engine.events import Events, LanePaused
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.errors import Interrupted, ProviderDown, RateLimited, TransientError


async def use(lane: Lane, seq: int, order: list[int], seconds: float = 1.0, tokens: float = 0.0) -> None:
    permit = await lane.admit(seq, tokens)
    order.append(seq)
    await asyncio.sleep(seconds)
    lane.succeeded(permit, None)


async def with_dispatcher(lane: Lane, work: list[asyncio.Task[None]]) -> None:
    dispatcher = asyncio.create_task(lane.dispatch())
    try:
        await asyncio.gather(*work)
    finally:
        dispatcher.cancel()


def test_never_more_in_flight_than_allowed_and_the_oldest_goes_first() -> None:
    async def main() -> tuple[list[int], float]:
        lane, order = Lane("x", LaneLimits(max_concurrency=2)), []
        seqs = list(range(10))
        random.Random(5).shuffle(seqs)
        tasks = [asyncio.create_task(use(lane, seq, order)) for seq in seqs]
        await with_dispatcher(lane, tasks)
        return order[2:], asyncio.get_running_loop().time()

    order, elapsed = run_virtual(main)
    assert order == sorted(order)
    assert elapsed == pytest.approx(5.0)  # 10 seconds of work, two at a time


def test_a_large_request_does_not_starve_behind_small_ones() -> None:
    async def main() -> list[int]:
        lane, order = Lane("x", LaneLimits(tokens_per_min=6000, kind="bucket")), []
        await use(lane, 0, [], seconds=0, tokens=6000)  # the bucket is empty: 100 tokens a second
        big = asyncio.create_task(use(lane, 1, order, tokens=5000))
        small = [asyncio.create_task(use(lane, seq, order, tokens=100)) for seq in range(2, 12)]
        await with_dispatcher(lane, [big, *small])
        return order

    assert run_virtual(main)[0] == 1


def test_a_cancelled_waiter_takes_nothing_with_it() -> None:
    async def main() -> tuple[int, int]:
        lane, order = Lane("x", LaneLimits(max_concurrency=1)), []
        tasks = [asyncio.create_task(use(lane, seq, order)) for seq in range(6)]
        await asyncio.sleep(0.5)
        tasks[2].cancel()
        tasks[4].cancel()
        await with_dispatcher(lane, [t for i, t in enumerate(tasks) if i not in (2, 4)])
        return lane.in_flight, len(order)

    assert run_virtual(main) == (0, 4)


def test_429_pauses_everybody_once_per_episode() -> None:
    pauses: list[float] = []

    async def main() -> float:
        lane = Lane(
            "x",
            LaneLimits(),
            Events(lambda e: pauses.append(e.seconds) if isinstance(e, LanePaused) else None),
        )
        dispatcher = asyncio.create_task(lane.dispatch())
        burst = [await lane.admit(0) for _ in range(10)]
        for permit in burst:
            lane.failed(permit, RateLimited("429", retry_after_s=None, status=429), "k")
        await lane.admit(1)
        dispatcher.cancel()
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(1.0)
    assert pauses == [1.0], "ten refusals of one burst are one episode"


def test_nobody_sends_before_retry_after_has_passed() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits())
        dispatcher = asyncio.create_task(lane.dispatch())
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=7.5, status=429), "k")
        await lane.admit(0)
        dispatcher.cancel()
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(7.5)


def test_a_pause_longer_than_an_allowed_outage_stops_the_run_instead_of_waiting() -> None:
    async def main() -> None:
        lane = Lane("x", LaneLimits(max_outage_s=60))
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=86_400, status=429), "k")
        with pytest.raises(ProviderDown, match="86400 s"):
            await lane.admit(0)

    run_virtual(main)


def test_an_outage_stops_the_run_when_it_lasts_too_long() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits(max_outage_s=60))
        dispatcher = asyncio.create_task(lane.dispatch())

        async def insist(i: int) -> None:
            while True:
                lane.failed(await lane.admit(i), TransientError("refused"), f"k{i}")

        with pytest.raises(ProviderDown, match="refused"):
            await asyncio.gather(*(insist(i) for i in range(8)))
        dispatcher.cancel()
        return asyncio.get_running_loop().time()

    # Probes at 1, 3, 7, 15, 31 and 61 s: the one that finds 60 s over is the last.
    assert run_virtual(main) == pytest.approx(61.0)


def test_stopping_lets_everybody_go() -> None:
    async def main() -> list[BaseException | None]:
        lane = Lane("x", LaneLimits(max_concurrency=1))
        await lane.admit(0)
        waiting = [asyncio.create_task(lane.admit(i)) for i in range(3)]
        await asyncio.sleep(0)
        lane.stop(Interrupted("stop"))
        await asyncio.wait(waiting)
        with pytest.raises(Interrupted):
            await lane.admit(9)
        return [task.exception() for task in waiting]

    assert all(isinstance(error, Interrupted) for error in run_virtual(main))
