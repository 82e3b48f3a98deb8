"""Work for workers in processes of their own, which all append to one file what their steps do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cts_async.cluster.work import NeededFile, OpenWork, Task
from cts_async.engine.events import Events, Usage
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import UsageError
from cts_async.protocol.run_files import EndedLines

PLACES = 3
"""Steps that may be under way at once, whoever does them."""
SECONDS = 0.02
"""That each takes."""


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """Two steps a task, in one lane of `PLACES` for all workers; `log` gets "begun PIECE/STEP PID" and "done ..."."""

    log: Path
    key: str = ""
    """A variable that the environment has to have."""

    @property
    def files(self) -> Sequence[NeededFile]:
        return ()

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: Any, *, workers: int
    ) -> AsyncIterator[OpenWork]:
        if self.key and self.key not in environ:
            raise UsageError(f"no {self.key} in the environment")
        self.log.with_name("environment").write_text("\n".join(environ))
        lane = lane_of("account", "lane", LaneLimits(max_concurrency=PLACES))

        async def walk(ctx: Context) -> list[str]:
            return [await ctx.step(self._step(f"{ctx.job.id}/{name}", lane)) for name in ("a", "b")]

        yield OpenWork([lane], [2], lambda task: walk, _lines_of)

    def _step(self, label: str, lane: Lane) -> Step[str]:
        async def execute(problem: object) -> Executed:
            self._record("begun", label)
            await asyncio.sleep(SECONDS)
            self._record("done", label)
            return Executed(label, Usage(10, 1))

        return Step(name="s", key=step_key(label), execute=execute, decode=str, lane=lane)

    def _record(self, what: str, label: str) -> None:
        with self.log.open("ab", buffering=0) as file:
            file.write(f"{what} {label} {os.getpid()}\n".encode())


def _lines_of(task: Task, ended: list[str]) -> EndedLines:
    return [(None, {"id": task.id, "steps": ended})]
