"""A provider in virtual time, the engine in front of it, and an oracle that knows everything beforehand.

The server counts strictly (`tests/fake_limits.py`), at the moment when a request arrives. Requests take a
little to arrive, each a different little, so that they overtake each other as they do on a network. A
refusal comes back at once, an answer after its latency, which is the same for the engine and the oracle.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fake_limits import Allowance, ServerLimits, meter
from virtual_time import run_virtual

from cts_async.engine.events import Usage
from cts_async.engine.journal import Journal
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import RateLimited, TransientError
from cts_async.llm.limit_headers import quotas_in, retry_after_s

MEDIAN_S, SIGMA = 0.8, 0.6
TRIP_S, TRIP_SIGMA = 0.03, 0.5
"""One way through the network: log-normal, 30 ms in the median, 200 ms once in 15,000."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request: how long the server thinks, the tokens it will have cost, and those that it may cost."""

    latency_s: float
    tokens: float = 0.0
    reserved: float = 0.0


def latencies(n: int, seed: int, median_s: float = MEDIAN_S) -> list[float]:
    rng = random.Random(f"latency/{seed}")
    return [rng.lognormvariate(math.log(median_s), SIGMA) for _ in range(n)]


@dataclass
class Server:
    """One account of a provider. `down` are outages (from, to) in which every connection is refused.

    With `charges_reserved` it counts what a request may cost when it arrives, and gives nothing back.
    """

    allowance: Allowance
    seed: int = 0
    trip_s: float = TRIP_S
    down: Sequence[tuple[float, float]] = ()
    charges_reserved: bool = False
    served: int = 0
    refused: int = 0
    _limits: ServerLimits = field(init=False)
    _trips: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._limits = ServerLimits(self.allowance)
        self._trips = random.Random(f"trips/{self.seed}")

    async def take(self, call: Call, estimate: float) -> Executed:
        """Serve a call, or raise what the client would make of the answer."""
        loop = asyncio.get_running_loop()
        there_s, back_s = (self._trips.lognormvariate(math.log(self.trip_s), TRIP_SIGMA) for _ in range(2))
        await asyncio.sleep(there_s)
        if any(start <= loop.time() < end for start, end in self.down):
            raise TransientError("connection refused")
        charged = call.reserved if self.charges_reserved else call.tokens
        verdict = self._limits.arrive(loop.time(), charged)
        if not verdict.ok:
            self.refused += 1
            await asyncio.sleep(back_s)
            wait_s = retry_after_s(_Head(verdict.headers), self.allowance.epoch_s + loop.time())
            raise RateLimited("slower, please", retry_after_s=wait_s, status=429)
        await asyncio.sleep(max(0.0, call.latency_s - there_s))
        self._limits.left()
        self.served += 1
        usage = Usage(int(call.tokens), 0) if call.tokens else None
        return Executed(
            {"text": ""}, usage, quotas_in(_Head(verdict.headers), self.allowance.epoch_s + loop.time())
        )


@dataclass
class UnsteadyServer(Server):
    """A server that refuses a `share` of requests at random, all in `storms` (from, to), and those beyond `capacity`
    at once; above `slow_above` at once it takes longer in proportion.

    `late` refusals take as long as an answer. `ends` are the times of all outcomes, and whether they were answers.
    """

    share: float = 0.0
    status: int = 429
    asks_s: float | None = None
    capacity: float = math.inf
    slow_above: float = math.inf
    storms: Sequence[tuple[float, float]] = ()
    late: bool = False
    ends: list[tuple[float, bool]] = field(default_factory=list)
    _in_flight: int = 0
    _draws: random.Random = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draws = random.Random(f"refused/{self.seed}")

    async def take(self, call: Call, estimate: float) -> Executed:
        loop = asyncio.get_running_loop()
        there_s, back_s = (self._trips.lognormvariate(math.log(self.trip_s), TRIP_SIGMA) for _ in range(2))
        await asyncio.sleep(there_s)
        now = loop.time()
        storm = any(start <= now < end for start, end in self.storms)
        refused = storm or self._in_flight >= self.capacity or self._draws.random() < self.share
        if not refused:
            self._in_flight += 1
        slower = max(1.0, self._in_flight / self.slow_above)
        try:
            await asyncio.sleep(call.latency_s * slower if self.late or not refused else 0.0)
        finally:
            self._in_flight -= not refused
        self.ends.append((loop.time(), not refused))
        await asyncio.sleep(back_s)
        if refused:
            self.refused += 1
            kind = RateLimited if self.status == 429 else TransientError
            raise kind("not now", retry_after_s=self.asks_s, status=self.status)
        self.served += 1
        return Executed({"text": ""})

    def used(self, from_s: float, to_s: float) -> tuple[float, float]:
        """Of the outcomes in that time: answers a second, and the share that was refused."""
        ends = [answered for at, answered in self.ends if from_s <= at < to_s]
        return sum(ends) / (to_s - from_s), 1 - sum(ends) / max(1, len(ends))


