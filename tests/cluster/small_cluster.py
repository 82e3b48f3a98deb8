"""A cluster in one virtual-time loop: heads and workers as they are, over links that delay, lose and die.

Its work is small jobs: `a`, then `b/1` and `b/2` side by side, then `c`, which jobs with the same question share.
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

from cts_async.cluster.head import Head, WorkerLost
from cts_async.cluster.messages import Begun, Line, News, Task, Turn
from cts_async.cluster.work import Done, FindAtHead, NeededFile
from cts_async.cluster.worker import Lanes, Setup, Worker
from cts_async.config import BudgetConfig, RunConfig
from cts_async.engine.budget import Budget, Lines
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

    async def walk(self, ctx: Context, task: Task, lane: Lane | None) -> list[str]:
        if task.id == self.bug:
            raise ZeroDivisionError("a bug")
        step = partial(self.step, ctx, lane=lane)
        first = await ctx.step(step("a", f"{task.id}/a"))
        second = await ctx.gather([partial(ctx.step, step(f"b/{i}", f"{task.id}/b{i}")) for i in (1, 2)])
        about = f"q{task.question}" if task.question else task.id
        return [first, *second, await ctx.step(step("c", f"{about}/c"))]


@dataclass
class SmallWork:
    world: World
    width: int = 4
    refused: str = ""
    lane: Callable[[str], str] = lambda group: "lane"
    max_concurrency: int = 64

    def __reduce__(self) -> Any:
        return _the_work, (id(self),)

    @property
    def files(self) -> Sequence[NeededFile]:
        return ()

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: Any, *, workers: int
    ) -> AsyncIterator[SmallBench]:
        if self.refused:
            raise UsageError(self.refused)
        limits = LaneLimits(max_concurrency=self.max_concurrency)
        lanes = {name: lane_of(name, name, limits) for name in {self.lane("odd"), self.lane("even")}}
        yield SmallBench(self.world, self.width, lanes, self.lane)


_WORKS: dict[int, SmallWork] = {}


def _the_work(number: int) -> SmallWork:
    return _WORKS[number]


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
        task: Task,
        journal: StepMemory,
        find: FindAtHead | None,
        done: Done,
    ) -> Job:
        walk = partial(self.world.walk, task=task, lane=self.by_name[self.lane(task.group)])
        finish = partial(_finish, task=task, done=done)
        return Job(task.group, task.id, journal, walk, finish, shared=task.question != 0, elsewhere=find)


async def _finish(ended: list[str] | StepError, *, task: Task, done: Done) -> None:
    failed = isinstance(ended, StepError)
    result = {"id": task.id, **({"error": str(ended)} if failed else {"steps": ended})}
    lines = [Line(task.place, None, _line(result))]
    if not failed:
        lines.insert(0, Line(task.place, "judge", _line({"id": task.id})))
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
        runner = self.worker.runner
        lanes = sum(lane.in_flight for lane in runner.lanes) if runner else 0
        return lanes + len(self.worker.head._unacknowledged)

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
class _Place:
    """Where the head finds its workers."""

    workers: int
    hire: Any
    gone: Callable[[str], None]
    address: str = ""


@dataclass
class Cluster:
    """A run directory, and heads that work on it one after the other."""

    folder: Path
    world: World = field(default_factory=World)
    n: int = 40
    question: Callable[[int], int] = lambda i: 0
    group: Callable[[int], str] = lambda i: "g"
    delay_s: float = 0.01
    seed: int = 0
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
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    lines: Lines = field(default_factory=Lines)
    gone: Callable[[str], None] = lambda worker: None

    def tasks(self, files: RunFiles) -> Iterator[Task]:
        again = len(files.journal) > 0
        for i in range(self.n):
            if files.needs_work(f"i{i}", retry_failed=False):
                yield Task(i, self.group(i), f"i{i}", 0, None, question=self.question(i), resumed=again)

    async def run(self, workers: int, meanwhile: Callable[[Head], Any] | None = None) -> None:
        """One session of the command; `meanwhile(head)` runs beside it."""
        files, self.links = RunFiles(self.folder), []
        work = SmallWork(self.world, self.width, self.refused, self.lane, self.max_concurrency)
        _WORKS[id(work)] = work
        config = RunConfig(budget=self.budget)
        budget = Budget(self.lines, events=Events(self.events.append)) if self.budget.given else None
        place = _Place(workers, self._hire, self.gone)
        events = Events(self.events.append, self.on_event)
        head = Head(place, [files], [self.tasks(files)], work, config, budget, events)
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
            for task in self.tasks(files):
                done = partial(_add, lines)
                yield bench.job(task, files.journal, None, done)
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
