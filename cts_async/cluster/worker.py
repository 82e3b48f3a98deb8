"""A worker: the ordinary engine over tasks that the head deals out.

The head calls, a worker answers: a `WorkerTurn` brings tasks and answers, a `WorkerUpdate` says what has become of
tasks, and what the worker asks. A step counts as executed when the head has it in its journal.

There is one head for all workers, so a message has few objects, however many judgements are in it:

- tasks that are lines of a file come in blocks (`work.LineTasks`);
- permits are asked for, granted and reported in columns, by account (`PermitRequests`, `Grant`, `Reports`);
- lines for a file are one piece of bytes with the size of each, and what a summary counts of them is summed by the
  worker (`Records`, `EndedTasks`);
- ends of steps and tasks are sums, by group (`EndedSums`), unless somebody listens to each.
"""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import orjson

from cts_async import __version__
from cts_async.cluster.limits import (
    Grant,
    PermitRequests,
    Records,
    RemoteAccount,
    RemoteBudget,
    RemoteLane,
    Reports,
    Requests,
)
from cts_async.cluster.work import LineTasks, OpenWork, Task, Work, tasks_in
from cts_async.config import BudgetConfig
from cts_async.engine.account import LaneLimits
from cts_async.engine.events import (
    AttemptFailed,
    Cost,
    EndedSums,
    Event,
    Events,
    GroupBegan,
    GroupHeldUp,
    Notice,
    StepEnded,
    Stopping,
)
from cts_async.engine.journal import journal_line, step_line
from cts_async.engine.lane import Lane
from cts_async.engine.reuse import ReuseRule
from cts_async.engine.runner import Job, Runner
from cts_async.errors import CTSError, Interrupted, RunStopped, StepError
from cts_async.llm.redact import SECRETS
from cts_async.protocol.run import deadline_at
from cts_async.records import message, value
from cts_async.runs.journal import SpentPart
from cts_async.runs.results import VerdictColumns

TURN_S, TURNS_PER_S = 0.2, 250.0
"""A turn ends after TURN_S at the latest, or later with many workers: through Ray one costs the head 0.8 ms of CPU."""
BATCH_S, BATCHES_PER_S = 0.003, 1000.0
"""What is urgent waits so long for more to travel with, or longer with many workers."""
EASY_BATCH_S, EASY_BATCHES_PER_S = 0.02, 400.0
"""A worker's questions to the head wait so long with few workers already: a turn costs the head as much as some
judgements, and a model takes a hundred times as long to answer. With 8 workers these are 400 turns a second in all."""
FULL_BATCH: Final = 16
"""Questions that come within EASY_BATCH_S where work is quick: then they wait so long however few workers there are,
unless somebody waits for a permit. (Where they are fewer, waiting would not make turns much fewer.)"""
ENOUGH: Final = 1 / 2
"""The part of the tasks under way that may wait for the head: then nothing else is waited for."""
DATED_UPDATES: Final = 8
"""Updates of which a worker knows when they were sent; answers that are dated from earlier ones are too late."""

SENT: Final = (GroupBegan, StepEnded, AttemptFailed, Notice, GroupHeldUp)
URGENT: Final = (Notice, GroupHeldUp, Stopping)

T = TypeVar("T")


# --- Messages between the head and its workers


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is started with."""

    worker: str
    """Unique among all workers of the run."""
    workers: int
    """How many there are to be."""
    work: Work
    streams: int = 1
    seed: int = 0
    budget: BudgetConfig | None = None
    sums_ends: bool = False
    """Whether the head needs of ends of steps and jobs only their sums."""

    @property
    def reply_batch_s(self) -> float:
        """How long a reply of the head waits for others. Permits are replies: their time is short."""
        return max(BATCH_S, self.workers / BATCHES_PER_S)

    @property
    def batch_s(self) -> float:
        """How long a worker's question waits for others; up to EASY_BATCH_S where there are many."""
        easy_s = min(EASY_BATCH_S, self.workers / EASY_BATCHES_PER_S)
        return max(self.reply_batch_s, easy_s)


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker is ready. `refused` says why it cannot work on its machine; "" if it can."""

    host: str
    pid: int
    version: str
    in_flight: int = 1
    """Tasks of each stream to work on at once."""
    accounts: tuple[RemoteAccount, ...] = ()
    refused: str = ""


@value
class Lookup:
    """Asks the head for the record of a step, its own or another run's; the answer is a journal's line, or None."""

    run: int
    key: str
    rule: ReuseRule
    instance: str
    notes: Any = None


@message
class EndedLines:
    """Lines of tasks that have ended, for one file."""

    lines: bytearray = field(default_factory=bytearray)
    """One after the other."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of each line."""
    verdicts: VerdictColumns | None = None
    """What a summary counts of them; None where it reads them."""

    def add(self, line: bytes) -> None:
        self.lines += line
        self.sizes.append(len(line))