class _Head(dict[str, str]):
    """Headers as a client sees them: names in any case."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__({name.lower(): value for name, value in values.items()})


Walk = Callable[[Context, Callable[[Context, str, Call, float], Any], int], Any]


def run_engine(
    server: Server, limits: LaneLimits, n_jobs: int, walk: Walk, in_flight: int
) -> tuple[float, Lane]:
    """Run `n_jobs` walks through the engine; gives the makespan in virtual seconds, and the lane."""
    lanes: list[Lane] = []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        lane = Lane("simulated", limits)
        lanes.append(lane)
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "steps.jsonl")

            async def send(ctx: Context, name: str, call: Call, estimate: float) -> Any:
                async def execute(_: object) -> Executed:
                    return await server.take(call, estimate)

                key = step_key(ctx.job.id, name)
                reserved = call.reserved
                return await ctx.step(
                    Step(name, key, execute, lambda r: r, lane=lane, tokens=estimate, reserved=reserved)
                )

            async def finish(_: object) -> None:
                return

            def jobs() -> Iterable[Job]:
                for i in range(n_jobs):

                    async def one(ctx: Context, i: int = i) -> Any:
                        return await walk(ctx, send, i)

                    yield Job("bench", str(i), journal, one, finish)

            await Runner([lane], in_flight=in_flight, clock=loop.time).run(jobs())
            journal.close()
        return loop.time()

    return run_virtual(main), lanes[0]


def single_calls(
    calls: Sequence[Call],
    estimate: Callable[[Call], float] = lambda call: call.tokens,
    waits: dict[int, list[float]] | None = None,
) -> Walk:
    """A walk of one call. `waits` takes down, by size class, how long each waited to be sent."""

    async def walk(ctx: Context, send: Any, i: int) -> Any:
        asked_at = asyncio.get_running_loop().time()
        await send(ctx, "call", calls[i], estimate(calls[i]))
        if waits is not None:
            waited_s = asyncio.get_running_loop().time() - asked_at - calls[i].latency_s
            waits.setdefault(int(math.log10(calls[i].tokens) * 2), []).append(waited_s)

    return walk


def staged_calls(jobs: Sequence[Sequence[Sequence[Call]]]) -> Walk:
    """A walk of stages; the calls of one go side by side."""

    async def walk(ctx: Context, send: Any, i: int) -> Any:
        for s, stage in enumerate(jobs[i]):
            await ctx.gather([partial(send, ctx, f"{s}/{c}", call, 0.0) for c, call in enumerate(stage)])

    return walk


def oracle(allowance: Allowance, calls: Sequence[Call], in_flight: int) -> float:
    """The shortest makespan for calls in this order: each is sent at the first moment when it is allowed."""
    meters = meters_of(allowance)
    ends: list[float] = []
    now = 0.0
    for call in calls:
        if len(ends) >= in_flight:
            now = max(now, heapq.heappop(ends))
        now = take_at(meters, now, call)
        heapq.heappush(ends, now + call.latency_s)
    return max(ends)


def meters_of(allowance: Allowance) -> list[tuple[Any, bool]]:
    """The limits of an account, each with whether it counts tokens."""
    limits = ((allowance.requests_per_min, False), (allowance.tokens_per_min, True))
    return [(meter(allowance, limit), tokens) for limit, tokens in limits if limit is not None]


def allowed_at(meters: list[tuple[Any, bool]], now: float, call: Call) -> float:
    """When a call may be sent, if nothing else comes."""
    return now + max((m.wait_s(now, call.tokens if t else 1.0) for m, t in meters), default=0.0)


def take_at(meters: list[tuple[Any, bool]], now: float, call: Call) -> float:
    """Count a call at the first moment when it is allowed; returns that moment."""
    while (at := allowed_at(meters, now, call)) > now:
        now = at
    for m, t in meters:
        m.take(now, call.tokens if t else 1.0)
    return now
