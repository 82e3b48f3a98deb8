"""A head and its workers in virtual time: who is busy, and what they do together in a second.

The dealer is the real one. Head, network and storage are servers that do one thing after the other, each taking what
`Costs` says; a worker has one core, so many calls in flight, and calls that take their time. The run is under way
when it begins: every worker has what it works on, and its calls are as old as calls are at any moment.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from math import log

from virtual_time import run_virtual

from benchmarks.scale.costs import Costs
from cts_async.cluster.dealing import Dealer
from cts_async.cluster.messages import Piece

SETTLED, MEASURED_S = 3, 2.0
"""Turns that every worker has before anything is counted; seconds that are counted then, and a turn of each at least."""
LONG_POLL_S = 0.25
"""A worker answers a turn at the latest then."""
SIGMA = 0.3
"""Of the latencies' logarithm."""
PARTS = ("workers", "in flight", "head", "network", "storage")


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


class _Server:
    """Does one thing after the other."""

    def __init__(self) -> None:
        self._free_at = self.busy_s = 0.0

    async def use(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + seconds
        self.busy_s += seconds
        await asyncio.sleep(self._free_at - now)


class _Worker:
    """Pieces in, the times at which they are begun and end out; none of them is an event of its own."""

    def __init__(self, call_s: float, latency: Callable[[], float]) -> None:
        self._call_s, self._latency = call_s, latency
        self._places: list[float] = []
        """When each call that may be under way has ended."""
        self._core_free_at = 0.0
        self._begins: deque[float] = deque()
        self._ends: list[tuple[float, int]] = []

    def begin_with(self, pieces: Sequence[Piece], rng: random.Random) -> None:
        """What is under way already: calls of any age."""
        self._ends = [(self._latency() * rng.random(), piece.seq) for piece in pieces]
        heapify(self._ends)
        self._places = [end for end, _ in self._ends]

    def take(self, pieces: Sequence[Piece], now: float) -> None:
        """Begin each as soon as a place is free, and send it as soon as the core is."""
        for piece in pieces:
            begun = max(now, self._places[0])
            self._core_free_at = max(begun, self._core_free_at) + self._call_s
            end = self._core_free_at + self._latency()
            heapreplace(self._places, end)
            heappush(self._ends, (end, piece.seq))
            self._begins.append(begun)

    async def turn(self, pieces: Sequence[Piece]) -> list[int]:
        """Take pieces; give the numbers of those that have ended, once half of what waits is begun."""
        now = asyncio.get_running_loop().time()
        self.take(pieces, now)
        while self._begins and self._begins[0] <= now:
            self._begins.popleft()
        waiting = len(self._begins)
        low_s = self._begins[waiting // 2] - now if waiting else LONG_POLL_S
        await asyncio.sleep(min(LONG_POLL_S, low_s))
        now, ended = asyncio.get_running_loop().time(), []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heappop(self._ends)[1])
        return ended


class _Cluster:
    """All of it, for one run."""

    def __init__(self, work: Work, costs: Costs) -> None:
        self._work, self._costs = work, costs
        self._rng = random.Random(f"{work.seed}/{work.workers}/{work.latency_s}")
        self._mu = log(work.latency_s) - SIGMA**2 / 2
        self._dealer = Dealer([_pieces()])
        self._head, self._out, self._in, self._storage = (_Server() for _ in range(4))
        self._back_bytes = costs.end_bytes + (work.step_bytes if work.streamed else 0.0)
        carried_us = costs.call_kb_us * (costs.piece_bytes + self._back_bytes) / 1000
        self._call_s = (costs.worker_us + costs.piece_us + carried_us) / 1e6
        self._ended = 0
        self._silent_s = 0.0
        self._left: dict[str, int] = {}
        """Turns that are waited for, by worker."""
        self._missing = 0
        self._all_had: asyncio.Future[None]

    async def run(self) -> Flow:
        workers = {f"w{n}": _Worker(self._call_s, self._latency) for n in range(self._work.workers)}
        for name, worker in workers.items():
            self._dealer.joined(name, self._work.in_flight)
            self._begin(name, worker)
            self._left[name] = 0
        async with asyncio.TaskGroup() as group:
            served = [group.create_task(self._serve(name, worker)) for name, worker in workers.items()]
            loop = asyncio.get_running_loop()
            await self._turns_of_all(SETTLED)
            before, began = self._counts(), loop.time()
            await asyncio.sleep(MEASURED_S)
            await self._turns_of_all(1)
            elapsed_s, after = loop.time() - began, self._counts()
            for task in served:
                task.cancel()
        return self._flow([(b - a) / elapsed_s for a, b in zip(before, after, strict=True)])

    async def _turns_of_all(self, n: int) -> None:
        """Until every worker has had so many turns more."""
        self._missing = self._work.workers
        self._left = dict.fromkeys(self._left, n)
        self._all_had = asyncio.get_running_loop().create_future()
        await self._all_had

    def _had_turn(self, name: str) -> None:
        self._left[name] -= 1
        if self._left[name] == 0:
            self._missing -= 1
            if not self._missing:
                self._all_had.set_result(None)

    def _begin(self, name: str, worker: _Worker) -> None:
        pieces: list[Piece] = []
        while len(pieces) < self._work.in_flight:
            pieces += self._dealer.deal(name).pieces
        worker.begin_with(pieces[: self._work.in_flight], self._rng)
        worker.take(pieces[self._work.in_flight :], 0.0)

    async def _serve(self, name: str, worker: _Worker) -> None:
        """One worker's turns."""
        costs, loop = self._costs, asyncio.get_running_loop()
        ended: list[int] = []
        heard = 0.0
        while True:
            await self._take_in(len(ended))
            self._dealer.ended(name, ended, loop.time())
            self._ended += len(ended)
            pieces = self._dealer.deal(name).pieces
            await self._head.use(self._turn_s(len(pieces)))
            await self._out.use(len(pieces) * costs.piece_bytes / costs.network_mb_s / 1e6)
            await asyncio.sleep(costs.trip_us / 1e6)
            self._silent_s = max(self._silent_s, loop.time() - heard)
            ended = await worker.turn(pieces)
            heard = loop.time()
            self._had_turn(name)

    def _turn_s(self, n: int) -> float:
        """The head's time for a turn with so many pieces."""
        costs = self._costs
        each_us = costs.read_us + costs.deal_us + costs.send_us + costs.call_kb_us * costs.piece_bytes / 1000
        return (costs.call_us + costs.deal_worker_us * self._work.workers + n * each_us) / 1e6

    async def _take_in(self, n: int) -> None:
        """What the ends of so many pieces take of network, head and storage."""
        costs, work = self._costs, self._work
        await self._in.use(n * self._back_bytes / costs.network_mb_s / 1e6)
        step_us = costs.stream_us if work.streamed else costs.merge_us
        each_us = costs.take_us + costs.write_us + step_us + costs.call_kb_us * self._back_bytes / 1000
        await self._head.use(n * each_us / 1e6)
        times_written = 1 if work.streamed else 2
        written = work.line_bytes + times_written * work.step_bytes
        await self._storage.use(n * written / costs.storage_mb_s / 1e6)

    def _latency(self) -> float:
        return self._rng.lognormvariate(self._mu, SIGMA)

    def _counts(self) -> list[float]:
        servers = (self._head, self._out, self._in, self._storage)
        return [self._ended, *(server.busy_s for server in servers)]

    def _flow(self, per_second: Sequence[float]) -> Flow:
        calls_s, head, out, back, storage = per_second
        work, under_way = self._work, calls_s * self._work.latency_s
        busy = {
            "workers": calls_s * self._call_s / work.workers,
            "in flight": under_way / (work.workers * work.in_flight),
            "head": head,
            "network": max(out, back),
            "storage": storage,
        }
        return Flow(calls_s, under_way, {name: min(1.0, share) for name, share in busy.items()}, self._silent_s)


def _pieces() -> Iterator[Piece]:
    """As many as anybody wants."""
    return (Piece(seq, "", "", 0, None) for seq in count())
