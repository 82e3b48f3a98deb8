"""A head and its workers in virtual time: who is busy, and what they do together in a second.

The head is the real one, with its dealer and its files. What it takes of its core, of the network and of storage is
what `Costs` says, one thing after the other; a worker has one core, so many calls in flight, and calls that take their
time. A worker's first calls are as old as calls are at any moment, as if it had been at work for long.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import log
from pathlib import Path
from typing import Any

from virtual_time import run_virtual

from benchmarks.scale.costs import Costs
from benchmarks.scale.parts import Server, Worker
from cts_async import __version__
from cts_async.cluster.head import Head
from cts_async.cluster.lines import RESULTS
from cts_async.cluster.messages import Begun, Ended, Line, News, Piece, Turn
from cts_async.cluster.trades import Setup
from cts_async.engine.events import Events
from cts_async.protocol.run_files import RunFiles

SETTLED, SETTLED_CALLS, MEASURED_S = 3, 2, 2.0
"""Turns of every worker, and after them calls in a row, before anything is counted; seconds that are counted then."""
STEADY, MOST_WINDOWS = 0.05, 5
"""It is counted again while that share of the pieces that end are dealt more, or fewer."""
SIGMA = 0.3
"""Of the latencies' logarithm."""
PARTS = ("workers", "in flight", "head", "network", "storage")
NO_TRADE: Any = None
"""A head only hands it on, and simulated workers open none."""
_LINES = (Line(0, RESULTS, b"{}\n"),)


@dataclass(frozen=True, slots=True)
class Work:
    """What is done, and by how many."""

    workers: int
    latency_s: float
    """Of a call, in the mean."""
    in_flight: int
    """Calls that one worker has under way at most."""
    step_bytes: float
    line_bytes: float
    streamed: bool = False
    """Whether steps travel to the head, since storage is not shared."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """What it came to: calls a second, and how busy each of PARTS was, 0 to 1.

    Workers are busy with their cores; "in flight" is busy where all calls that may be under way are.
    """

    calls_s: float
    in_flight: float
    busy: dict[str, float]
    silent_s: float
    """The longest that a worker waited for its head's next turn."""

    @property
    def first(self) -> str:
        """The busiest part: the one that more of would help."""
        return max(PARTS, key=self.busy.__getitem__)


def flow_of(work: Work, costs: Costs) -> Flow:
    """Let it run for a few virtual seconds."""
    return run_virtual(lambda: _Cluster(work, costs).run())


class _Link:
    """The way from the head to a worker, with what it costs; `told` hears of every turn and how many ended."""

    def __init__(self, cluster: _Cluster, name: str, worker: Worker) -> None:
        self._cluster, self._name, self._worker = cluster, name, worker
        self._heard_at: float | None = None

    async def begin(self) -> Begun:
        return Begun("simulated", 0, __version__, self._cluster.work.in_flight)

    async def turn(self, turn: Turn) -> News:
        loop, cluster = asyncio.get_running_loop(), self._cluster
        await cluster.send(len(turn.pieces))
        if self._heard_at is not None:
            cluster.silent_s = max(cluster.silent_s, loop.time() - self._heard_at)
        ended = await self._worker.turn(turn.pieces)
        self._heard_at = loop.time()
        await cluster.take_in(len(ended))
        cluster.had_turn(self._name, len(ended))
        told = tuple(Ended(seq, _LINES, executed=1, steps=1) for seq in ended)
        return News(told, in_hand=len(self._worker))

    def kill(self) -> None:
        pass