@message
class EndedTasks:
    """Tasks that have ended, with their lines for each file in one piece."""

    seqs: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """As the worker knows them; empty where ends are summed."""
    failures: dict[int, StepError] = field(default_factory=dict)
    """By `seq`, why tasks failed; empty where ends are summed."""
    results: dict[int, EndedLines] = field(default_factory=dict)
    """By the number of their run."""
    judgments: dict[tuple[int, str], EndedLines] = field(default_factory=dict)
    """By run and further judge."""


@value
class Replies:
    """Replies to requests, by number."""

    update: int
    """The number of the last update that the head had from the worker: grants are dated from their arrival."""
    by_number: Mapping[int, object]
    grants: tuple[Grant, ...] = ()
    """The permits among them."""


@value
class WorkerTurn:
    """The head's message to a worker."""

    replies: Replies
    tasks: tuple[Task | LineTasks, ...] = ()
    stop: str = ""
    """Why no new request is to be sent; "" to go on."""
    is_last: bool = False
    """Whether no more tasks will come."""
    permits_are_scarce: bool = False
    """Whether some request waits for a permit: each report of one that has ended lets another one go."""


@value
class WorkerUpdate:
    """A worker's message to the head."""

    number: int
    requests: tuple[tuple[int, Any], ...] = ()
    """Each a Lookup or Reserve, with its number."""
    permits: Mapping[str, PermitRequests] = field(default_factory=dict)
    """By account, requests for permits."""
    records: Mapping[int, Records] = field(default_factory=dict)
    """By the number of a run, steps for its journal."""
    withdrawn: tuple[int, ...] = ()
    """Requests that are not wanted any more, or whose answers came too late."""
    reports: Mapping[str, Reports] = field(default_factory=dict)
    """By account, what became of permits."""
    settled: tuple[tuple[int, Cost], ...] = ()
    """By number of the Reserve, what a call has cost."""
    ended: EndedTasks = field(default_factory=EndedTasks)
    events: tuple[Event, ...] = ()
    """What its engine emitted, but for ends of tasks, which the head counts, and what is summed."""
    sums: tuple[EndedSums, ...] = ()
    """By group, ends of steps and tasks where they are summed (`Setup.sums_ends`)."""
    accounts: tuple[RemoteAccount, ...] = ()
    """Accounts used since the last update: of models that custom roles ask for while they run."""
    stopped: RunStopped | None = None
    """What ended its work early."""
    crash: str = ""
    """Traceback of a bug."""
    over: bool = False
    """Whether this is the last."""


# --- The worker


