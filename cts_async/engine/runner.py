"""Runs jobs: ordinary async code made of steps, many at once, each step recorded in a journal.

Resuming is running the same code again. Long-lived workers take jobs from a stream in order, so memory does not grow
with the input, and every wait serves the oldest job first, so results appear steadily.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from cts_async.engine.budget import NOTHING, Budget
from cts_async.engine.events import (
    AttemptFailed,
    Events,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    Notice,
    StepEnded,
    Stopping,
    Usage,
)
from cts_async.engine.journal import StepMemory
from cts_async.engine.lane import Lane, Permit
from cts_async.engine.reuse import ReusedStep, ReuseRule, StepSource, line_within, reused_line
from cts_async.engine.step import (
    NO_USAGE,
    Attempts,
    Executed,
    Failures,
    RetryPolicy,
    Step,
    charge_of,
    is_unsent,
    wait_before_retry,
)
from cts_async.errors import (
    DeadlineReached,
    Interrupted,
    NoFreeDescriptor,
    ProviderGone,
    RequestForbidden,
    RunStopped,
    StepError,
    TooManyOpenFiles,
    TransientError,
    UnusableOutput,
    UsageError,
    reason_to_stop,
)
from cts_async.records import value

T = TypeVar("T")

_OF_ANOTHER_FORM = (UnusableOutput, KeyError, TypeError, ValueError, AttributeError)
"""What reading a recorded response raises that another version, or a stranger, has written."""


@value
class Job:
    """The work for one item: `walk` makes steps through its Context, `finish` records how it ended.

    `group` names the run it belongs to (several may share one engine); `id` is unique within it. The steps of a
    `shared` job may be those of other shared jobs, too: the first to come executes a step, the others wait for it, and
    all get the same result or the same failure.
    """

    group: str
    id: str
    journal: StepMemory
    walk: Callable[[Context], Awaitable[Any]]
    finish: Callable[[Any], Awaitable[None]]
    """Called once with what `walk` returned, or with the StepError that ended it."""
    shared: bool = False
    elsewhere: Callable[[str, ReuseRule, Any], Awaitable[dict[str, Any] | None]] | None = None
    """Looks up the record of a step that the journal does not have: another process may have executed it, or taken it
    from another run."""
    source: StepSource | None = None
    """Where steps of other runs are looked up; None: nothing is taken from other runs here."""


def _seconds_of(record: Mapping[str, Any]) -> float:
    """How long the last attempt of a recorded step took, in seconds; 0 for a record that does not say it."""
    latency_s = record.get("latency_s")
    if isinstance(latency_s, int | float) and latency_s > 0:
        return latency_s
    return 0.0


class Feed(Protocol):
    """A stream of jobs that is filled while it is being worked on."""

    async def next(self) -> tuple[int, Job] | None:
        """The next job with its number, lower for older ones; None when there will be no more."""


class _Stream:
    """An iterable of jobs as a Feed: the n-th jobs of all streams are equally old."""

    def __init__(self, jobs: Iterable[Job], start: int, n_streams: int) -> None:
        self._numbered: Iterator[tuple[int, Job]] = zip(count(start, n_streams), jobs, strict=False)

    async def next(self) -> tuple[int, Job] | None:
        return next(self._numbered, None)


class Context:
    """What a job sees of the engine: durable steps, concurrency, and a random generator of its own."""

    __slots__ = ("_rng", "_runner", "branch", "copied", "executed", "further", "job", "seconds", "seq")

    def __init__(self, runner: Runner, job: Job, seq: int) -> None:
        self._runner, self.job, self.seq = runner, job, seq
        self.branch = ""
        """The part of the job whose steps these are, see `apart`; "" for all others."""
        self._rng: random.Random | None = None
        self.seconds = 0.0
        """What the last attempts of its steps took together, also where they were executed before."""
        self.executed: list[str] = []
        """Keys of the steps that were executed here and not found in the journal."""
        self.copied: list[str] = []
        """Keys of the steps that were taken from other runs."""
        self.further: dict[str, Mapping[str, Any]] = {}
        """By step, what its response has for people alone; steps that have something note it here."""

    @property
    def rng(self) -> random.Random:
        """The job's own generator, made on first use, since seeding one is slow."""
        if self._rng is None:
            # Seeded from strings: the same on every machine and in every process.
            self._rng = random.Random(f"{self._runner.seed}/{self.job.group}/{self.job.id}")
        return self._rng

    async def step(self, step: Step[T]) -> T:
        """The step's result: from the journal if it has one, else from another run, else executed and recorded.

        Raises StepError when it fails for good, RunStopped when the run is ending.
        """
        record, reused = self.job.journal.find(step.key), False
        if record is None and self.job.elsewhere is not None:
            record = await self.job.elsewhere(step.key, step.reuse, None)
            reused = record is not None and "reused" in record
        if record is not None:
            try:
                result = step.decode(record["response"])
            except _OF_ANOTHER_FORM:
                pass  # written by a version that accepted more: execute it again
            else:
                self.seconds += _seconds_of(record)
                self._runner.step_ended(self, step, replayed=True, reused=reused)
                return result
        if self.job.shared:
            return await self._runner.execute_once(self, step)
        if self.job.source is None:
            # On the way of every call of a first run: each coroutine in between is woken with every wait of the step.
            self.executed.append(step.key)
            return await self._runner.execute(self, step)
        return await self._runner.obtain(self, step)

    async def recall(self, key: str, notes: Any = None) -> Any:
        """The response recorded under `key`, here or by another version, None if there is none; nothing is executed.

        Of another version only a step with the same `notes` counts, unless these are None.
        """
        record = self.job.journal.find(key)
        if record is None and self.job.elsewhere is not None:
            record = await self.job.elsewhere(key, ReuseRule.SAMPLED, notes)
        if record is None and self.job.source is not None:
            reused = self.job.source.find(key, ReuseRule.SAMPLED, notes)
            if reused is not None:
                record = line_within(reused, reused.record, self.job.id)
                await self.copy(reused, record)
        if record is None:
            return None
        return record["response"]

    async def copy(self, reused: ReusedStep, line: Mapping[str, Any]) -> None:
        """Append a step of another run to the journal, as `line`, and before it the steps that were made within it."""
        for record in reused.within:
            if self.job.journal.find(record["key"]) is None:
                await self.job.journal.append(line_within(reused, record, self.job.id))
                self.copied.append(record["key"])
        await self.job.journal.append(line)
        self.copied.append(line["key"])

    def apart(self, branch: str) -> Context:
        """The same job, for steps that hold up no others: a provider that is gone ends only steps of this `branch`.

        The run ends with that reason all the same, once everything else is done.
        """
        part = Context(self._runner, self.job, self.seq)
        part._rng, part.executed, part.branch = self._rng, self.executed, branch
        part.copied, part.further = self.copied, self.further
        return part

    async def gather(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Run the calls concurrently and return their results in order.

        A failure waits for the others, which are paid for already; then the first in order is raised, or RunStopped if
        the run is ending.
        """
        # A task group of one costs 22 us (measured), more than the journal's part of a step.
        if len(calls) == 1:
            return [await calls[0]()]
        results, errors = await self._run_all(calls)
        if errors:
            for error in errors.values():
                if isinstance(error, RunStopped):
                    raise error
            raise errors[min(errors)]
        return [results[i] for i in range(len(calls))]

    async def settle(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | StepError | ProviderGone]:
        """Run independent calls concurrently: their results in order, each failure in the place of its own result.

        Raises RunStopped, once all have ended, for any reason that concerns more than one provider.
        """
        results, errors = await self._run_all(calls)
        ends: dict[int, T | StepError | ProviderGone] = dict(results)
        for i, error in errors.items():
            if not isinstance(error, StepError | ProviderGone):
                raise error
            ends[i] = error
        return [ends[i] for i in range(len(calls))]

    async def _run_all(
        self, calls: Sequence[Callable[[], Awaitable[T]]]
    ) -> tuple[dict[int, T], dict[int, StepError | RunStopped]]:
        """Run the calls concurrently, each to its end: results and errors by place."""
        results: dict[int, T] = {}
        errors: dict[int, StepError | RunStopped] = {}

        async def fill(i: int, call: Callable[[], Awaitable[T]]) -> None:
            try:
                results[i] = await call()
            except (StepError, RunStopped) as error:
                errors[i] = error

        async with anyio.create_task_group() as group:
            for i, call in enumerate(calls):
                group.start_soon(fill, i, call)
        return results, errors


class Runner:
    """The engine: lanes, workers, retries and a way to stop; it owns no files."""

    def __init__(
        self,
        lanes: Iterable[Lane] = (),
        *,
        events: Events | None = None,
        policy: RetryPolicy | None = None,
        seed: int = 0,
        in_flight: int = 64,
        clock: Callable[[], float] = time.time,
        budget: Budget | None = None,
    ) -> None:
        self.lanes = list(lanes)
        self.events = Events()
        if events is not None:
            self.events = events
        self._listens = bool(self.events)
        """Whether somebody listens: otherwise the events of every call are not made."""
        self.policy = policy or RetryPolicy()
        self.seed = seed
        self._in_flight = in_flight
        self._clock = clock
        self._budget = budget
        self.stopped: RunStopped | None = None
        """The reason why the run is ending early, if it is."""
        self._begun: set[str] = set()
        """Groups with a job that has begun."""
        self._held_up: dict[str, RunStopped] = {}
        """Groups that need a provider which is gone."""
        self._branches_held_up: dict[str, ProviderGone] = {}
        """Branches of jobs that need one: nothing else waits for them."""
        self._late: DeadlineReached | None = None
        self._shared: dict[str, asyncio.Future[StepError | None]] = {}
        """Steps of shared jobs that one of them is executing, or has failed to execute."""
        # Not a job's own generator: what a job draws must not depend on how often it had to wait.
        self._jitter = random.Random(f"{seed}/jitter")
        self._stop_event = asyncio.Event()
        self._dispatchers: TaskGroup | None = None

    def stop(self, reason: RunStopped) -> None:
        """Start nothing new; what is in flight is finished and recorded. The first reason counts."""
        if self.stopped is None:
            self.stopped = reason
            self.events.emit(Stopping(str(reason)))
            self._stop_event.set()
            for lane in self.lanes:
                lane.stop(reason)
            if self._budget:
                self._budget.stop(reason)

    async def run(self, *streams: Iterable[Job] | Feed, in_flight: Sequence[int] = ()) -> None:
        """Run all jobs. Raises RunStopped if the run ended early, with everything so far recorded.

        Each stream has workers of its own, so that a slow one holds up no other: `in_flight` by stream, by default as
        many as the runner was given. A feed numbers its jobs itself, and has to end when the run is stopped.
        """
        n_workers = in_flight or [self._in_flight] * len(streams)
        async with anyio.create_task_group() as dispatchers:
            self._dispatchers = dispatchers
            for lane in self.lanes:
                dispatchers.start_soon(lane.dispatch)
            async with anyio.create_task_group() as workers:
                deadline = None
                if self._budget:
                    deadline = self._budget.deadline
                if deadline:
                    workers.cancel_scope.deadline = deadline.at
                for number, (stream, n) in enumerate(zip(streams, n_workers, strict=True)):
                    feed = stream
                    if isinstance(feed, Iterable):
                        feed = _Stream(feed, number, len(streams))
                    for _ in range(n):
                        workers.start_soon(self._work, feed)
            if deadline and workers.cancel_scope.cancel_called:
                self.stop(deadline.reached())
            dispatchers.cancel_scope.cancel()
        self.events.flush()  # the last ends may still be held back
        if self.stopped:
            raise self.stopped
        if self._late:
            raise self._late
        held_up = [*self._held_up.values(), *self._branches_held_up.values()]
        if held_up:
            raise held_up[0]

    def add_lane(self, lane: Lane) -> None:
        """Serve a further lane: that of a model which is first asked for while the jobs run."""
        self.lanes.append(lane)
        if self._dispatchers is not None:
            self._dispatchers.start_soon(lane.dispatch)
        if self.stopped is not None:
            lane.stop(self.stopped)

    def _stop_as_far_as(self, reason: RunStopped, group: str | None = None, lane: str = "") -> None:
        """Stop what `reason` concerns.

        When the deadline is near, no job is begun and those under way continue as they can. A provider that is gone
        holds up the groups that need it; the others continue.
        """
        if isinstance(reason, DeadlineReached):
            if self._late is None:
                self._late = reason
                self.events.emit(Stopping(str(reason)))
        elif (
            isinstance(reason, ProviderGone)
            and group is not None
            and not all(lane.stopped for lane in self.lanes)
        ):
            # Every request that was in flight reports the same.
            if str(reason) not in map(str, self._held_up.values()):
                self.events.emit(Notice(f"{reason}; systems that do not use this provider continue"))
            if group not in self._held_up:
                self._held_up[group] = reason
                self.events.emit(GroupHeldUp(group, lane))
        else:
            self.stop(reason)

    def _hold_up_branch(self, reason: ProviderGone, branch: str) -> None:
        """Note that one part of the jobs needs a provider that is gone; a run that has no other one stops."""
        if all(lane.stopped for lane in self.lanes):
            self.stop(reason)
        elif branch not in self._branches_held_up:
            self._branches_held_up[branch] = reason
            self.events.emit(Notice(f"{reason}; all but {branch} continues"))

    async def _work(self, jobs: Feed) -> None:
        """Take jobs and run them, one after the other, until there are no more or the run ends."""
        while not (self.stopped or self._late):
            try:
                numbered_job = await jobs.next()
            except Exception as error:
                # Reading the stream failed: a file of the user's has changed, or a disk is full.
                reason = reason_to_stop(error)
                if reason is None:
                    raise
                self._stop_as_far_as(reason)
                return
            if numbered_job is None:
                return
            seq, job = numbered_job
            if job.group in self._held_up:
                continue
            try:
                await self._run_job(seq, job)
            except Exception as error:
                reason = reason_to_stop(error)
                if reason is None:
                    raise
                self._stop_as_far_as(reason, job.group)

    async def _run_job(self, seq: int, job: Job) -> None:
        if job.group not in self._begun:
            self._begun.add(job.group)
            self.events.emit(GroupBegan(job.group))
        ctx = Context(self, job, seq)
        result, failure = None, None
        try:
            result = await job.walk(ctx)
        except StepError as error:
            failure = error
        await job.finish(failure or result)
        # A job runs once in a process: with its end recorded, its steps are of use to the next process only, or to
        # jobs that share them.
        appended = ctx.executed
        if ctx.copied:
            appended = ctx.executed + ctx.copied
        if job.shared:
            job.journal.keep(appended)
        else:
            job.journal.forget(appended)
        if self._listens:
            self.events.emit_soon(JobEnded(job.group, job.id, failure))

    async def execute_once(self, ctx: Context, step: Step[T]) -> T:
        """`execute`, unless another job is at it or has failed for good: its end is the end of this one, too."""
        execution = self._shared.get(step.key)
        if execution is not None:
            # Shielded: a job that is cancelled must not cancel the one that executes.
            failure = await asyncio.shield(execution)
            if failure is not None:
                raise failure.with_traceback(None)
            return await ctx.step(step)
        ended = self._shared[step.key] = asyncio.get_running_loop().create_future()
        failure = None
        try:
            return await self.obtain(ctx, step)
        except StepError as error:
            failure = error
            raise
        finally:
            ended.set_result(failure)
            if failure is None:
                del self._shared[step.key]

    async def obtain(self, ctx: Context, step: Step[T]) -> T:
        """The result of a step that the journal does not have: of another run, else executed. Raises as `execute`."""
        reused = None
        if ctx.job.source is not None:
            reused = ctx.job.source.find(step.key, step.reuse)
        if reused is not None:
            try:
                result = step.decode(reused.record["response"])
            except _OF_ANOTHER_FORM:
                pass  # made by a version that accepted more: execute it here
            else:
                await ctx.copy(reused, reused_line(reused, step.description(ctx.job.id)))
                ctx.seconds += _seconds_of(reused.record)
                self.step_ended(ctx, step, replayed=True, reused=True)
                return result
        ctx.executed.append(step.key)
        return await self.execute(ctx, step)

    async def execute(self, ctx: Context, step: Step[T]) -> T:
        """Attempt a step until it has a result or fails for good, and record how it ended. Raises as `Context.step`."""
        attempts, loop = Attempts(), asyncio.get_running_loop()
        try:
            while True:
                if self.stopped:
                    raise self.stopped
                permit = None
                # A function without limits of its own has nobody to wait for.
                if step.lane is not None or self._budget is not None:
                    permit = await self._admit(ctx, step, attempts)
                began = loop.time()
                try:
                    executed, result = await self._attempt(step, permit, attempts, began)
                except StepError as error:
                    await self._after_failure(ctx, step, error, attempts, permit, loop.time() - began)
                    continue
                latency_s = loop.time() - began
                ctx.seconds += latency_s
                # Before the wait: a cancellation within it must not record the attempts again.
                attempts.recorded = True
                await ctx.job.journal.append(
                    attempts.record(step, ctx.job.id, self._clock(), executed.response, latency_s)
                )
                self.step_ended(ctx, step, replayed=False, latency_s=latency_s, usage=attempts.usage)
                return result
        except (StepError, RunStopped) as error:
            if isinstance(error, ProviderGone) and step.lane:
                step.lane.stop(error)
            if isinstance(error, ProviderGone) and ctx.branch:
                self._hold_up_branch(error, ctx.branch)
            elif isinstance(error, RunStopped):
                # At once: the job's other branches may run for long yet.
                lane_name = ""
                if step.lane:
                    lane_name = step.lane.name
                self._stop_as_far_as(error, ctx.job.group, lane_name)
            if attempts.failed:
                kind = getattr(error, "kind", "stopped")
                await ctx.job.journal.append(
                    attempts.failure_record(step, ctx.job.id, self._clock(), kind, str(error))
                )
            if isinstance(error, StepError):
                error.step = error.step or step.name
            raise
        except (UsageError, OSError) as error:
            # Converted here, so that the job's other branches, which are paid for, end as they can.
            reason = reason_to_stop(error)
            if reason is None:
                raise
            self._stop_as_far_as(reason, ctx.job.group)
            raise reason from None
        except asyncio.CancelledError:
            if self._budget and attempts.failed and not attempts.recorded:
                # Record what the attempts may have cost: a budget counts it in the next session, too.
                message = "the run was stopped at once"
                record = attempts.failure_record(step, ctx.job.id, self._clock(), "cancelled", message)
                # Shielded, since the cancellation under way would cut the write off, too.
                with anyio.CancelScope(shield=True), suppress(RunStopped):
                    await ctx.job.journal.append(record)
            raise

    async def _admit(self, ctx: Context, step: Step[Any], attempts: Attempts) -> Permit | None:
        """Wait for permission to send: first the budget's, then the lane's, whose permits must be used at once."""
        budget, lane = self._budget, step.lane
        attempts.reserved = None
        if budget:
            self._check_deadline(budget, step)
            if step.most_usage is not None:
                most_cost = step.cost(step.most_usage(attempts.unusable))
                await budget.reserve(ctx.seq, most_cost)
                attempts.reserved = most_cost
        if lane is None:
            return None
        try:
            permit = await lane.admit(ctx.seq, step.tokens, step.key, reserved=step.reserved)
            if budget:
                try:
                    self._check_deadline(budget, step)
                except DeadlineReached:
                    lane.abandoned(permit)
                    raise
        except BaseException:
            if budget and attempts.reserved is not None:
                budget.settle(attempts.reserved, NOTHING)
            raise
        return permit

    def _check_deadline(self, budget: Budget, step: Step[Any]) -> None:
        if budget.deadline and step.lane:
            budget.deadline.check(step.lane.name, asyncio.get_running_loop().time())

    async def _attempt(
        self, step: Step[T], permit: Permit | None, attempts: Attempts, began: float
    ) -> tuple[Executed, T]:
        """Make one attempt, which began at this time of the loop; lane and budget learn how it went. Raises StepError.

        The lane learns of a TransientError in `_after_failure`, which has to know whether it is an outage.
        """
        lane, budget = step.lane, self._budget
        attempts.charged = None
        try:
            try:
                executed = await step.execute(attempts.unusable)
            except TransientError:
                raise
            except RequestForbidden as error:
                if lane and permit:
                    reason = lane.forbidden(permit, error, step.key)
                    if reason:
                        raise reason from None
                raise
            except (StepError, RunStopped):  # the provider answered
                if lane and permit:
                    lane.succeeded(permit, None)
                raise
            except BaseException:
                if lane and permit:
                    lane.abandoned(permit)
                raise
            if lane and permit:
                tokens_used = None
                if executed.usage:
                    tokens_used = float(executed.usage.total)
                lane.succeeded(permit, tokens_used, executed.quotas)
            attempts.add_usage(executed.usage)
            result = step.decode(executed.response)
        except BaseException as error:
            if budget:
                if isinstance(error, asyncio.CancelledError):
                    latency_s = round(asyncio.get_running_loop().time() - began, 4)
                    attempts.failed.append(
                        {"kind": "cancelled", "message": "cancelled in flight", "latency_s": latency_s}
                    )
                charged = attempts.charged or charge_of(error)
                attempts.settle(budget, step, charged, sent=not is_unsent(error))
            raise
        if budget:
            attempts.settle(budget, step, attempts.charged)
            if budget.deadline and lane:
                budget.deadline.learn(lane.name, asyncio.get_running_loop().time() - began)
        return executed, result

    async def _after_failure(
        self,
        ctx: Context,
        step: Step[T],
        error: StepError,
        attempts: Attempts,
        permit: Permit | None,
        latency_s: float,
    ) -> None:
        """Wait before the next attempt, or raise `error` when there will be none."""
        outage = unanswered = False
        if isinstance(error, TransientError) and step.lane and permit:
            outage = step.lane.failed(permit, error, step.key)
            unanswered = step.lane.may_be_outage(step.key)
        policy = step.policy or self.policy
        if attempts.failures is None:
            attempts.failures = Failures()
        wait_s = wait_before_retry(
            error, attempts.failures, policy, self._jitter, outage=outage, unanswered=unanswered
        )
        if step.lane and step.lane.gave_up(step.key):
            wait_s = None
        attempts.fail(error, latency_s)
        lane_name = step.lane.name if step.lane else ""
        self.events.emit(
            AttemptFailed(ctx.job.group, ctx.job.id, step.name, lane_name, error.kind, str(error), wait_s)
        )
        if wait_s is None:
            if isinstance(error, NoFreeDescriptor):
                raise TooManyOpenFiles(str(error)) from None
            raise error
        if wait_s > 0 and step.lane:
            await step.lane.sleep(wait_s)
        elif wait_s > 0:
            await self._sleep(wait_s)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but wake when the run stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop_event.wait()

    def step_ended(
        self,
        ctx: Context,
        step: Step[Any],
        *,
        replayed: bool,
        latency_s: float = 0.0,
        usage: Usage = NO_USAGE,
        reused: bool = False,
    ) -> None:
        """Emit the event of a step that has a result."""
        if not self._listens:
            return
        lane_name, usd = "", 0.0
        if step.lane:
            lane_name = step.lane.name
        if step.prices and not replayed:
            usd = step.prices.usd(usage)
        self.events.emit_soon(
            StepEnded(
                ctx.job.group, ctx.job.id, step.name, lane_name, replayed, latency_s, usage, usd, reused
            )
        )


def interrupted() -> Interrupted:
    """The reason for which a first Ctrl-C stops the run."""
    return Interrupted("interrupted; completed work is saved, the same command resumes")
