"""A cluster in one virtual-time loop: heads and workers as they are, over links that delay, lose and die.

Its trade makes small jobs: `a`, then `b/1` and `b/2` side by side, then `c`, which jobs with the same question share.
Every execution is counted, so that a test can tell what was paid twice.
"""

from __future__ import annotations

import asyncio
import pickle
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from cts_async.cluster.head import Head
from cts_async.cluster.links import WorkerLost
from cts_async.cluster.messages import Begun, Line, News, Piece, Turn
from cts_async.cluster.needs import Needs
from cts_async.cluster.trades import Done, Elsewhere, Lanes, Setup
from cts_async.cluster.worker import Worker
from cts_async.engine.events import Event, Events, Usage
from cts_async.engine.journal import StepMemory, read_jsonl
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import RejectedError, StepError, UsageError
from cts_async.protocol.run_files import RunFiles

Act = Callable[[str, int], None]
"""What a step does besides: told its label and how many times it was begun."""


@dataclass
class World:
    """What happened in all processes together."""

    begun: Counter[str] = field(default_factory=Counter)
    """Executions that were begun, by job and step; those of `c` by its question."""
    done: Counter[str] = field(default_factory=Counter)
    fail: set[str] = field(default_factory=set)
    """Jobs of which step `c` is refused for good."""
    bug: str = ""
    """A job that runs into a bug."""
    gone: dict[str, Exception] = field(default_factory=dict)
    """By group, what its steps raise."""
    act: Act = lambda label, n: None
    seconds: float = 1.0
    at_once: int = 0
    most_at_once: int = 0

    def step(self, ctx: Context, name: str, label: str, lane: Lane | None) -> Step[str]:
        """Takes up to `seconds`, different for each label, and gives its label."""
        seconds = self.seconds * random.Random(label).random()

        async def execute(problem: object) -> Executed:
            self.begun[label] += 1
            self.act(label, self.begun[label])
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                await asyncio.sleep(seconds)
            finally:
                self.at_once -= 1
            if label.removesuffix("/c") in self.fail:
                raise RejectedError("refused")
            if reason := self.gone.get(ctx.job.group):
                raise reason
            self.done[label] += 1
            return Executed(label, Usage(10, 1))

        key = step_key(label)
        return Step(
            name=name,
            key=key,
            execute=execute,
            decode=lambda response: response,
            lane=lane,
            most=lambda problem: Usage(20, 2),
        )

    async def walk(self, ctx: Context, piece: Piece, lane: Lane | None) -> list[str]:
        if piece.id == self.bug:
            raise ZeroDivisionError("a bug")
        step = partial(self.step, ctx, lane=lane)
        first = await ctx.step(step("a", f"{piece.id}/a"))
        second = await ctx.gather([partial(ctx.step, step(f"b/{i}", f"{piece.id}/b{i}")) for i in (1, 2)])
        about = f"q{piece.same}" if piece.same else piece.id
        return [first, *second, await ctx.step(step("c", f"{about}/c"))]


@dataclass
class SmallTrade:
    world: World
    width: int = 4
    refused: str = ""
    lane: Callable[[str], str] = lambda group: "lane"
    max_concurrency: int = 64

    def __reduce__(self) -> Any:
        return _the_trade, (id(self),)

    @property
    def needs(self) -> Needs:
        return Needs()

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: Any, *, workers: int
    ) -> AsyncIterator[SmallBench]:
        if self.refused:
            raise UsageError(self.refused)
        limits = LaneLimits(max_concurrency=self.max_concurrency)
        lanes = {name: lane_of(name, name, limits) for name in {self.lane("odd"), self.lane("even")}}
        yield SmallBench(self.world, self.width, lanes, self.lane)


_TRADES: dict[int, SmallTrade] = {}


def _the_trade(number: int) -> SmallTrade:
    return _TRADES[number]


@dataclass
class SmallBench:
    world: World
    in_flight: int
    by_name: Mapping[str, Lane]
    lane: Callable[[str], str] = lambda group: "lane"

    @property
    def lanes(self) -> Sequence[Lane]:
        return list(self.by_name.values())

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
        assert all(parts[part] == f"part {part}" for part in piece.parts)
        walk = partial(self.world.walk, piece=piece, lane=self.by_name[self.lane(piece.group)])
        finish = partial(_finish, piece=piece, done=done)
        return Job(piece.group, piece.id, journal, walk, finish, shared=piece.same != 0, elsewhere=elsewhere)


async def _finish(ended: list[str] | StepError, *, piece: Piece, done: Done) -> None:
    failed = isinstance(ended, StepError)
    result = {"id": piece.id, **({"error": str(ended)} if failed else {"steps": ended})}
    lines = [Line(piece.place, None, _line(result))]
    if not failed:
        lines.insert(0, Line(piece.place, "judge", _line({"id": piece.id})))
    done(tuple(lines), failed)


def _line(record: Any) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


