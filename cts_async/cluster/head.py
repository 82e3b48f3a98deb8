"""The head: deals tasks to workers, keeps the limits, writes all files, and replaces workers that are lost."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from socket import gethostname
from typing import Final, Protocol, TypeVar

import anyio
import anyio.abc

from cts_async import __version__
from cts_async.cluster.limits import Grant, Limits, Reserve, Terms, WorkerShare
from cts_async.cluster.work import (
    CampaignWork,
    JudgingWork,
    Leases,
    LineTasks,
    Task,
    Work,
    campaign_tasks,
    judging_tasks,
)
from cts_async.cluster.worker import (
    EndedTasks,
    Lookup,
    Replies,
    Setup,
    WorkerReady,
    WorkerTurn,
    WorkerUpdate,
)
from cts_async.config import JudgeConfig, RunConfig
from cts_async.engine.budget import Budget
from cts_async.engine.events import (
    AttemptFailed,
    Event,
    Events,
    GroupHeldUp,
    JobEnded,
    Notice,
    StepEnded,
    Stopping,
    WorkersInUse,
    WorkerState,
    WorkerStatus,
)
from cts_async.engine.journal import Journal, journal_line
from cts_async.engine.reuse import line_within
from cts_async.engine.signals import stoppable
from cts_async.errors import CTSError, ProviderDown, RunStopped, UsageError, reason_to_stop
from cts_async.protocol.plan import CommandPlan, Plan
from cts_async.protocol.rejudge import JudgePlan, open_verdicts
from cts_async.protocol.run import open_budget, open_runs
from cts_async.protocol.run_files import RunFiles, SessionNotes
from cts_async.protocol.systems import System

T = TypeVar("T")

START_TIMEOUT_S: Final = 600.0
"""A worker may have to load an index first."""
TURN_TIMEOUT_S: Final = 20.0
"""A worker that does not answer for so long is lost."""
RELEASE_AFTER_S: Final = 60.0
"""What a silent worker has under way has ended by then: its slots may go to others."""
MAX_LOST: Final = 5
"""Workers lost in a row, with no task finished in between, before the run stops."""


class WorkerLost(Exception):
    """A worker's process has ended; `str()` says why."""


class WorkerSilent(WorkerLost):
    """A worker does not answer, but its process may still run."""


class WorkerCrashed(Exception):
    """A bug ended a worker; `str()` has its traceback."""


class WorkerLink(Protocol):
    """A worker, as the head has it. Of `begin` and `turn` one is under way at a time; both raise WorkerLost."""

    async def begin(self) -> WorkerReady: ...

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate: ...

    def give(self, replies: Replies) -> None:
        """Send answers without waiting, besides the turns."""

    def kill(self) -> None:
        """End its process; safe at any time."""


class Cluster(Protocol):
    """Where workers come from."""

    @property
    def workers(self) -> int: ...

    @property
    def address(self) -> str:
        """As the user has typed it; "" for this machine."""

    async def start_worker(self, setup: Setup) -> WorkerLink:
        """Start a worker. Raises WorkerLost."""


async def run_on_cluster(
    cluster: Cluster, plan: CommandPlan, environ: Mapping[str, str], events: Events
) -> None:
    """Execute the plan of a run or of judging on a cluster: the same files and errors as in one process."""
    if isinstance(plan, JudgePlan):
        await _run_judging(cluster, plan, events)
    elif isinstance(plan, Plan):
        await _run_plan(cluster, plan, events)
    else:
        raise TypeError(f"no cluster executes {plan!r}")


async def _run_plan(cluster: Cluster, plan: Plan, events: Events) -> None:
    def head(files: Mapping[System, RunFiles]) -> Head:
        places = list(files.values())
        work, budget = CampaignWork.from_plan(plan), open_budget(plan, events)
        return Head(cluster, places, [campaign_tasks(plan, files)], work, plan.config, budget, events)

    await _run(lambda notes: open_runs(plan, events, session_notes=notes), head)


