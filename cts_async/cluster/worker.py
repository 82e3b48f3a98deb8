"""A worker: the ordinary engine over tasks that the head deals out, turn by turn."""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import anyio

from cts_async import __version__, errors
from cts_async.cluster.budget import AllowedBudget, allowed_budget
from cts_async.cluster.messages import Begun, Ended, Line, News, Task, Turn
from cts_async.cluster.work import Bench, Work
from cts_async.cluster.worker_events import EventCounter
from cts_async.cluster.worker_journal import HeadJournals, RemoteJournal
from cts_async.config import BudgetConfig
from cts_async.engine.account import LaneLimits
from cts_async.engine.budget import NOTHING
from cts_async.engine.events import Event, Events, GroupHeldUp, Stopping
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context, Job, Runner
from cts_async.errors import CTSError, Interrupted, ProviderGone, RunStopped
from cts_async.llm.redact import SECRETS

TURN_S, TURNS_PER_S = 0.2, 250.0
"""A turn ends after TURN_S at the latest, or later with many workers: one costs the head half a millisecond."""
GATHER_S, URGENT_PER_S = 0.003, 1000.0
"""Records and questions wait so long for others to travel with, or longer with many workers."""
SILENCE_S: Final = 15.0
"""Without a turn for so long the head is gone, or out of reach: nothing new is sent."""
NEWS_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is told once."""

    worker: str
    """Unique among all workers of the run."""
    workers: int
    """How many there are to be."""
    work: Work
    journal_of: tuple[int, ...]
    """By place, the number of its journal."""
    streams: int = 1
    seed: int = 0
    budget: BudgetConfig | None = None
    deadline_s: float | None = None
    """Seconds until the deadline, when this was sent."""


class Lanes(Protocol):
    """Where a worker's lanes come from (see `remote_lanes.RemoteLanes`)."""

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane: ...

    async def run(self) -> None: ...