class _Cluster:
    """All of it, for one run."""

    def __init__(self, work: Work, costs: Costs) -> None:
        self.work, self._costs = work, costs
        self._rng = random.Random(f"{work.seed}/{work.workers}/{work.latency_s}")
        self._mu = log(work.latency_s) - SIGMA**2 / 2
        self._head, self._out, self._in, self._storage = (Server() for _ in range(4))
        self._back_bytes = costs.end_bytes + (work.step_bytes if work.streamed else 0.0)
        there_us = costs.call_kb_us * costs.piece_bytes / 1000
        back_us = costs.call_kb_us * self._back_bytes / 1000
        step_us = costs.stream_us if work.streamed else costs.merge_us
        self._deal_us = costs.read_us + costs.head_us + costs.send_us + there_us
        self._end_us = costs.take_us + step_us + back_us
        self._call_s = (costs.worker_us + costs.piece_us + there_us + back_us) / 1e6
        self._dealt = self._ended = 0
        self.silent_s = 0.0
        self._left: dict[str, int] = {}
        """Turns that are waited for, by worker."""
        self._missing = 0
        self._all_had: asyncio.Future[None]

    async def run(self) -> Flow:
        with tempfile.TemporaryDirectory() as folder:
            files = RunFiles(Path(folder))
            workers, events = self.work.workers, Events()
            head = Head([files], [_pieces()], NO_TRADE, self._hire, workers=workers, events=events)
            running = asyncio.create_task(head.run())
            await self._turns_of_all(SETTLED)
            await asyncio.sleep(SETTLED_CALLS * self.work.latency_s)
            per_second = await self._counted()
            for _ in range(MOST_WINDOWS - 1):
                dealt, ended = per_second[:2]
                if abs(dealt - ended) <= STEADY * ended:
                    break
                per_second = await self._counted()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            files.close()
        return self._flow(per_second)

    async def _counted(self) -> list[float]:
        """Everything that is counted, by second, over a window."""
        loop = asyncio.get_running_loop()
        before, began = self._counts(), loop.time()
        await asyncio.sleep(MEASURED_S)
        await self._turns_of_all(1)
        elapsed_s = loop.time() - began
        return [(b - a) / elapsed_s for a, b in zip(before, self._counts(), strict=True)]

    async def _hire(self, setup: Setup) -> _Link:
        self._left.setdefault(setup.worker, SETTLED)
        return _Link(self, setup.worker, Worker(self.work.in_flight, self._call_s, self._latency, self._rng))

    async def _turns_of_all(self, n: int) -> None:
        """Until every worker has had so many turns more."""
        self._missing = self.work.workers
        self._left = dict.fromkeys(self._left, n)
        self._all_had = asyncio.get_running_loop().create_future()
        await self._all_had

    # --- What links tell

    def had_turn(self, worker: str, n_ended: int) -> None:
        """A worker has had a turn."""
        self._ended += n_ended
        self._left[worker] -= 1
        if self._left[worker] == 0:
            self._missing -= 1
            if not self._missing:
                self._all_had.set_result(None)

    async def send(self, n: int) -> None:
        """What a turn with so many pieces takes until the worker has it."""
        costs = self._costs
        turn_us = costs.turn_us + costs.call_us + costs.deal_worker_us * self.work.workers
        await self._head.use((turn_us + n * self._deal_us) / 1e6)
        self._dealt += n
        await self._out.use(n * costs.piece_bytes / costs.network_mb_s / 1e6)
        await asyncio.sleep(costs.trip_us / 1e6)

    async def take_in(self, n: int) -> None:
        """What the ends of so many pieces take of network, head and storage."""
        costs, work = self._costs, self.work
        await self._in.use(n * self._back_bytes / costs.network_mb_s / 1e6)
        await self._head.use(n * self._end_us / 1e6)
        times_written = 1 if work.streamed else 2
        written = work.line_bytes + times_written * work.step_bytes
        await self._storage.use(n * written / costs.storage_mb_s / 1e6)

    # --- Figures

    def _latency(self) -> float:
        return self._rng.lognormvariate(self._mu, SIGMA)

    def _counts(self) -> list[float]:
        servers = (self._head, self._out, self._in, self._storage)
        return [self._dealt, self._ended, *(server.busy_s for server in servers)]

    def _flow(self, per_second: Sequence[float]) -> Flow:
        dealt, ended, head, out, back, storage = per_second
        # What a window has dealt and not seen the end of counts for the part of the head's work that it was.
        calls_s = (dealt * self._deal_us + ended * self._end_us) / (self._deal_us + self._end_us)
        work, under_way = self.work, calls_s * self.work.latency_s
        busy = {
            "workers": calls_s * self._call_s / work.workers,
            "in flight": under_way / (work.workers * work.in_flight),
            "head": head,
            "network": max(out, back),
            "storage": storage,
        }
        shares = {name: min(1.0, share) for name, share in busy.items()}
        return Flow(calls_s, under_way, shares, self.silent_s)


def _pieces() -> Iterator[Piece]:
    """As many as anybody wants."""
    return (Piece(seq, "simulated", "", 0, None) for seq in count())