async def _run_judging(cluster: Cluster, plan: JudgePlan, events: Events) -> None:
    def head(files: list[RunFiles]) -> Head:
        work, budget = JudgingWork.from_plan(plan), open_budget(plan, events)
        return Head(cluster, files, judging_tasks(plan, files, events), work, plan.config, budget, events)

    await _run(lambda notes: open_verdicts(plan, events, session_notes=notes), head)


async def _run(
    opened: Callable[[SessionNotes], AbstractContextManager[T]], head_of: Callable[[T], Head]
) -> None:
    heads: list[Head] = []

    def session_notes() -> dict[str, int]:
        # The files are opened before there is a head, and ask for its notes when they are closed.
        if not heads:
            return {}
        return worker_counts(heads[0].workers)

    async with stoppable() as stopper:
        with opened(session_notes) as files:
            heads.append(head_of(files))
            stopper.stop = heads[0].stop
            await heads[0].run()


def worker_counts(workers: Sequence[WorkerStatus]) -> dict[str, int]:
    """How many workers a session had, on how many hosts, and how many it lost, for a run's manifest."""
    hosts = [worker.host for worker in workers if worker.state not in ("starting", "lost")]
    n_lost = sum(worker.state == "lost" for worker in workers)
    return {"workers": len(hosts), "hosts": len(set(hosts)), "lost": n_lost}


class _WorkerEntry:
    """A worker as the head knows it."""

    def __init__(self, name: str, batch_s: float, limits: Limits) -> None:
        self.link: WorkerLink | None = None
        self._name, self._host, self._pid, self._note = name, "", 0, ""
        self._state: WorkerState = "starting"
        self._n_held = self._n_ended = self._n_calls = 0
        self.in_flight = 1
        self.share = WorkerShare(limits, self._answer, self._grant)
        self.answers: dict[int, object] = {}
        """Answers that are not sent yet, by the request's number."""
        self._granted: defaultdict[Terms, list[int]] = defaultdict(list)
        """Requests that are answered with permits, and do not know it yet."""
        self._batch_s = batch_s
        self._reply_timer: asyncio.TimerHandle | None = None
        self._reply_within_s = 0.0
        """The time that the timer was given."""
        self._loop = asyncio.get_running_loop()
        self._last_update, self._heard_at = 0, self._loop.time()

    @property
    def name(self) -> str:
        return self._name

    @property
    def host(self) -> str:
        """ "" while it is not known."""
        return self._host

    @property
    def status(self) -> WorkerStatus:
        """A snapshot; in any thread."""
        # Made when somebody asks: a worker that is busy changes it hundreds of times a second.
        heard_s = max(0.0, self._loop.time() - self._heard_at)
        return WorkerStatus(
            name=self._name,
            host=self._host,
            pid=self._pid,
            state=self._state,
            in_hand=self._n_held,
            ended=self._n_ended,
            calls=self._n_calls,
            heard_s=heard_s,
            note=self._note,
        )

    def became_ready(self, ready: WorkerReady) -> None:
        self._heard_at, self.in_flight = self._loop.time(), ready.in_flight
        self._host, self._pid, self._state = ready.host, ready.pid, "idle"

    def received(self, update: WorkerUpdate) -> None:
        """Note that the worker is alive, and what it has called."""
        self._last_update, self._heard_at = update.number, self._loop.time()
        for event in update.events:
            # A step without a lane has asked no provider.
            if type(event) is StepEnded and event.lane and not event.replayed:
                self._n_calls += 1
        for sums in update.sums:
            self._n_calls += sums.calls

    def note_tasks(self, n_held: int, n_ended: int) -> None:
        """Record how many tasks it holds, and how many more have ended."""
        self._state = "idle"
        if n_held:
            self._state = "working"
        self._n_held = n_held
        self._n_ended += n_ended

    def take_replies(self) -> Replies:
        """Remove and return the answers that are not sent yet."""
        if self._reply_timer:
            self._reply_timer.cancel()
            self._reply_timer = None
        answers, self.answers = self.answers, {}
        grants = []
        for (at, lease_s, in_outage, is_last), numbers in self._granted.items():
            # No clocks are compared: as it travels, it counts from when the worker's last update came.
            grants.append(Grant(at - self._heard_at, lease_s, in_outage, is_last, numbers))
        self._granted.clear()
        return Replies(self._last_update, answers, tuple(grants))

    def end(self, state: WorkerState, note: str = "") -> None:
        self._state, self._note, self._n_held = state, note, 0

    def kill(self) -> None:
        if self.link:
            self.link.kill()

    def _answer(self, number: int, answer: object) -> None:
        """Send an answer with the next turn, or a little later by itself and with others."""
        self.answers[number] = answer
        self._reply_within(self._batch_s)

    def _grant(self, numbers: Sequence[int], terms: Terms) -> None:
        """Answer requests with permits, as `_answer` does."""
        self._granted[terms] += numbers
        _, lease_s, _, _ = terms
        # A permit must not use up much of its time here, however many workers there are.
        self._reply_within(min(self._batch_s, lease_s / 4))

    def _reply_within(self, within_s: float) -> None:
        if self._reply_timer is not None:
            if self._reply_within_s <= within_s:
                return
            self._reply_timer.cancel()
        self._reply_timer = self._loop.call_later(within_s, self._send_replies)
        self._reply_within_s = within_s

    def _send_replies(self) -> None:
        if self.link and (self.answers or self._granted):
            self.link.give(self.take_replies())


