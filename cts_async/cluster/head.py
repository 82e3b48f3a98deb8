"""The head: deals tasks to workers, writes all files, and replaces workers that are lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from socket import gethostname
from typing import Final, Protocol, TypeVar

import anyio
import anyio.abc

from cts_async import __version__
from cts_async.cluster.budget import BudgetPool
from cts_async.cluster.leases import Leases
from cts_async.cluster.messages import Begun, Ended, News, StepRef, Task, Turn
from cts_async.cluster.work import CampaignWork, JudgingWork, Work, campaign_tasks, judging_tasks
from cts_async.cluster.worker import Setup, unpack_reason
from cts_async.cluster.worker_events import EventAggregator
from cts_async.config import JudgeConfig, RunConfig
from cts_async.engine.budget import Budget
from cts_async.engine.events import Events, GroupHeldUp, Notice, Stopping, WorkersInUse
from cts_async.engine.signals import stoppable
from cts_async.engine.worker_status import WorkerState, WorkerStatus, census
from cts_async.errors import CTSError, ProviderDown, RunStopped, UsageError
from cts_async.protocol.plan import Plan
from cts_async.protocol.rejudge import JudgePlan, open_verdicts
from cts_async.protocol.rejudge import budget_of as judging_budget_of
from cts_async.protocol.run import budget_of, open_runs
from cts_async.protocol.run_files import Also, RunFiles
from cts_async.protocol.systems import System

T = TypeVar("T")

HUNG_S: Final = 20.0
"""A worker that does not answer for so long is lost; by then it has stopped by itself (`worker.SILENCE_S`)."""
PATIENCE_S: Final = 60.0
"""What a silent worker has under way has ended by then: its slots may go to others."""
MISSED_S: Final = 10.0
MAX_LOST: Final = 5
"""Workers lost in a row, with no task finished in between, before the run stops."""
FOUND_BYTES: Final = 4_000_000
"""Records in one turn."""


class WorkerLost(Exception):
    """A worker's process has ended; `str()` says why."""


class WorkerSilent(WorkerLost):
    """A worker does not answer, but its process may still run."""


class WorkerCrashed(Exception):
    """A bug ended a worker; `str()` has its traceback."""


class WorkerLink(Protocol):
    """A worker, as the head has it. Of `begin` and `turn` one is under way at a time; both raise WorkerLost."""

    async def begin(self) -> Begun: ...

    async def turn(self, turn: Turn) -> News: ...

    def kill(self) -> None:
        """End its process; safe at any time."""


class Cluster(Protocol):
    """Where workers come from."""

    @property
    def workers(self) -> int: ...

    @property
    def address(self) -> str:
        """As the user has typed it; "" for this machine."""

    async def hire(self, setup: Setup) -> WorkerLink:
        """Start a worker. Raises WorkerLost."""

    def gone(self, worker: str) -> None:
        """Tell the limiter that nothing of a worker's is under way any more."""


async def run_campaign_on(cluster: Cluster, plan: Plan, environ: Mapping[str, str], events: Events) -> None:
    """`run_campaign` on a cluster: the same files, and the same errors."""

    def head(files: Mapping[System, RunFiles]) -> Head:
        places = list(files.values())
        streams = [campaign_tasks(plan, files, resumed=_resumed(places))]
        budget = budget_of(plan, files, events)
        return Head(cluster, places, streams, CampaignWork.of(plan), plan.config, budget, events)

    await _run(lambda also: open_runs(plan, events, also=also), head)


async def run_judging_on(
    cluster: Cluster, plan: JudgePlan, environ: Mapping[str, str], events: Events
) -> None:
    """`run_judging` on a cluster: the same files, and the same errors."""

    def head(files: list[RunFiles]) -> Head:
        streams = judging_tasks(plan, files, events, resumed=_resumed(files))
        budget = judging_budget_of(plan, events)
        return Head(cluster, files, streams, JudgingWork.of(plan), plan.config, budget, events)

    await _run(lambda also: open_verdicts(plan, events, also=also), head)


