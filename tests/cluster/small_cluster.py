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
from types import SimpleNamespace
from typing import Any

import orjson
from fake_limits import Allowance, ServerLimits

from cts_async.cluster.head import Head, WorkerLost
from cts_async.cluster.work import NeededFile, OpenWork, Task
from cts_async.cluster.worker import Replies, Setup, Worker, WorkerReady, WorkerTurn, WorkerUpdate
from cts_async.config import BudgetConfig, RunConfig
from cts_async.engine.budget import NOTHING, Budget, BudgetLimits
from cts_async.engine.events import Cost, Event, Events, Usage
from cts_async.engine.journal import read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.prices import Prices
from cts_async.engine.reuse import StepSource
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import Interrupted, RateLimited, RejectedError, StepError, UsageError
from cts_async.llm.limit_headers import quotas_in
from cts_async.protocol.run_files import EndedLines, RunFiles

Act = Callable[[str, int], None]
"""Called by a step with its label and how many times it was begun."""
MOST = Usage(40, 4)
PRICES = Prices(100.0, 100.0)


@dataclass
class World:
    """What happened in all processes together."""

    begun: Counter[str] = field(default_factory=Counter)
    """Executions that were begun, by job and step; those of `c` by its question."""
    done: Counter[str] = field(default_factory=Counter)
    spent: Cost = NOTHING
    fail: set[str] = field(default_factory=set)
    """Jobs of which step `c` is refused for good."""
    bug: str = ""
    """A job that runs into a bug."""
    gone: dict[str, Exception] = field(default_factory=dict)
    """By group, what its steps raise."""
    act: Act = lambda label, n: None
    seconds: float = 1.0
    server: ServerLimits = field(default_factory=lambda: ServerLimits(Allowance(headers="none")))
    """The provider, which counts strictly at the moment when a request is sent."""
    refused: int = 0
    most_at_once: int = 0
    sent_at: list[float] = field(default_factory=list)

    def step(self, ctx: Context, name: str, label: str, lane: Lane | None) -> Step[str]:
        """Takes up to `seconds` and uses up to MOST tokens, different for each label, and returns its label."""
        drawn = random.Random(label)
        seconds, used = self.seconds * drawn.random(), Usage(drawn.randint(0, MOST.input_tokens), 1)

        async def execute(problem: object) -> Executed:
            now = asyncio.get_running_loop().time()
            verdict = self.server.arrive(now, used.total)
            if not verdict.ok:
                self.refused += 1
                raise RateLimited("slower", retry_after_s=verdict.retry_after_s, status=429)
            self.sent_at.append(now)
            self.begun[label] += 1
            self.spent += Cost(1, used.total, PRICES.usd(used))
            self.most_at_once = max(self.most_at_once, self.server.in_flight)
            try:
                self.act(label, self.begun[label])
                await asyncio.sleep(seconds)
            finally:
                self.server.left()
            if label.removesuffix("/c") in self.fail:
                raise RejectedError("refused")
            if reason := self.gone.get(ctx.job.group):
                raise reason
            self.done[label] += 1
            headers = {name.lower(): value for name, value in verdict.headers.items()}
            return Executed(label, used, quotas=quotas_in(headers, asyncio.get_running_loop().time()))

        return Step(
            name=name,
            key=step_key(label),
            execute=execute,
            decode=lambda response: response,
            lane=lane,
            tokens=used.total,
            most_usage=lambda problem: MOST,
            prices=PRICES,
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
    limits: LaneLimits = field(default_factory=LaneLimits)
    files: Sequence[NeededFile] = ()

    def __reduce__(self) -> Any:
        return _the_work, (id(self),)

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: Any, *, workers: int
    ) -> AsyncIterator[OpenWork]:
        if self.refused:
            raise UsageError(self.refused)
        lanes = {name: lane_of(name, name, self.limits) for name in {self.lane("odd"), self.lane("even")}}
        yield self.bench(lanes)

    def bench(self, lanes: Mapping[str, Lane]) -> OpenWork:
        def walk_of(task: Task) -> Any:
            return partial(self.world.walk, task=task, lane=lanes[self.lane(task.group)])

        return OpenWork(tuple(lanes.values()), [self.width], walk_of, lines_of)


_WORKS: dict[int, SmallWork] = {}


def _the_work(number: int) -> SmallWork:
    return _WORKS[number]


def lines_of(task: Task, ended: list[str] | StepError) -> EndedLines:
    if isinstance(ended, StepError):
        return [(None, {"id": task.id, "error": str(ended)})]
    return [("judge", {"id": task.id}), (None, {"id": task.id, "steps": ended})]