class Head:
    """`run` it once; `stop` it like a Runner."""

    def __init__(
        self,
        cluster: Cluster,
        runs: Sequence[RunFiles],
        streams: Sequence[Iterator[Task | LineTasks]],
        work: Work,
        config: RunConfig | JudgeConfig,
        budget: Budget | None,
        events: Events,
    ) -> None:
        self._cluster, self._work, self._config, self._events = cluster, work, config, events
        self._runs = runs
        self._streams = [Leases(tasks) for tasks in streams]
        self._budget = budget
        self._entries: list[_WorkerEntry] = []
        self._session = os.urandom(3).hex()
        self._starting: set[anyio.CancelScope] = set()
        self._n_ended = 0
        self._copying = asyncio.Lock()
        self._passed_on: set[Event] = set()
        """Events of which every worker has its own, and which are passed on once."""
        self._stopped: Exception | None = None
        self._held_up: RunStopped | None = None

    @property
    def workers(self) -> Sequence[WorkerStatus]:
        """All workers that there are or were; in any thread."""
        return [entry.status for entry in list(self._entries)]

    @property
    def _over(self) -> bool:
        return all(leases.over for leases in self._streams)

    @property
    def _ending(self) -> bool:
        return self._stopped is not None or self._over

    def stop(self, reason: Exception) -> None:
        """Deal nothing more; what is in flight is finished and recorded. The first reason counts."""
        if self._stopped is None:
            self._stopped = reason
            self._events.emit(Stopping(_first_line(reason)))
            self._cancel_starting()

    async def run(self) -> None:
        """Do all tasks. Raises RunStopped if that ended early, UsageError where workers cannot do them at all.

        Cancelled, it ends the workers at once.
        """
        self._events.emit(WorkersInUse(lambda: self.workers, self._cluster.workers, self._cluster.address))
        try:
            if not self._ending:
                # Ends after the workers: what silent ones have under way is released by it, and lanes are dispatched.
                async with anyio.create_task_group() as background:
                    limits = Limits(self._budget, self._events, background, self.stop)
                    async with anyio.create_task_group() as workers:
                        for _ in range(self._cluster.workers):
                            workers.start_soon(self._supervise, limits, background)
                    background.cancel_scope.cancel()
            # No turn sees it where nothing was left to do besides.
            self._stop_where_a_stream_broke_off()
            if not self._ending:
                self.stop(RunStopped("no worker is left. Completed work is saved; rerun to resume."))
        finally:
            for entry in self._entries:
                entry.kill()
        reason = self._stopped or self._held_up
        if reason:
            raise reason

    async def _supervise(self, limits: Limits, background: anyio.abc.TaskGroup) -> None:
        """Run one worker, and another in its place when it is lost, until nothing is left to do."""
        n_lost, n_ended = 0, self._n_ended
        while not self._ending:
            name = f"w{len(self._entries) + 1}-{self._session}"
            setup = self._setup(name)
            entry = _WorkerEntry(name, setup.reply_batch_s, limits)
            self._entries.append(entry)
            try:
                link = await self._start(entry, setup, limits, is_replacement=n_lost > 0)
                if link is not None:
                    await self._serve(entry, link)
                return
            except WorkerLost as lost:
                self._lose(entry, str(lost))
                if isinstance(lost, WorkerSilent):
                    background.start_soon(_release_later, entry.share)
                else:
                    entry.share.free()
                # In a row are those between which no worker at all has finished a task.
                if self._n_ended > n_ended:
                    n_lost, n_ended = 0, self._n_ended
                n_lost += 1
                if n_lost == MAX_LOST:
                    self.stop(
                        RunStopped(
                            f"{MAX_LOST} workers died in a row without finishing a task (last error: {lost}). "
                            "Completed work is saved; rerun to resume."
                        )
                    )
            finally:
                entry.kill()

    async def _start(
        self, entry: _WorkerEntry, setup: Setup, limits: Limits, *, is_replacement: bool
    ) -> WorkerLink | None:
        """A worker that is ready; None where it cannot do the work, or is not needed any more. Raises WorkerLost."""
        with anyio.CancelScope() as scope:
            self._starting.add(scope)
            try:
                entry.link = await self._cluster.start_worker(setup)
                ready = await _answer(entry.link.begin(), START_TIMEOUT_S)
            finally:
                self._starting.discard(scope)
        if scope.cancelled_caught:
            entry.end("ended")
            return None
        problem = _problem(ready)
        if problem:
            entry.end("lost", problem)
            if is_replacement:
                self._events.emit(Notice(f"{problem}; the other workers continue"))
            else:  # before anything is paid
                self.stop(UsageError(problem))
            return None
        limits.open(ready.accounts)
        entry.became_ready(ready)
        return entry.link

    def _setup(self, worker: str) -> Setup:
        return Setup(
            worker=worker,
            workers=self._cluster.workers,
            work=self._work,
            streams=len(self._streams),
            seed=self._config.seed,
            budget=self._config.budget if self._budget else None,
            sums_ends=self._events.takes_sums,
        )

    async def _serve(self, entry: _WorkerEntry, link: WorkerLink) -> None:
        """Exchange turns with a worker until it has ended. Raises WorkerLost."""
        for leases in self._streams:
            leases.joined(entry.name, entry.in_flight)
        while True:
            turn = self._turn(entry)
            update = await _answer(link.turn(turn), TURN_TIMEOUT_S)
            entry.received(update)
            await self._take(entry, update)
            if update.over:
                break
        if not self._ending:
            raise WorkerLost("it ended before its work was done")
        entry.end("ended")
        entry.share.lose()
        entry.share.free()

    def _turn(self, entry: _WorkerEntry) -> WorkerTurn:
        replies = entry.take_replies()
        self._stop_where_a_stream_broke_off()
        if self._ending:
            reason = _first_line(self._stopped) if self._stopped else ""
            return WorkerTurn(replies, stop=reason, is_last=True)
        tasks: list[Task | LineTasks] = []
        for leases in self._streams:
            tasks += leases.deal(entry.name)
        return WorkerTurn(replies, tuple(tasks), permits_are_scarce=entry.share.limits.somebody_waits)

    def _stop_where_a_stream_broke_off(self) -> None:
        """Stop once a stream that could not be read to its end has nothing left to do."""
        for leases in self._streams:
            if leases.broken_off:
                self.stop(leases.broken_off)

    async def _take(self, entry: _WorkerEntry, update: WorkerUpdate) -> None:
        """Write what a worker brings: records first, since results say that all steps are in the journal."""
        self._take_requests(entry, update)
        try:
            await self._append(entry, update)
        except CTSError as reason:
            # What is not in the journal is not done: the worker goes, and with it what it believes to have recorded.
            self.stop(reason_to_stop(reason) or reason)
            raise WorkerLost(f"its records could not be written ({reason})") from None
        ends = self._note_ended(entry, update.ended)
        try:
            await self._write(update.ended)
        except CTSError as reason:
            self.stop(reason_to_stop(reason) or reason)
        self._pass_on(update.events, ends)
        for sums in update.sums:
            self._events.emit_sums(sums)
        self._apply_end(entry, update)

    def _note_ended(self, entry: _WorkerEntry, ended: EndedTasks) -> list[JobEnded]:
        """Record what tasks have ended, and return their ends, but for those that the worker has summed.

        Raises WorkerLost for tasks that it does not have.
        """
        tasks: dict[int, Task | LineTasks] = {}
        n_held = 0
        for leases in self._streams:
            tasks |= leases.ended(entry.name, ended.seqs)
            n_held += leases.n_held(entry.name)
        if len(tasks) != len(ended.seqs):
            # Its results are not written, and what is no worker's task any more is dealt to nobody.
            problem = f"{entry.name} has ended tasks that it did not have"
            self.stop(RunStopped(f"{problem}. Completed work is saved; rerun to resume."))
            raise WorkerLost(problem)
        entry.note_tasks(n_held, len(tasks))
        self._n_ended += len(tasks)
        if not ended.ids:
            return []
        ends = []
        for seq, id in zip(ended.seqs, ended.ids, strict=True):
            ends.append(JobEnded(tasks[seq].group, id, ended.failures.get(seq)))
        return ends

    def _take_requests(self, entry: _WorkerEntry, update: WorkerUpdate) -> None:
        """Pass on what concerns the limits."""
        now = asyncio.get_running_loop().time()
        entry.share.limits.open(update.accounts)
        for account, reports in update.reports.items():
            entry.share.report(account, reports, now)
        for number, cost in update.settled:
            entry.share.settle(number, cost)
        for account, requests in update.permits.items():
            entry.share.admit(account, requests, now)
        for number, request in update.requests:
            if type(request) is Reserve:
                entry.share.reserve(number, request)
        # Last: a request may be withdrawn in the update that makes it.
        for number in update.withdrawn:
            entry.share.withdraw(number)

    async def _append(self, entry: _WorkerEntry, update: WorkerUpdate) -> None:
        """Append steps to their journals and acknowledge them, and look up others."""
        # Each run's in one write, as bytes: what a line has in it is the worker's to know.
        for run_number, records in update.records.items():
            journal = self._runs[run_number].journal
            await journal.append_lines(records.lines, records.sizes, records.keys, records.part)
        for records in update.records.values():
            entry.answers.update(dict.fromkeys(records.numbers))
        # After the records: a task may look for a step of the same update.
        entry.answers |= await self._find_steps(update.requests)

    async def _find_steps(self, requests: Iterable[tuple[int, object]]) -> dict[int, bytes | None]:
        """The lines that answer the Lookups among these requests; what only other runs have is copied first."""
        found: dict[int, bytes | None] = {}
        missing: list[tuple[int, Lookup]] = []
        for number, request in requests:
            if type(request) is Lookup:
                run = self._runs[request.run]
                found[number] = run.journal.raw(request.key)
                if found[number] is None and run.source is not None:
                    missing.append((number, request))
        if not missing:
            return found
        # One update after the other: a step that several tasks look up at the same time is copied once.
        async with self._copying:
            copied = _CopiedLines()
            for number, request in missing:
                found[number] = copied.find(self._runs[request.run], request)
            for journal, lines in copied.by_journal.items():
                sizes = [len(line) for line in lines.values()]
                await journal.append_lines(b"".join(lines.values()), sizes, list(lines))
        # Only now: what a worker uses has to be in the run's own journal.
        return found

    async def _write(self, ended: EndedTasks) -> None:
        for (run, judge), judgments in ended.judgments.items():
            await self._runs[run].add_judgments(judge, judgments.lines)
        # Results last: an instance with a result is never done again, so nothing of it may be missing.
        for run, results in ended.results.items():
            await self._runs[run].add_results(results.lines, results.sizes, results.verdicts)

    def _pass_on(self, events: Iterable[Event], jobs: Iterable[JobEnded]) -> None:
        """Emit a worker's events, and the ends of its tasks, as those of the whole run; ends in one batch."""
        ends: list[StepEnded | JobEnded] = []
        for event in events:
            if type(event) is StepEnded:
                ends.append(event)
                continue
            if ends:
                self._events.emit_ends(ends)
                ends = []
            self._pass_on_other(event)
        ends += jobs
        if ends:
            self._events.emit_ends(ends)

    def _pass_on_other(self, event: Event) -> None:
        # Failed attempts are counted; a notice of every worker is one notice.
        if not isinstance(event, AttemptFailed):
            if event in self._passed_on:
                return
            self._passed_on.add(event)
        self._events.emit(event)
        if isinstance(event, GroupHeldUp):
            for leases in self._streams:
                leases.drop(event.group)
            gone = f"{event.lane or 'a provider'} is gone. Completed work is saved; rerun to resume."
            self._held_up = self._held_up or ProviderDown(gone)

    def _apply_end(self, entry: _WorkerEntry, update: WorkerUpdate) -> None:
        """Apply to the whole run what ended in a worker."""
        if update.crash:
            self.stop(WorkerCrashed(f"{entry.name} on {entry.host} crashed\n{update.crash}"))
        if self._over:
            # Nothing is left to stop: the reason is told at the end.
            self._held_up = update.stopped or self._held_up
            self._cancel_starting()
        elif update.stopped:
            self.stop(update.stopped)

    def _lose(self, entry: _WorkerEntry, reason: str) -> None:
        entry.end("lost", reason)
        entry.share.lose()
        tasks: list[Task] = []
        for leases in self._streams:
            tasks += leases.lost(entry.name)
        if self._stopped is not None:
            return
        worker = f"worker {entry.name}"
        if entry.host:
            worker += f" on {entry.host}"
        dealt_again = f"{tasks[0].id} is" if len(tasks) == 1 else f"{len(tasks)} tasks are"
        self._events.emit(Notice(f"lost {worker} ({reason}); {dealt_again} given to others"))

    def _cancel_starting(self) -> None:
        for scope in self._starting:
            scope.cancel()