async def _run(opened: Callable[[Also], AbstractContextManager[T]], head_of: Callable[[T], Head]) -> None:
    heads: list[Head] = []
    async with stoppable() as stopper:
        with opened(lambda: census(heads[0].workers) if heads else {}) as files:
            heads.append(head_of(files))
            stopper.watch(heads[0])
            await heads[0].run()


def _resumed(places: Sequence[RunFiles]) -> bool:
    return any(len(files.journal) for files in places)


class _Member:
    """A worker as the head knows it."""

    def __init__(self, name: str) -> None:
        self.link: WorkerLink | None = None
        self.status = WorkerStatus(name, "", 0, "starting")
        self.in_flight = 1
        self.acknowledged = 0
        self.asked: list[StepRef] = []
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()

    @property
    def name(self) -> str:
        return self.status.name

    @property
    def heard_s(self) -> float:
        return max(0.0, self._loop.time() - self._heard_at)

    def began(self, begun: Begun) -> None:
        self._heard_at, self.in_flight = self._loop.time(), begun.in_flight
        self.status = replace(self.status, host=begun.host, pid=begun.pid, state="idle")

    def heard(self, news: News, n_ended: int) -> None:
        self._heard_at = self._loop.time()
        before = self.status
        self.status = replace(
            before,
            state="working" if news.in_hand else "idle",
            in_hand=news.in_hand,
            ended=before.ended + n_ended,
            calls=before.calls + sum(count.calls for count in news.counts if count.lane),
        )

    def end(self, state: WorkerState, note: str = "") -> None:
        self.status = replace(self.status, state=state, note=note, in_hand=0)

    def kill(self) -> None:
        if self.link:
            self.link.kill()