class OwnLanes:
    """Each worker's lanes are its own."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        return Lane(name, limits, self._events)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        return


class Link:
    """A worker in this loop. All that is said goes through pickle, and takes up to `delay_s` each way."""

    def __init__(self, setup: Setup, cluster: Cluster) -> None:
        self.name = setup.worker
        self._cluster = cluster
        self._delays = random.Random(f"{cluster.seed}/{self.name}")
        self._dead = asyncio.Event()
        self.hangs = self.loses_news = False
        self.turns = 0
        self.worker = Worker(_travelled(setup), {}, lanes=partial(cluster.lanes, setup.worker))
        self._task = asyncio.create_task(self.worker.run())

    async def begin(self) -> Begun:
        return await self._living(self._begin())

    async def turn(self, turn: Turn) -> News:
        self.turns += 1
        return await self._living(self._turn(turn))

    def kill(self) -> None:
        self._dead.set()
        self._task.cancel()

    @property
    def under_way(self) -> int:
        """Steps that would have to be done again if it were killed now."""
        runner, worker = self.worker._runner, self.worker
        shards = [getattr(journal, "_current", None) for journal in worker._journals]
        writing = sum(shard.writing for shard in shards if shard)
        lanes = sum(lane.in_flight for lane in runner.lanes) if runner else 0
        return lanes + writing + len(worker._outbox._waiting)

    async def _begin(self) -> Begun:
        await self._delay()
        return _travelled(await self.worker.begin())

    async def _turn(self, turn: Turn) -> News:
        await self._delay()
        if self.hangs:
            await asyncio.Event().wait()
        news = _travelled(await self.worker.turn(_travelled(turn)))
        if self.loses_news:
            raise WorkerLost("connection reset")
        await self._delay()
        return news

    async def _delay(self) -> None:
        await asyncio.sleep(self._delays.uniform(0, self._cluster.delay_s))

    async def _living(self, answer: Any) -> Any:
        """What it answers, unless it is killed before."""
        answering, dying = asyncio.ensure_future(answer), asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait((answering, dying), return_when=asyncio.FIRST_COMPLETED)
            if self._dead.is_set():
                raise WorkerLost("killed")
            return await answering
        finally:
            for one in (answering, dying):
                one.cancel()
                with suppress(asyncio.CancelledError, WorkerLost):
                    await one


def _travelled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@dataclass(frozen=True)
class Files:
    """What stands in a run directory, in an order that does not depend on who came first."""

    results: list[bytes]
    judgments: list[bytes]
    keys: Counter[str]


@dataclass
class Cluster:
    """A run directory, and heads that work on it one after the other."""

    folder: Path
    world: World = field(default_factory=World)
    n: int = 40
    same: Callable[[int], int] = lambda i: 0
    group: Callable[[int], str] = lambda i: "g"
    delay_s: float = 0.01
    seed: int = 0
    streamed: Callable[[str], bool] = lambda worker: False
    width: int = 4
    refused: str = ""
    lane: Callable[[str], str] = lambda group: "lane"
    """By group, the lane of its steps."""
    lanes: Callable[[str, Events], Lanes] = lambda worker, events: OwnLanes(events)
    max_concurrency: int = 64
    links: list[Link] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    on_event: Callable[[Event], None] = lambda event: None
    on_hire: Callable[[Link], None] = lambda link: None
    options: dict[str, Any] = field(default_factory=dict)

    def pieces(self, files: RunFiles) -> Iterator[Piece]:
        again = len(files.journal) > 0
        for i in range(self.n):
            if files.needs_work(f"i{i}", retry_failed=False):
                yield Piece(
                    i, self.group(i), f"i{i}", 0, None, same=self.same(i), parts=(i // 7,), again=again
                )

    async def run(self, workers: int, meanwhile: Callable[[Head], Any] | None = None) -> None:
        """One session of the command; `meanwhile(head)` runs beside it."""
        files, self.links = RunFiles(self.folder), []
        trade = SmallTrade(self.world, self.width, self.refused, self.lane, self.max_concurrency)
        _TRADES[id(trade)] = trade
        head = Head(
            [files],
            [self.pieces(files)],
            trade,
            self._hire,
            workers=workers,
            events=Events(self.events.append, self.on_event),
            parts=lambda number: f"part {number}",
            **self.options,
        )
        beside = asyncio.ensure_future(meanwhile(head)) if meanwhile else None
        try:
            await head.run()
        finally:
            if beside:
                beside.cancel()
            for link in self.links:
                link.kill()
            await asyncio.gather(*(link._task for link in self.links), return_exceptions=True)
            files.close()

    async def _hire(self, setup: Setup) -> Link:
        if self.streamed(setup.worker):
            elsewhere = self.folder / "elsewhere"
            setup = Setup(
                **{name: getattr(setup, name) for name in setup.__slots__}
                | {"journals": tuple(str(elsewhere) for _ in setup.journals)}
            )
        link = Link(setup, self)
        self.links.append(link)
        self.on_hire(link)
        return link

    async def run_alone(self) -> None:
        """The same jobs on one ordinary engine, in one process."""
        files = RunFiles(self.folder)

        def jobs() -> Iterator[Job]:
            lines: list[Line] = []
            bench = SmallBench(self.world, self.width, {"lane": lane})
            for piece in self.pieces(files):
                done = partial(_add, lines)
                yield bench.job(piece, {n: f"part {n}" for n in piece.parts}, files.journal, None, done)
            self_lines.append(lines)

        self_lines: list[list[Line]] = []
        lane = Lane("lane", LaneLimits(max_concurrency=64))
        try:
            await Runner([lane], in_flight=self.width).run(jobs())
            for line in self_lines[0]:
                await files.add_lines(line.judge, [line.data])
        finally:
            files.close()

    def results(self) -> list[bytes]:
        return sorted((self.folder / "results.jsonl").read_bytes().splitlines())

    def keys(self) -> Counter[str]:
        """How often each finished step stands in the journal."""
        return Counter(record["key"] for record in read_jsonl(self.folder / "steps.jsonl") if record["ok"])

    def files(self) -> Files:
        judgments = self.folder / "judgments" / "judge.jsonl"
        lines = sorted(judgments.read_bytes().splitlines()) if judgments.exists() else []
        return Files(self.results(), lines, self.keys())

    def paid_twice(self) -> int:
        """Executions beyond one of each step."""
        return sum(n - 1 for n in self.world.begun.values())


def _add(lines: list[Line], more: tuple[Line, ...], failed: bool) -> None:
    lines += more
