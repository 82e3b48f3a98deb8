"""A trade for workers in processes of their own: what each step does is told in a file that all of them append to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from cts_async.cluster.needs import Needs
from cts_async.cluster.trades import Done, Elsewhere

from cts_async.cluster.messages import Line, Piece
from cts_async.engine.events import Events, Usage
from cts_async.engine.journal import StepMemory
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import StepError, UsageError

PLACES = 3
"""Steps that may be under way at once, whoever does them."""
SECONDS = 0.02
"""That each takes."""


@dataclass(frozen=True, slots=True)
class ToldTrade:
    """Two steps a piece, in one lane of `PLACES` for all workers; `told` gets "begun PIECE/STEP PID" and "done ..."."""

    told: Path
    key: str = ""
    """A variable that the environment has to have."""

    @property
    def needs(self) -> Needs:
        return Needs()

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: Any, *, workers: int
    ) -> AsyncIterator[ToldBench]:
        if self.key and self.key not in environ:
            raise UsageError(f"no {self.key} in the environment")
        yield ToldBench(self.told, lane_of("account", "lane", LaneLimits(max_concurrency=PLACES)))


@dataclass(frozen=True, slots=True)
class ToldBench:
    told: Path
    lane: Lane
    in_flight: int = 2

    @property
    def lanes(self) -> Sequence[Lane]:
        return [self.lane]

    def width(self, stream: int) -> int:
        return self.in_flight

    def job(
        self,
        piece: Piece,
        parts: Mapping[int, Any],
        journal: StepMemory,
        elsewhere: Elsewhere | None,
        done: Done,
    ) -> Job:
        finish = partial(_finish, piece=piece, done=done)
        return Job(piece.group, piece.id, journal, self.walk, finish, elsewhere=elsewhere)

    async def walk(self, ctx: Context) -> list[str]:
        return [await ctx.step(self._step(f"{ctx.job.id}/{name}")) for name in ("a", "b")]

    def _step(self, label: str) -> Step[str]:
        async def execute(problem: object) -> Executed:
            self._tell("begun", label)
            await asyncio.sleep(SECONDS)
            self._tell("done", label)
            return Executed(label, Usage(10, 1))

        return Step(name="s", key=step_key(label), execute=execute, decode=str, lane=self.lane)

    def _tell(self, what: str, label: str) -> None:
        with self.told.open("ab", buffering=0) as file:
            file.write(f"{what} {label} {os.getpid()}\n".encode())


async def _finish(ended: list[str] | StepError, *, piece: Piece, done: Done) -> None:
    assert not isinstance(ended, StepError)
    done((Line(piece.place, None, orjson.dumps({"id": piece.id, "steps": ended}) + b"\n"),), False)