class Head:
    """`run` it once; `stop` it like a Runner."""

    def __init__(
        self,
        cluster: Cluster,
        places: Sequence[RunFiles],
        streams: Sequence[Iterator[Task]],
        work: Work,
        config: RunConfig | JudgeConfig,
        budget: Budget | None,
        events: Events,
    ) -> None:
        self._cluster, self._work, self._config, self._events = cluster, work, config, events
        self._places, self._n_streams = places, len(streams)
        self._journals = list(dict.fromkeys(files.journal for files in places))
        self._leases = Leases(streams)
        self._budget = config.budget if budget else None
        self._pool = BudgetPool(budget.lines, budget.spent, events) if budget else None
        self._aggregator = EventAggregator(events)
        self._members: list[_Member] = []
        self._session = os.urandom(3).hex()
        self._starting: set[anyio.CancelScope] = set()
        self._n_ended = 0
        self._stopped: Exception | None = None
        self._held_up: RunStopped | None = None

    @property
    def workers(self) -> Sequence[WorkerStatus]:
        """All workers that there are or were; in any thread."""
        return [replace(member.status, heard_s=member.heard_s) for member in list(self._members)]

    @property
    def _ending(self) -> bool:
        return self._stopped is not None or self._leases.over

    def stop(self, reason: Exception) -> None:
        """Deal nothing more; what is in flight is finished and recorded. The first reason counts."""
        if self._stopped is None:
            self._stopped = reason
            self._events.emit(Stopping(_first_line(reason)))
            self._hire_no_more()

    async def run(self) -> None:
        """Do all tasks. Raises RunStopped if that ended early, UsageError where workers cannot do them at all.

        Cancelled, it ends the workers at once.
        """
        self._events.emit(WorkersInUse(lambda: self.workers, self._cluster.workers, self._cluster.address))
        try:
            if not self._ending:
                async with anyio.create_task_group() as beside:
                    beside.start_soon(self._report_missing)
                    async with anyio.create_task_group() as places:
                        for _ in range(self._cluster.workers):
                            places.start_soon(self._keep_worker, beside)
                    beside.cancel_scope.cancel()
            if not self._ending:
                self.stop(RunStopped("no worker is left. Completed work is saved; rerun to resume."))
        finally:
            for member in self._members:
                member.kill()
        if reason := self._stopped or self._held_up:
            raise reason

    async def _keep_worker(self, beside: anyio.abc.TaskGroup) -> None:
        """Have one worker at work, and another in its place when it is lost, until nothing is left to do."""
        in_a_row, n_ended = 0, self._n_ended
        while not self._ending:
            member = _Member(f"w{len(self._members) + 1}-{self._session}")
            self._members.append(member)
            try:
                link = await self._start(member, first=in_a_row == 0)
                if link is not None:
                    await self._serve(member, link)
                    self._cluster.gone(member.name)
                return
            except WorkerLost as lost:
                self._lose(member, str(lost))
                if isinstance(lost, WorkerSilent):
                    beside.start_soon(self._gone_later, member.name)
                else:
                    self._cluster.gone(member.name)
                in_a_row = in_a_row + 1 if self._n_ended == n_ended else 1
                n_ended = self._n_ended
                if in_a_row == MAX_LOST:
                    self.stop(
                        RunStopped(
                            f"{MAX_LOST} workers died in a row without finishing a task (last error: {lost}). "
                            "Completed work is saved; rerun to resume."
                        )
                    )
            finally:
                member.kill()

    async def _start(self, member: _Member, *, first: bool) -> WorkerLink | None:
        """A worker that is ready; None where it cannot do the work, or is not needed any more. Raises WorkerLost."""
        problem = ""
        with anyio.CancelScope() as scope:
            self._starting.add(scope)
            try:
                member.link = await self._cluster.hire(self._setup(member.name))
                begun = await member.link.begin()
                problem = _problem(begun)
            except UsageError as error:
                problem = str(error)
            finally:
                self._starting.discard(scope)
        if scope.cancelled_caught:
            member.end("ended")
            return None
        if problem:
            member.end("lost", problem)
            self._cluster.gone(member.name)
            if first:  # before anything is paid
                self.stop(UsageError(problem))
            else:
                self._events.emit(Notice(f"{problem}; the other workers continue"))
            return None
        member.began(begun)
        return member.link

    def _setup(self, worker: str) -> Setup:
        deadline = self._budget.deadline if self._budget else None
        return Setup(
            worker=worker,
            workers=self._cluster.workers,
            work=self._work,
            journal_of=tuple(self._journals.index(files.journal) for files in self._places),
            streams=self._n_streams,
            seed=self._config.seed,
            budget=self._budget,
            deadline_s=None if deadline is None else deadline - time.time(),
        )

    async def _serve(self, member: _Member, link: WorkerLink) -> None:
        """Turn after turn, until the worker is over. Raises WorkerLost."""
        self._leases.joined(member.name, member.in_flight)
        if self._pool:
            self._pool.joined(member.name)
        while True:
            turn = self._turn(member)
            try:
                async with asyncio.timeout(HUNG_S):
                    news = await link.turn(turn)
            except TimeoutError:
                raise WorkerSilent(f"no answer for {HUNG_S:.0f} s") from None
            await self._take(member, news)
            if news.over:
                break
        if not (turn.last or news.stopped or news.crash):
            raise WorkerLost("it has heard nothing for too long")
        member.end("ended")
        self._aggregator.gone(member.name)
        if self._pool:
            self._pool.left(member.name)

    def _turn(self, member: _Member) -> Turn:
        allowed = self._pool.allow(member.name) if self._pool else None
        found = self._find(member.asked)
        if self._ending:
            stop = _first_line(self._stopped) if self._stopped else ""
            return Turn((), found, member.acknowledged, allowed, stop, last=True)
        tasks = self._leases.deal(member.name)
        if failure := self._leases.failure:
            self.stop(failure)
        self._aggregator.dealt(tasks)
        return Turn(tuple(tasks), found, member.acknowledged, allowed)

    def _find(self, asked: list[StepRef]) -> Mapping[StepRef, bytes | None]:
        """The records of the first of these steps, as many as one turn holds; they are taken from the list."""
        found: dict[StepRef, bytes | None] = {}
        size = 0
        while asked and size <= FOUND_BYTES:
            number, key = step = asked.pop(0)
            found[step] = self._journals[number].raw(key)
            size += len(found[step] or b"")
        return found

    async def _take(self, member: _Member, news: News) -> None:
        """Write what a worker brings: records first, since results say that all steps are in the journal."""
        member.asked += news.asked
        try:
            await self._append(news.records)
        except CTSError as reason:
            self.stop(reason)
            raise WorkerLost(f"its records could not be written ({reason})") from None
        member.acknowledged += len(news.records)
        now = asyncio.get_running_loop().time()
        ended = self._leases.ended(member.name, [one.seq for one in news.ended], now)
        had = {task.seq: task for task in ended}
        member.heard(news, len(had))
        self._n_ended += len(had)
        try:
            await self._write(one for one in news.ended if one.seq in had)
        except CTSError as reason:
            self.stop(reason)
        self._leases.returned(member.name, news.returned)
        self._aggregator.heard(member.name, news, had)
        self._conclude(member, news)

    async def _append(self, records: Iterable[tuple[int, bytes]]) -> None:
        by_journal: defaultdict[int, list[bytes]] = defaultdict(list)
        for number, line in records:
            by_journal[number].append(line)
        for number, lines in by_journal.items():
            await self._journals[number].append_lines(lines)

    async def _write(self, ended: Iterable[Ended]) -> None:
        by_file: defaultdict[tuple[int, str | None], list[bytes]] = defaultdict(list)
        for one in ended:
            for line in one.lines:
                by_file[line.place, line.judge].append(line.data)
        # Results last: an instance with a result is never done again, so nothing of it may be missing.
        for (place, judge), lines in sorted(by_file.items(), key=lambda item: item[0][1] is None):
            await self._places[place].add_lines(judge, lines)

    def _conclude(self, member: _Member, news: News) -> None:
        """What a worker's news mean for the whole run."""
        for event in news.events:
            if isinstance(event, GroupHeldUp):
                self._leases.drop(event.group)
                gone = f"{event.lane or 'a provider'} is gone. Completed work is saved; rerun to resume."
                self._held_up = self._held_up or ProviderDown(gone)
        if news.held_up:
            self._held_up = unpack_reason(news.held_up)
        if news.crash:
            self.stop(WorkerCrashed(f"{member.name} on {member.status.host} crashed\n{news.crash}"))
        if news.stopped:
            self.stop(unpack_reason(news.stopped))
        if self._pool:
            self._pool.heard(member.name, news)
            if spent := self._pool.spent():
                self.stop(spent)
        if self._leases.over:
            self._hire_no_more()

    def _lose(self, member: _Member, reason: str) -> None:
        member.end("lost", reason)
        self._aggregator.gone(member.name)
        if self._pool:
            self._pool.lost(member.name)
        had = self._leases.lost(member.name)
        if self._stopped is None:
            where = f" on {member.status.host}" if member.status.host else ""
            what = f"{had[0].id} is" if len(had) == 1 else f"{len(had)} tasks are"
            self._events.emit(Notice(f"lost worker {member.name}{where} ({reason}); {what} given to others"))

    async def _gone_later(self, worker: str) -> None:
        await anyio.sleep(PATIENCE_S)
        self._cluster.gone(worker)

    def _hire_no_more(self) -> None:
        for scope in self._starting:
            scope.cancel()

    async def _report_missing(self) -> None:
        await anyio.sleep(MISSED_S)
        missing = sum(member.status.state == "starting" for member in self._members)
        if missing:
            self._events.emit(
                Notice(
                    f"{missing} of {self._cluster.workers} workers have not started after {MISSED_S:.0f} s, perhaps "
                    "because no CPU is free; the others continue"
                )
            )


def _problem(begun: Begun) -> str:
    """Why a worker cannot do the work; "" if it can."""
    if begun.version != __version__:
        return f"{begun.host} has cts_async {begun.version}, this machine has {__version__}: install the same version"
    elsewhere = begun.host and begun.host != gethostname() and begun.host not in begun.refused.split()
    return f"{begun.host}: {begun.refused}" if begun.refused and elsewhere else begun.refused


def _first_line(reason: Exception) -> str:
    return str(reason).partition("\n")[0]