class Worker:
    """`run` it, `begin`, then `turn` after turn, one at a time, until an update says that it is over."""

    def __init__(self, setup: Setup, environ: Mapping[str, str]) -> None:
        self._setup, self._environ = setup, environ
        self._events = Events(self._on_event)
        self._emitted: list[Event] = []
        self._sums: dict[str, EndedSums] = {}
        """By group."""
        self._wake = asyncio.Event()
        self._turn_timer: asyncio.TimerHandle | None = None
        self.requests = Requests(self._end_turn_soon)
        self._enough = 1.0
        """Questions to the head that end a turn at once."""
        self._permits_are_scarce = False
        self._questions_per_s = 0.0
        """Of the last turn."""
        self._turn_ended_at = 0.0
        self._journals: dict[int, RemoteJournal] = {}
        self._feeds = [_Feed(self._job) for _ in range(setup.streams)]
        self._ended = EndedTasks()
        self._opened = asyncio.Event()
        self._accounts: list[RemoteAccount] = []
        """Accounts that the head does not know yet."""
        self._opened_work: OpenWork | None = None
        self.runner: Runner | None = None
        self._refused = self._crash = ""
        self._stop_received = self._closed = False
        self._stopped: RunStopped | None = None
        self._n_updates = 0
        self._sent_at: dict[int, float] = {}
        """By number, when the last updates were sent; the first is from `begin`."""

    async def begin(self) -> WorkerReady:
        """Wait until everything is open, or cannot be (`WorkerReady.refused`)."""
        await self._opened.wait()
        self._note_sending()
        in_flight = 1
        if self._opened_work:
            in_flight = max(self._opened_work.in_flight)
        return WorkerReady(
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            in_flight=in_flight,
            accounts=_drain(self._accounts),
            refused=self._refused,
        )

    def give(self, replies: Replies) -> None:
        """Take answers, during a turn or between two."""
        self.requests.answer(replies.by_number, replies.grants, self._sent_at.get(replies.update, -inf))

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate:
        """Take what the head gives; return at once with what is urgent, else a little later with what there is."""
        self._take(turn)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(TURN_S, self._setup.workers / TURNS_PER_S)):
                await self._wake.wait()
        self._wake.clear()
        if self._turn_timer:
            self._turn_timer.cancel()
            self._turn_timer = None
        self._n_updates += 1
        self._note_sending()
        return self._take_update()

    async def run(self) -> None:
        """Work until the head says that no task is left, or that it stops. Errors go into an update."""
        setup = self._setup
        try:
            async with setup.work.opened(
                self._environ, self._events, self._lane, workers=setup.workers
            ) as work:
                self._opened_work = work
                self._enough = max(1.0, ENOUGH * sum(work.in_flight))
                self.runner = Runner(work.lanes, events=self._events, seed=setup.seed, budget=self._budget())
                if work.host:
                    work.host.on_lane = self.runner.add_lane
                self._opened.set()
                await self.runner.run(*self._feeds, in_flight=work.in_flight)
        except RunStopped as reason:
            self._stopped = reason
        except CTSError as error:
            self._refused = str(error)
        except Exception:  # a bug: the head gets the traceback
            self._crash = SECRETS.text(traceback.format_exc())
        finally:
            self._closed = True
            self._opened.set()
            self._wake.set()

    def _lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        remote = RemoteAccount(account, name, limits)
        self._accounts.append(remote)
        return RemoteLane(remote, self.requests)

    def _budget(self) -> RemoteBudget | None:
        config = self._setup.budget
        if config is None:
            return None
        return RemoteBudget(self.requests, deadline_at(config.deadline))

    def _job(self, task: Task) -> Job:
        assert self._opened_work is not None, "its runner asks for jobs"
        work, run = self._opened_work, task.run
        task = work.read(task)
        journal = self._journals.get(run)
        if journal is None:
            journal = self._journals[run] = RemoteJournal(run, self.requests, waits=not work.is_one_step)

        async def finish(ended: Any) -> None:
            # As bytes already: the head, of which there is one, only appends them.
            tasks = self._ended
            for judge, line in work.lines_of(task, ended):
                if judge is not None:
                    tasks.judgments.setdefault((run, judge), EndedLines()).add(journal_line(line))
                    continue
                results = tasks.results.setdefault(run, EndedLines())
                results.add(journal_line(line))
                if work.is_one_step:
                    if results.verdicts is None:
                        results.verdicts = VerdictColumns()
                    results.verdicts.add(line)
            tasks.seqs.append(task.seq)
            if self._setup.sums_ends:
                self._sums_of(task.group).add_job(failed=isinstance(ended, StepError))
            else:
                tasks.ids.append(task.id)
                if isinstance(ended, StepError):
                    tasks.failures[task.seq] = ended
            self._end_turn_soon()

        is_shared = task.question != 0
        # Another task of the same question may have been done, here or elsewhere.
        find = None
        if task.resumed or is_shared:
            find = partial(journal.find_at_head, task.id)
        return Job(task.group, task.id, journal, work.walk_of(task), finish, shared=is_shared, elsewhere=find)

    def _take(self, turn: WorkerTurn) -> None:
        self.give(turn.replies)
        self._permits_are_scarce = turn.permits_are_scarce
        for task in tasks_in(turn.tasks):
            self._feeds[task.stream].queue.put_nowait(task)
        if turn.stop and self.runner:
            # What is in flight is finished and reported; only then does `run` end.
            self._stop_received = True
            self.runner.stop(Interrupted(turn.stop))
        if turn.is_last:
            for feed in self._feeds:
                feed.close()

    def _take_update(self) -> WorkerUpdate:
        requests = self.requests
        permits, requests.permits = requests.permits, {}
        reports, requests.reports = requests.reports, defaultdict(Reports)
        records, requests.records = requests.records, {}
        ended, self._ended = self._ended, EndedTasks()
        sums, self._sums = self._sums, {}
        now = asyncio.get_running_loop().time()
        self._questions_per_s = requests.n_unsent / max(BATCH_S, now - self._turn_ended_at)
        self._turn_ended_at = now
        requests.n_unsent = 0
        # A stop that the head ordered is no news to it.
        stopped = None if self._stop_received else self._stopped
        return WorkerUpdate(
            self._n_updates,
            requests=_drain(requests.unsent),
            permits=permits,
            records=records,
            withdrawn=_drain(requests.withdrawn),
            reports=dict(reports),
            settled=_drain(requests.settled),
            ended=ended,
            events=_drain(self._emitted),
            sums=tuple(sums.values()),
            accounts=_drain(self._accounts),
            stopped=stopped,
            crash=self._crash,
            over=self._closed,
        )

    def _end_turn_soon(self) -> None:
        """End the turn under way a little later, or at once where much of the work here waits for the head."""
        if self.requests.n_unsent >= self._enough:
            self._wake.set()
        elif self._turn_timer is None:
            batch_s = self._setup.batch_s
            many = self._questions_per_s * EASY_BATCH_S >= FULL_BATCH
            if many and not self._permits_are_scarce:
                batch_s = max(batch_s, EASY_BATCH_S)
            self._turn_timer = asyncio.get_running_loop().call_later(batch_s, self._wake.set)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Stopping):
            # The runner asks for no more jobs, but it may be waiting for one.
            for feed in self._feeds:
                feed.stop()
        elif self._setup.sums_ends and isinstance(event, StepEnded):
            self._sums_of(event.group).add_step(event)
        elif isinstance(event, SENT):
            self._emitted.append(event)
        if isinstance(event, URGENT):
            self._wake.set()

    def _sums_of(self, group: str) -> EndedSums:
        """The sums of a group that are not sent yet."""
        sums = self._sums.get(group)
        if sums is None:
            sums = self._sums[group] = EndedSums(group)
        return sums

    def _note_sending(self) -> None:
        """Note when an update is sent."""
        self._sent_at[self._n_updates] = asyncio.get_running_loop().time()
        self._sent_at.pop(self._n_updates - DATED_UPDATES, None)