class Link:
    """A worker in this loop. All messages go through pickle, and take up to `delay_s` each way."""

    def __init__(self, setup: Setup, cluster: Cluster) -> None:
        self.name = setup.worker
        self._cluster = cluster
        self._delays = random.Random(f"{cluster.seed}/{self.name}")
        self._dead = asyncio.Event()
        self.hangs = self.loses_update = False
        self.turns = 0
        self.worker = Worker(_travelled(setup), {})
        self._task = asyncio.create_task(self.worker.run())

    async def begin(self) -> WorkerReady:
        return await self._living(self._begin())

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate:
        self.turns += 1
        return await self._living(self._turn(turn))

    def give(self, replies: Replies) -> None:
        if not self.hangs:
            asyncio.get_running_loop().call_later(self._delay_s(), self.worker.give, _travelled(replies))

    def kill(self) -> None:
        self._dead.set()
        # Nothing waits for answers in a process that is dead.
        requests = self.worker.requests
        requests.ask = _ask_nobody  # type: ignore[method-assign]
        requests.stop(Interrupted("killed"), None)
        self._task.cancel()

    @property
    def dead(self) -> bool:
        return self._dead.is_set()

    @property
    def under_way(self) -> int:
        """Steps that would have to be done again if it were killed now."""
        runner = self.worker.runner
        lanes = sum(lane.in_flight for lane in runner.lanes) if runner else 0
        return lanes + len(self.worker.requests._waiting)

    async def _begin(self) -> WorkerReady:
        await asyncio.sleep(self._delay_s())
        return _travelled(await self.worker.begin())

    async def _turn(self, turn: WorkerTurn) -> WorkerUpdate:
        await asyncio.sleep(self._delay_s())
        if self.hangs:
            await asyncio.Event().wait()
        update = _travelled(await self.worker.turn(_travelled(turn)))
        if self.loses_update:
            raise WorkerLost("connection reset")
        await asyncio.sleep(self._delay_s())
        return update

    def _delay_s(self) -> float:
        return self._delays.uniform(0, self._cluster.delay_s)

    async def _living(self, answer: Any) -> Any:
        """What it answers, unless it is killed before."""
        answering, dying = asyncio.ensure_future(answer), asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait((answering, dying), return_when=asyncio.FIRST_COMPLETED)
            if self.dead:
                raise WorkerLost("killed")
            return await answering
        finally:
            for one in (answering, dying):
                one.cancel()
                with suppress(asyncio.CancelledError, WorkerLost):
                    await one


async def _ask_nobody(request: object, owner: object = None) -> Any:
    raise Interrupted("killed")


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
    question: Callable[[int], int] = lambda i: 0
    group: Callable[[int], str] = lambda i: "g"
    delay_s: float = 0.01
    seed: int = 0
    width: int = 4
    refused: str = ""
    lane: Callable[[str], str] = lambda group: "lane"
    """By group, the lane of its steps."""
    limits: LaneLimits = field(default_factory=LaneLimits)
    links: list[Link] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    on_event: Callable[[Event], None] = lambda event: None
    on_start: Callable[[Link], None] = lambda link: None
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    source: StepSource | None = None
    """Where steps of other runs are looked up."""

    def tasks(self, files: RunFiles) -> Iterator[Task]:
        again = files.may_have_steps
        for i in range(self.n):
            if files.needs_work(f"i{i}", retry_failed=False):
                yield Task(i, self.group(i), f"i{i}", 0, None, question=self.question(i), resumed=again)

    async def run(self, workers: int, meanwhile: Callable[[Head], Any] | None = None) -> None:
        """One session of the command; `meanwhile(head)` runs at the same time."""
        files, self.links = RunFiles(self.folder, source=self.source), []
        work = SmallWork(self.world, self.width, self.refused, self.lane, self.limits)
        _WORKS[id(work)] = work
        asked, events = self.budget, Events(self.events.append, self.on_event)
        lines = BudgetLimits(asked.max_calls, asked.max_tokens, asked.max_usd)
        budget = Budget(lines, events=events) if asked.is_limited else None
        cluster = SimpleNamespace(workers=workers, start_worker=self._start_worker, address="")
        head = Head(cluster, [files], [self.tasks(files)], work, RunConfig(budget=asked), budget, events)
        other = asyncio.ensure_future(meanwhile(head)) if meanwhile else None
        try:
            await head.run()
        finally:
            if other:
                other.cancel()
            for link in self.links:
                link.kill()
            await asyncio.gather(*(link._task for link in self.links), return_exceptions=True)
            files.close()

    async def _start_worker(self, setup: Setup) -> Link:
        link = Link(setup, self)
        self.links.append(link)
        self.on_start(link)
        return link

    async def run_alone(self) -> None:
        """The same jobs on one ordinary engine, in one process."""
        files, lines = RunFiles(self.folder, source=self.source), list[Any]()
        lane = Lane("lane", LaneLimits(max_concurrency=64))
        bench = SmallWork(self.world, self.width).bench({"lane": lane})

        def job(task: Task) -> Job:
            async def finish(ended: Any) -> None:
                lines.extend(bench.lines_of(task, ended))

            walk = bench.walk_of(task)
            is_shared = task.question != 0
            return Job(task.group, task.id, files.journal, walk, finish, shared=is_shared, source=self.source)

        try:
            await Runner([lane], in_flight=self.width).run(map(job, self.tasks(files)))
            for judge, line in lines:
                data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
                if judge is None:
                    await files.add_results(data, [len(data)])
                else:
                    await files.add_judgments(judge, data)
        finally:
            files.close()

    def results(self) -> list[bytes]:
        return sorted((self.folder / "results.jsonl").read_bytes().splitlines())

    def keys(self) -> Counter[str]:
        """How often each finished step stands in the journal."""
        return Counter(record["key"] for record in read_records(self.folder / "steps.jsonl") if record["ok"])

    def files(self) -> Files:
        judgments = self.folder / "judgments" / "judge.jsonl"
        lines = sorted(judgments.read_bytes().splitlines()) if judgments.exists() else []
        return Files(self.results(), lines, self.keys())

    def paid_twice(self) -> int:
        """Executions beyond one of each step."""
        return sum(n - 1 for n in self.world.begun.values())


@dataclass
class Killer:
    """Kills workers at given times (the number of one that lives), and counts what they had under way."""

    cluster: Cluster
    times: Sequence[tuple[float, int]]
    in_flight: int = 0

    async def __call__(self, head: Head) -> None:
        for at, which in sorted(self.times):
            await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
            if living := [link for link in self.cluster.links if not link.dead]:
                link = living[which % len(living)]
                self.in_flight += link.under_way
                link.kill()