class Worker:
    """`run` it, `begin`, then `turn` after turn, one at a time, until the news say that it is over."""

    def __init__(self, setup: Setup, environ: Mapping[str, str], *, lanes: Callable[[Events], Lanes]) -> None:
        self._setup, self._environ, self._lanes = setup, environ, lanes
        self._counter = EventCounter(self._on_event)
        self._events = Events(self._counter)
        self._wake = asyncio.Event()
        self._turn_s = max(TURN_S, setup.workers / TURNS_PER_S)
        self._gather_s = max(GATHER_S, setup.workers / URGENT_PER_S)
        self._gathering: asyncio.TimerHandle | None = None
        self._silence: asyncio.TimerHandle | None = None
        self.head = HeadJournals(self._gather)
        n_journals = max(setup.journal_of, default=-1) + 1
        self._journals = [RemoteJournal(number, self.head) for number in range(n_journals)]
        self.tasks = _Tasks(setup.streams, self._job, self._wake.set)
        self._opened = asyncio.Event()
        self._bench: Bench | None = None
        self.runner: Runner | None = None
        self._budget: AllowedBudget | None = None
        self._refused = self._crash = ""
        self._told_to_stop = self._closed = False
        self._stopped: RunStopped | None = None

    async def begin(self) -> Begun:
        """Wait until everything is open, or cannot be (`Begun.refused`)."""
        await self._opened.wait()
        self._listen()
        in_flight = self._bench.in_flight if self._bench else 1
        return Begun(socket.gethostname(), os.getpid(), __version__, in_flight, self._refused)

    async def turn(self, turn: Turn) -> News:
        """Take what the head gives; return at once with what is urgent, else a little later with what there is."""
        if self._silence:
            self._silence.cancel()
        self._take(turn)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._turn_s):
                await self._wake.wait()
        self._wake.clear()
        if self._gathering:
            self._gathering.cancel()
            self._gathering = None
        news = self._news()
        self._listen()
        return news

    async def run(self) -> None:
        """Work until the head says that no task is left, that it stops, or nothing at all. Errors go into the news."""
        try:
            async with anyio.create_task_group() as beside:
                lanes = self._lanes(self._events)
                beside.start_soon(lanes.run)
                try:
                    async with self._setup.work.opened(
                        self._environ, self._events, lanes.lane, workers=self._setup.workers
                    ) as bench:
                        await self._run_tasks(bench)
                except RunStopped as reason:
                    self._stopped = reason
                except CTSError as error:
                    self._refused = str(error)
                beside.cancel_scope.cancel()
        except Exception:  # a bug: whoever started this is told, with the traceback
            self._crash = SECRETS.text(traceback.format_exc())
        finally:
            self.tasks.stop()
            self._closed = True
            self._opened.set()
            self._wake.set()

    async def _run_tasks(self, bench: Bench) -> None:
        setup, self._bench = self._setup, bench
        self._budget = allowed_budget(setup.budget, setup.deadline_s, self._wake.set)
        self.runner = Runner(bench.lanes, events=self._events, seed=setup.seed, budget=self._budget)
        self._opened.set()
        widths = [bench.width(stream) for stream in range(setup.streams)]
        await self.runner.run(*self.tasks.feeds, in_flight=widths)

    def _job(self, task: Task, done: Callable[[tuple[Line, ...], bool], None]) -> Job:
        assert self._bench is not None, "its runner asks for jobs"
        journal = self._journals[self._setup.journal_of[task.place]]
        # Another task of the same question may have been done, here or elsewhere.
        known = task.resumed or task.question
        return self._bench.job(task, journal, journal.find_at_head if known else None, done)

    def _take(self, turn: Turn) -> None:
        self.head.acknowledge(turn.acknowledged)
        self.head.answer(turn.found)
        if self._budget and turn.allowed:
            self._budget.allow(turn.allowed)
        if turn.stop and self.runner:
            self._told_to_stop = True
            self.runner.stop(Interrupted(turn.stop))
        elif not self._closed:
            self.tasks.take(turn.tasks)
        if turn.last:
            self.tasks.close()

    def _news(self) -> News:
        ended, size = self.tasks.take_ended(NEWS_BYTES)
        records = self.head.take_records(NEWS_BYTES - size)
        over = self._closed and not self.tasks.ended and not self.head.pending
        if self.tasks.ended or self.head.pending:
            self._wake.set()
        reason = None if self._told_to_stop else self._stopped
        # Where a provider is gone for some groups only, the others were done to the end.
        partly = isinstance(reason, ProviderGone) and self.runner is not None and not self.runner.stopped
        budget = self._budget
        return News(
            ended=ended,
            returned=self.tasks.take_returned(),
            in_hand=len(self.tasks),
            asked=self.head.take_questions(),
            records=records,
            counts=self._counter.take_counts(),
            spent=budget.spent if budget else NOTHING,
            reserved=budget.reserved if budget else NOTHING,
            short=budget.short if budget else None,
            lanes=self._counter.lanes(),
            events=self._counter.take_events(),
            stopped=None if partly else pack_reason(reason),
            held_up=pack_reason(reason) if partly else None,
            crash=self._crash,
            over=over,
        )

    def _gather(self) -> None:
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(self._gather_s, self._wake.set)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, GroupHeldUp):
            self.tasks.drop(event.group)
        elif isinstance(event, Stopping):
            self.tasks.stop()
        self._wake.set()

    def _listen(self) -> None:
        if not self._closed:
            self._silence = asyncio.get_running_loop().call_later(SILENCE_S, self._head_is_gone)

    def _head_is_gone(self) -> None:
        reason = Interrupted(f"nothing was heard from the head for {SILENCE_S:.0f} s")
        self._told_to_stop = True
        self.head.lose(reason)
        if self.runner:
            self.runner.stop(reason)


def pack_reason(reason: RunStopped | None) -> tuple[str, str] | None:
    """A reason as it travels: its class and its text."""
    return None if reason is None else (type(reason).__name__, str(reason))


