"""A budget over several engines: it ends as it would with one, with every journal saying what was spent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from played_cluster import PlayedCluster
from virtual_time import run_virtual

from cts_async.cluster.purse import Purse
from cts_async.engine.budget import Budget, Lines
from cts_async.engine.events import BudgetUsed, Cost, Event, Events, Usage
from cts_async.engine.journal import Journal, read_jsonl
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Prices, Step, step_key
from cts_async.errors import BudgetSpent, RunStopped

PRICES = Prices(input_usd_per_mtok=1_000.0, output_usd_per_mtok=10_000.0)
"""A thousandth of a dollar a token in, a hundredth a token out."""
MOST = Usage(100, 10)
"""Reserved for each call: 110 tokens, $0.20."""


@dataclass
class Judging:
    """Jobs of one call each, that any engine may take: they are charged between nothing and all that was reserved."""

    folder: Path
    jobs: int
    rng: random.Random = field(default_factory=lambda: random.Random("calls"))
    journals: list[Path] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    stopped: list[RunStopped] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers: Iterator[int] = iter(range(self.jobs))

    async def work(self, budget: Budget, in_flight: int, jobs: int | None = None) -> None:
        """One engine under `budget`, until there are no more jobs (or it has had so many), or the run is stopped."""
        path = self.folder / f"w{len(self.journals)}.jsonl"
        self.journals.append(path)
        journal = Journal(path)
        lane = Lane("m", LaneLimits(max_concurrency=64))
        runner = Runner([lane], in_flight=in_flight, budget=budget)
        try:
            await runner.run(self._job(number, journal, lane) for number in islice(self._numbers, jobs))
        except RunStopped as stopped:
            self.stopped.append(stopped)
        finally:
            journal.close()

    def _job(self, number: int, journal: Journal, lane: Lane) -> Job:
        charged = Usage(self.rng.randint(0, 100), self.rng.randint(0, 10))
        seconds = self.rng.lognormvariate(0, 0.6)

        async def execute(_: object) -> Executed:
            await asyncio.sleep(seconds)
            return Executed("yes", charged)

        async def walk(ctx: Context) -> str:
            return await ctx.step(
                Step(
                    "judge",
                    step_key(number),
                    execute,
                    str,
                    model="m",
                    lane=lane,
                    most=lambda _: MOST,
                    prices=PRICES,
                )
            )

        async def finish(_: object) -> None:
            self.finished.append(str(number))

        return Job("group", str(number), journal, walk, finish)

    def records(self) -> list[dict[str, Any]]:
        return [record for path in self.journals for record in read_jsonl(path)]


async def together(judging: Judging, lines: Lines, widths: list[int], told: Events | None = None) -> Purse:
    """As many engines as there are widths, and one purse for them."""
    cluster = PlayedCluster(lines, events=told or Events())
    workers = [cluster.worker() for _ in widths]

    def stop(reason: RunStopped) -> None:
        for worker in workers:
            worker.budget.stop(reason)

    cluster.stop = stop
    asking = [asyncio.create_task(cluster.ask(worker)) for worker in workers]
    await asyncio.gather(
        *(judging.work(worker.budget, width) for worker, width in zip(workers, widths, strict=True))
    )
    await asyncio.sleep(1.0)  # the last news
    for task in asking:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return cluster.purse


@pytest.mark.parametrize(
    "lines",
    [Lines(max_calls=150), Lines(max_tokens=8_000), Lines(max_usd=15.0)],
    ids=["calls", "tokens", "usd"],
)
def test_four_engines_spend_as_much_of_a_line_as_one(tmp_path: Path, lines: Lines) -> None:
    async def main() -> None:
        judging = Judging(tmp_path, jobs=1_000)
        told: list[Event] = []
        purse = await together(judging, lines, [8, 8, 8, 8], Events(told.append))
        assert lines.crossed(purse.spent) is None
        assert lines.crossed(purse.spent + Cost(1, 110, 0.2)) is not None
        assert [type(stopped) for stopped in judging.stopped] == [BudgetSpent] * 4
        assert len({str(stopped) for stopped in judging.stopped}) == 1
        # What a later session would read is what this one counted, and what the screen was told last.
        records = judging.records()
        used = sum(record["usage"]["input"] + record["usage"]["output"] for record in records)
        assert Cost(len(records), used, pytest.approx(purse.spent.usd)) == purse.spent
        assert told[-1] == BudgetUsed(purse.spent, lines.max_calls, lines.max_tokens, lines.max_usd)
        assert len(judging.finished) == len(records)

    run_virtual(main)


def test_a_budget_that_is_enough_costs_next_to_no_time(tmp_path: Path) -> None:
    async def took(*, budgets: bool) -> float:
        judging = Judging(tmp_path / str(budgets), jobs=400)
        judging.folder.mkdir()
        began = asyncio.get_running_loop().time()
        if budgets:
            # The sleep in which the last news come is not the engines'.
            began += 1.0
            await together(judging, Lines(10_000, 1_000_000, 1_000.0), [8, 8])
        else:
            unlimited = (Budget(Lines()), Budget(Lines()))
            await asyncio.gather(*(judging.work(budget, 8) for budget in unlimited))
        assert len(judging.finished) == 400
        return asyncio.get_running_loop().time() - began

    async def main() -> None:
        assert await took(budgets=True) <= 1.02 * await took(budgets=False)

    run_virtual(main)


def test_who_has_nothing_left_to_do_leaves_the_rest_to_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        lines = Lines(max_tokens=8_000)
        cluster = PlayedCluster(lines)
        judging = Judging(tmp_path, jobs=1_000)
        quick, other = cluster.worker(), cluster.worker()
        cluster.stop = other.budget.stop
        asking = [asyncio.create_task(cluster.ask(worker)) for worker in (quick, other)]
        await asyncio.gather(judging.work(quick.budget, 16, jobs=40), judging.work(other.budget, 1))
        assert cluster.over is not None
        assert lines.crossed(cluster.total + Cost(1, 110)) is not None
        for task in asking:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    run_virtual(main)
