"""A run of the engine in virtual time that can be interrupted and continued."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from virtual_time import run_virtual

from cts_async.engine.events import Event, Events, Usage
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context, Job, Runner, interrupted
from cts_async.engine.step import Executed, RetryPolicy, Step, step_key
from cts_async.errors import RunStopped, UnusableOutput

Walk = Callable[[Context], Awaitable[Any]]
POLICY = RetryPolicy(
    max_transient=2, max_rate_limited=2, max_unusable=2, base_s=1.0, cap_s=8.0, patience_s=0.0
)


CHARGED = Usage(10, 1)


class Bench:
    """A run: its journal, its results, and what it executed."""

    def __init__(self, path: Path, *lanes: Lane) -> None:
        self.path, self.lanes = path, lanes
        self.executed: list[str] = []
        self.done: list[str] = []
        self.finished: dict[str, Any] = {}
        self.events: list[Event] = []
        self.elapsed_s = 0.0
        self.problems: list[UnusableOutput | None] = []

    def step(
        self,
        ctx: Context,
        name: str,
        *,
        value: Any = None,
        seconds: float = 1.0,
        failures: Iterable[BaseException] = (),
        charged: Usage | None = CHARGED,
        **options: Any,
    ) -> Step[Any]:
        """Takes `seconds` an attempt; raises `failures` one after the other, then gives `value`."""
        label, left = f"{ctx.job.id}/{name}", list(failures)

        async def execute(problem: UnusableOutput | None) -> Executed:
            self.executed.append(label)
            self.problems.append(problem)
            await asyncio.sleep(seconds)
            if left:
                raise left.pop(0)
            self.done.append(label)
            return Executed(label if value is None else value, charged)

        options = {"decode": lambda response: response, **options}
        return Step(name=name, key=step_key(ctx.job.group, ctx.job.id, name), execute=execute, **options)

    def run(
        self,
        walks: dict[str, Walk],
        *,
        begin: Callable[[Runner], None] = lambda runner: None,
        journal_type: type[Journal] = Journal,
        **options: Any,
    ) -> None:
        """Run what is not finished yet, in virtual time. `begin` sees the runner before it starts."""

        async def main() -> None:
            journal = journal_type(self.path)
            runner = Runner(self.lanes, **{"events": Events(self.events.append), "policy": POLICY, **options})
            try:
                begin(runner)
                await runner.run(self.jobs(walks, journal))
            finally:
                journal.close()
                self.elapsed_s = round(asyncio.get_running_loop().time(), 6)
            assert all(lane.in_flight == 0 for lane in self.lanes)

        run_virtual(main)

    def jobs(self, walks: dict[str, Walk], journal: Journal) -> Iterator[Job]:
        """The jobs; one named `a/b` is of the group a."""
        for name, walk in walks.items():
            if name not in self.finished:

                async def finish(result: Any, name: str = name) -> None:
                    assert name not in self.finished
                    self.finished[name] = result

                yield Job(name.partition("/")[0] if "/" in name else "group", name, journal, walk, finish)

    def journal(self) -> list[dict[str, Any]]:
        return list(read_records(self.path))

    def named(self, step: str) -> list[dict[str, Any]]:
        return [one for one in self.journal() if one["step"] == step]


def steps(bench: Bench, *names: str, **options: Any) -> Walk:
    """One step after the other."""

    async def walk(ctx: Context) -> list[Any]:
        return [await ctx.step(bench.step(ctx, name, **options)) for name in names]

    return walk


def after(seconds: float, error: RunStopped | None = None) -> Callable[[Runner], None]:
    """Stop the run at this second."""
    return lambda runner: (
        asyncio.get_running_loop().call_later(seconds, runner.stop, error or interrupted()) and None
    )