def unpack_reason(packed: tuple[str, str]) -> RunStopped:
    """The reason again; a plain RunStopped with the same text where its class takes more than a text."""
    name, text = packed
    try:
        reason = getattr(errors, name, RunStopped)(text)
    except TypeError:
        return RunStopped(text)
    return reason if isinstance(reason, RunStopped) else RunStopped(text)


class _Feed:
    """The tasks of one stream for a `Runner`; a task that is not in `pending` any more is skipped."""

    def __init__(self, begin: Callable[[Task], Job], pending: Mapping[int, Task]) -> None:
        self._begin, self._pending = begin, pending
        self.queue = asyncio.Queue[Task | None]()

    async def next(self) -> tuple[int, Job] | None:
        while task := await self.queue.get():
            if task.seq in self._pending:
                return task.seq, self._begin(task)
        self.queue.put_nowait(None)  # for others who wait
        return None


class _Tasks:
    """The tasks that a worker has: to be begun, under way, and ended. `wake` is called when few are left to begin."""

    def __init__(
        self,
        streams: int,
        job_of: Callable[[Task, Callable[[tuple[Line, ...], bool], None]], Job],
        wake: Callable[[], None],
    ) -> None:
        self._pending: dict[int, Task] = {}
        self._under_way: set[int] = set()
        self.feeds: Sequence[_Feed] = [_Feed(self._begin, self._pending) for _ in range(streams)]
        self.ended: deque[Ended] = deque()
        self._job_of, self._wake = job_of, wake
        self._held_up: set[str] = set()
        self._returned: list[int] = []
        self._low_water = 0

    def __len__(self) -> int:
        """Tasks that have not ended."""
        return len(self._under_way) + len(self._pending)

    def take(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.group in self._held_up:
                self._returned.append(task.seq)
            else:
                self._pending[task.seq] = task
                self.feeds[task.stream].queue.put_nowait(task)
        if tasks:
            self._low_water = max(1, len(self._pending) // 2)

    def close(self) -> None:
        """There will be no more."""
        for feed in self.feeds:
            feed.queue.put_nowait(None)

    def stop(self) -> None:
        """Nothing more is begun."""
        self._pending.clear()
        self.close()

    def drop(self, group: str) -> None:
        """A group is held up: nothing more of it is begun."""
        self._held_up.add(group)
        for seq in [seq for seq, task in self._pending.items() if task.group == group]:
            del self._pending[seq]
            self._returned.append(seq)

    def take_ended(self, max_bytes: int) -> tuple[tuple[Ended, ...], int]:
        """Tasks that have ended, at least one if there is any, with lines of so many bytes, and their bytes."""
        taken: list[Ended] = []
        total = 0
        while self.ended:
            size = sum(len(line.data) for line in self.ended[0].lines)
            if taken and total + size > max_bytes:
                break
            taken.append(self.ended.popleft())
            total += size
        return tuple(taken), total

    def take_returned(self) -> tuple[int, ...]:
        returned, self._returned = self._returned, []
        return tuple(returned)

    def _begin(self, task: Task) -> Job:
        del self._pending[task.seq]
        self._under_way.add(task.seq)
        if len(self._pending) < self._low_water:
            self._low_water = 0
            self._wake()
        context: Context | None = None

        def done(lines: tuple[Line, ...], failed: bool) -> None:
            executed, steps = (len(context.executed), context.steps) if context else (0, 0)
            self.ended.append(Ended(task.seq, lines, failed, executed, steps))
            self._left(task)

        job = self._job_of(task, done)

        async def walk(ctx: Context) -> Any:
            nonlocal context
            context = ctx
            try:
                return await job.walk(ctx)
            except RunStopped:
                if task.group in self._held_up:
                    self._returned.append(task.seq)
                self._left(task)
                raise

        return replace(job, walk=walk)

    def _left(self, task: Task) -> None:
        self._under_way.discard(task.seq)
        if not len(self):
            self._wake()