def _drain(queue: list[T]) -> tuple[T, ...]:
    """Empty a list, and return what was in it."""
    items = tuple(queue)
    queue.clear()
    return items


class _Feed:
    """The tasks of one stream for a `Runner`."""

    def __init__(self, job_of: Callable[[Task], Job]) -> None:
        self.queue: asyncio.Queue[Task | None] = asyncio.Queue()
        self._job_of, self._stopped = job_of, False

    async def next(self) -> tuple[int, Job] | None:
        task = await self.queue.get()
        if task is None or self._stopped:
            self.close()  # for others who wait
            return None
        return task.seq, self._job_of(task)

    def close(self) -> None:
        """There will be no more."""
        self.queue.put_nowait(None)

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True
        self.close()


class RemoteJournal:
    """An `engine.journal.StepMemory` of the steps that this worker has executed, which the head writes."""

    def __init__(self, run: int, requests: Requests, *, waits: bool) -> None:
        """With `waits`, `append` returns when the head has the step in its journal. Without, a step travels to it
        together with the result that it leads to, before which the head writes it."""
        self._run, self._requests, self._waits = run, requests, waits
        self._recent: dict[str, dict[str, Any]] = {}
        self._looked_for: Counter[str] = Counter()
        """How many look for a step at the head at present, by key."""
        self._to_forget: set[str] = set()
        """Those of their steps that need not be remembered for anybody else."""

    def find(self, key: str) -> dict[str, Any] | None:
        return self._recent.get(key)

    async def find_at_head(
        self, instance: str, key: str, rule: ReuseRule, notes: Any
    ) -> dict[str, Any] | None:
        """The record of a step that any process, or any other run, has executed."""
        self._looked_for[key] += 1
        try:
            _, line = await self._requests.ask(Lookup(self._run, key, rule, instance, notes))
            if line is None:
                # Another job may have executed it here meanwhile, and may have ended before this answer came.
                return self._recent.get(key)
        finally:
            self._looked_for[key] -= 1
            if not self._looked_for[key]:
                del self._looked_for[key]
                if key in self._to_forget:
                    self._to_forget.remove(key)
                    self._recent.pop(key, None)
        record: dict[str, Any] = orjson.loads(line)
        return record

    async def append(self, record: Mapping[str, Any]) -> None:
        key, line = None, step_line(record)
        if record["ok"]:  # a failed step is executed again
            key = record["key"]
        if self._waits:
            # Answered when the head has it on disk: only then may its result be used.
            await self._requests.append(self._run, key, line)
        else:
            records = self._requests.send_record(self._run, key, line)
            if records.part is None:
                records.part = SpentPart()
            records.part.add(record)
        if key is not None:
            self._recent[key] = dict(record)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self._looked_for:
                self._to_forget.add(key)
            else:
                self._recent.pop(key, None)

    def keep(self, keys: Iterable[str]) -> None:
        self.forget(keys)  # tasks of the same question ask the head