async def _answer(answering: Awaitable[T], limit_s: float) -> T:
    """A worker's answer. Raises WorkerLost."""
    try:
        async with asyncio.timeout(limit_s):
            return await answering
    except TimeoutError:
        raise WorkerSilent(f"no answer for {limit_s:.0f} s") from None


async def _release_later(share: WorkerShare) -> None:
    await anyio.sleep(RELEASE_AFTER_S)
    share.free()


class _CopiedLines:
    """Steps of other runs that are to be appended to the journals of runs that look for them."""

    def __init__(self) -> None:
        self.by_journal: defaultdict[Journal, dict[str, bytes]] = defaultdict(dict)
        """Lines by key, in order."""

    def find(self, run: RunFiles, lookup: Lookup) -> bytes | None:
        """The line of a step that the run has by now, or is copied from another one; None if no run has it."""
        line = self._line(run.journal, lookup.key)
        if line is not None:
            return line
        assert run.source is not None, "otherwise there is nothing to copy"
        reused = run.source.find(lookup.key, lookup.rule, lookup.notes)
        if reused is None:
            return None
        lines = self.by_journal[run.journal]
        # Those of the steps within it first.
        for record in reused.within:
            if self._line(run.journal, record["key"]) is None:
                lines[record["key"]] = journal_line(line_within(reused, record, lookup.instance))
        line = journal_line(line_within(reused, reused.record, lookup.instance))
        lines[lookup.key] = line
        return line

    def _line(self, journal: Journal, key: str) -> bytes | None:
        for place in (journal, *journal.siblings):
            line = self.by_journal[place].get(key)
            if line is not None:
                return line
        return journal.raw(key)


def _problem(ready: WorkerReady) -> str:
    """Why a worker cannot do the work; "" if it can."""
    if ready.version != __version__:
        return f"{ready.host} has cts_async {ready.version}, this machine has {__version__}: install the same version"
    if ready.refused and ready.host != gethostname():
        return f"{ready.host}: {ready.refused}"
    return ready.refused


def _first_line(reason: Exception) -> str:
    return str(reason).partition("\n")[0]
