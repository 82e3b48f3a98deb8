"""Many workers, one budget: no order of messages and no death crosses a line, and nothing of it is left lying."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_cluster import Played, PlayedCluster
from virtual_time import run_virtual

from cts_async.engine.budget import Lines
from cts_async.engine.events import Cost
from cts_async.engine.runner import interrupted
from cts_async.errors import RunStopped

LONGEST_S = 2_000.0
"""Nothing here takes nearly as long: who is at it still waits for ever."""


class Work:
    """Attempts of one worker, `width` at a time: each reserves `most` tokens and uses up to `factor` times as many."""

    def __init__(
        self, cluster: PlayedCluster, most: int, attempts: int, width: int, seed: int, factor: float = 1.0
    ) -> None:
        self.cluster, self.most, self.left, self.width = cluster, most, attempts, width
        self.factor = factor
        self.worker = cluster.worker()
        self.rng = random.Random(f"attempts/{seed}/{self.worker.name}")

    def cost(self, tokens: float) -> Cost:
        return Cost(1, tokens, tokens * 0.001)

    async def run(self) -> None:
        await asyncio.gather(*(self._stream() for _ in range(self.width)))

    async def _stream(self) -> None:
        budget = self.worker.budget
        while self.left:
            self.left -= 1
            if self.rng.random() < 0.2:
                await asyncio.sleep(self.rng.uniform(0, 5))  # something that costs nothing
            used = int(self.most * self.rng.random() * self.factor)
            most, true = self.cost(self.most), self.cost(used)
            try:
                await budget.reserve(self.left, most)
            except RunStopped:
                self.left += 1
                return
            self.cluster.check()
            await asyncio.sleep(self.rng.lognormvariate(0, 1))
            if used > self.most:
                self.cluster.excess += true - most
            budget.settle(most, true)
            self.cluster.check()


WORK = st.tuples(st.integers(1, 60), st.integers(0, 30), st.integers(1, 8))
"""Tokens reserved, attempts, at a time."""
LINES = st.builds(
    Lines,
    st.none() | st.integers(0, 60),
    st.none() | st.integers(0, 1_500),
    st.none() | st.floats(0, 1.5),
)


async def play(cluster: PlayedCluster, works: Sequence[Work], deaths: Sequence[tuple[int, float]]) -> None:
    """Until all work is done or nothing more can be paid for; `deaths`: which worker is lost, and when."""
    asking = {work.worker.name: asyncio.create_task(cluster.ask(work.worker)) for work in works}
    loop = asyncio.get_running_loop()

    def lose(worker: Played) -> None:
        asking[worker.name].cancel()
        cluster.lose(worker)
        # It finishes what it has begun, and spends what it was allowed, before it notices.
        loop.call_later(15.0, worker.budget.stop, interrupted())

    for which, at in deaths:
        loop.call_later(at, lose, works[which % len(works)].worker)

    def stop(reason: RunStopped) -> None:
        for worker in cluster.workers:
            worker.budget.stop(reason)

    cluster.stop = stop
    async with asyncio.timeout(LONGEST_S):
        await asyncio.gather(*(work.run() for work in works))
    for task in asking.values():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@given(
    LINES,
    st.lists(WORK, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.floats(0, 20)), max_size=3),
    st.floats(0, 2),
    st.sampled_from([1.0, 1.0, 3.0]),
    st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_no_line_is_crossed_whoever_dies(
    lines: Lines,
    plans: Sequence[tuple[int, int, int]],
    deaths: Sequence[tuple[int, float]],
    trip_s: float,
    factor: float,
    seed: int,
) -> None:
    """Where attempts cost more than was reserved for them, by no more than that."""

    async def main() -> None:
        cluster = PlayedCluster(lines, seed=seed, trip_s=trip_s)
        await play(cluster, [Work(cluster, *plan, seed, factor) for plan in plans], deaths)
        cluster.check()  # which every attempt has done besides

    run_virtual(main)


@given(
    LINES,
    st.lists(WORK, min_size=1, max_size=5),
    st.none() | st.integers(1, 60),
    st.floats(0, 2),
    st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_what_is_left_over_is_less_than_the_next_call_may_cost(
    lines: Lines, plans: Sequence[tuple[int, int, int]], same: int | None, trip_s: float, seed: int
) -> None:
    """With nobody lost. Where all reserve the `same`, that holds for everybody, else for those who said they wait."""

    async def main() -> None:
        cluster = PlayedCluster(lines, seed=seed, trip_s=trip_s)
        works = [Work(cluster, same or most, *plan, seed) for most, *plan in plans]
        await play(cluster, works, ())
        unfinished = [work.cost(work.most) for work in works if work.left]
        assert bool(unfinished) == (cluster.over is not None)
        for most in unfinished if same else cluster.waited:
            assert lines.crossed(cluster.total + most) is not None
        if cluster.over:
            assert cluster.over.spent == pytest.approx(getattr(cluster.total, cluster.over.line))

    run_virtual(main)
