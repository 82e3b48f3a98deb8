"""Runs jobs: ordinary async code made of steps, many at once, each step remembered in a journal.

Resuming is running the same code again. Long-lived workers take jobs from a stream in order, so memory
does not grow with the input, and every wait serves the oldest job first, so results appear steadily.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeVar

import anyio

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
from cts_async.engine.lane import Lane, Permit, stop_all
from cts_async.engine.step import Attempts, Executed, RetryPolicy, Step, charge_of, wait_before_retry
from cts_async.errors import (
    DeadlineReached,
    Interrupted,
    ProviderGone,
    RunStopped,
    StepError,
    TransientError,
    UnusableOutput,
)
from cts_async.values import value

T = TypeVar("T")


@value
class Job:
    """One item's walk. `walk` makes steps through its Context; `finish` records how it ended.

    `group` names the run it belongs to (several may share one engine); `id` is unique within it.
    The steps of a `shared` job may be those of other shared jobs, too: whoever comes first executes one, the
    others wait for it, and all have the same result or the same failure.
    """

    group: str
    id: str
    journal: StepMemory
    walk: Callable[[Context], Awaitable[Any]]
    finish: Callable[[Any], Awaitable[None]]
    """Called once with what `walk` returned, or with the StepError that ended it."""
    shared: bool = False
    elsewhere: Callable[[str], Awaitable[dict[str, Any] | None]] | None = None
    """Asked for the record of a step that the journal does not know: other processes may have done it."""


class Feed(Protocol):
    """A stream of jobs that somebody else fills while it is being worked on."""

    async def next(self) -> tuple[int, Job] | None:
        """The next job with its number, lower for older ones; None when there will be no more."""


@dataclass(slots=True)
class _Shared:
    """A step of shared jobs that one of them is at, or has failed to do."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    failure: StepError | None = None


class Context:
    """What a job sees of the engine: durable steps, concurrency, and a generator of its own."""

    __slots__ = ("_rng", "_runner", "executed", "job", "seq", "steps")

    def __init__(self, runner: Runner, job: Job, seq: int) -> None:
        self._runner, self.job, self.seq = runner, job, seq
        self._rng: random.Random | None = None
        self.executed: list[str] = []
        """Keys of the steps that were not remembered when the job asked for them."""
        self.steps = 0
        """Steps that have a result."""

    @property
    def rng(self) -> random.Random:
        """The job's own generator; seeding one is slow, so only for those who draw from it."""
        if self._rng is None:
            # Seeded from strings: the same on every machine and in every process.
            self._rng = random.Random(f"{self._runner.seed}/{self.job.group}/{self.job.id}")
        return self._rng

    async def step(self, step: Step[T]) -> T:
        """The step's result, from the journal if it is there, else executed, remembered and returned.

        Raises StepError when it fails for good, RunStopped when the run is ending.
        """
        return await self._runner.perform(self, step)

    async def recall(self, key: str) -> Any:
        """What is remembered under `key`, None if nothing; nothing is executed."""
        record = self.job.journal.find(key)
        if record is None and self.job.elsewhere is not None:
            record = await self.job.elsewhere(key)
        return None if record is None else record["response"]

    async def gather(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Run the calls side by side and give their results in order.

        A failure waits for the others, which are paid for already; then the first in order is raised,
        or RunStopped if the run is ending.
        """
        if len(calls) == 1:
            return [await calls[0]()]
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
        if errors:
            stopped = [error for error in errors.values() if isinstance(error, RunStopped)]
            raise stopped[0] if stopped else errors[min(errors)]
        return [results[i] for i in range(len(calls))]


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
        self.events = Events() if events is None else events
        self.policy = policy or RetryPolicy()
        self.seed = seed
        self._in_flight = in_flight
        self._clock = clock
        self._budget = budget
        self._stopped: RunStopped | None = None
        self._begun: set[str] = set()
        """Groups of which a job has begun."""
        self._held_up: dict[str, RunStopped] = {}
        self._late: DeadlineReached | None = None
        self._shared: dict[str, _Shared] = {}
        # Not a job's own: what a job draws must not depend on how often it had to wait.
        self._jitter = random.Random(f"{seed}/jitter")
        self._stop_event = asyncio.Event()

    @property
    def stopped(self) -> RunStopped | None:
        """Why the run is ending early, if it is."""
        return self._stopped

    def stop(self, reason: RunStopped) -> None:
        """Start nothing new; what is in flight is finished and remembered. The first reason counts."""
        if self._stopped is None:
            self._stopped = reason
            self.events.emit(Stopping(str(reason)))
            self._stop_event.set()
            stop_all(self.lanes, reason)
            if self._budget:
                self._budget.stop(reason)

    async def run(self, *streams: Iterable[Job] | Feed, in_flight: Sequence[int] = ()) -> None:
        """Run all jobs. Raises RunStopped if the run ended early, with everything so far recorded.

        Each stream has workers of its own, so that a slow one holds up no other: `in_flight` by stream, by
        default as many as the runner was given. The n-th jobs of all streams are equally old; a feed says itself
        how old its jobs are, and has to end when the run is stopped.
        """
        widths = in_flight or [self._in_flight] * len(streams)
        async with anyio.create_task_group() as dispatchers:
            for lane in self.lanes:
                dispatchers.start_soon(lane.dispatch)
            async with anyio.create_task_group() as workers:
                deadline = self._budget.deadline if self._budget else None
                if deadline:
                    workers.cancel_scope.deadline = deadline.at
                for first, (jobs, width) in enumerate(zip(streams, widths, strict=True)):
                    if isinstance(jobs, Iterable):
                        stream = zip(count(first, len(streams)), jobs, strict=False)
                        for _ in range(width):
                            workers.start_soon(self._work, stream)
                    else:
                        for _ in range(width):
                            workers.start_soon(self._work_from, jobs)
            if deadline and workers.cancel_scope.cancel_called:
                self.stop(deadline.reached())
            dispatchers.cancel_scope.cancel()
        if reason := self._stopped or self._late or next(iter(self._held_up.values()), None):
            raise reason

    def _end(self, reason: RunStopped, group: str | None = None, lane: str = "") -> None:
        """Stop, as far as `reason` reaches.

        Where only the time grows short, no job is begun and those under way go on as they can. A provider
        that is gone holds up the groups that need it; the others go on.
        """
        if isinstance(reason, DeadlineReached):
            if self._late is None:
                self._late = reason
                self.events.emit(Stopping(str(reason)))
        elif isinstance(reason, ProviderGone) and group is not None and self._any_lane_left():
            # Everything that was in flight brings the same news.
            if str(reason) not in map(str, self._held_up.values()):
                self.events.emit(Notice(f"{reason}; what does not need it goes on"))
            if group not in self._held_up:
                self._held_up[group] = reason
                self.events.emit(GroupHeldUp(group, lane))
        else:
            self.stop(reason)

    def _any_lane_left(self) -> bool:
        return not all(lane.stopped for lane in self.lanes)

    async def _work(self, stream: Iterator[tuple[int, Job]]) -> None:
        while not (self._stopped or self._late):
            try:
                numbered = next(stream, None)
            except RunStopped as reason:
                self._end(reason)
                return
            if numbered is None:
                return
            await self._run_unless_held_up(*numbered)

    async def _work_from(self, feed: Feed) -> None:
        while not (self._stopped or self._late):
            numbered = await feed.next()
            if numbered is None:
                return
            await self._run_unless_held_up(*numbered)

    async def _run_unless_held_up(self, seq: int, job: Job) -> None:
        if job.group in self._held_up:
            return
        try:
            await self._run_job(seq, job)
        except RunStopped as reason:
            self._end(reason, job.group)

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
        # A job runs once in a process: with its end on record, what it did is of use to the next one only,
        # or to those that share it.
        if job.shared:
            job.journal.keep(ctx.executed)
        else:
            job.journal.forget(ctx.executed)
        if self.events:
            self.events.emit(JobEnded(job.group, job.id, result, failure))

    async def perform(self, ctx: Context, step: Step[T]) -> T:
        """See Context.step."""
        record = ctx.job.journal.find(step.key)
        if record is None and ctx.job.elsewhere is not None:
            record = await ctx.job.elsewhere(step.key)
        if record is not None:
            try:
                value = step.decode(record["response"])
            except (UnusableOutput, KeyError):
                pass  # written by a version that accepted more: do it again
            else:
                self._ended(ctx, step, replayed=True, latency_s=0.0, usage=Usage())
                return value
        if ctx.job.shared:
            return await self._execute_once(ctx, step)
        ctx.executed.append(step.key)
        return await self._execute(ctx, step)

    async def _execute_once(self, ctx: Context, step: Step[T]) -> T:
        """Execute, unless another job is at it or has failed for good: its end is the end of this one, too."""
        other = self._shared.get(step.key)
        if other is not None:
            await other.ended.wait()
            if other.failure:
                raise other.failure.with_traceback(None)
            return await self.perform(ctx, step)
        mine = self._shared[step.key] = _Shared()
        ctx.executed.append(step.key)
        try:
            return await self._execute(ctx, step)
        except StepError as error:
            mine.failure = error
            raise
        finally:
            mine.ended.set()
            if mine.failure is None:
                del self._shared[step.key]

    async def _execute(self, ctx: Context, step: Step[T]) -> T:
        attempts = Attempts()
        try:
            while True:
                if self._stopped:
                    raise self._stopped
                if self._budget is None:
                    permit = await self._admit(ctx, step)
                else:
                    permit = await self._admit_within(self._budget, ctx, step, attempts)
                began = asyncio.get_running_loop().time()
                try:
                    if self._budget is None:
                        executed, value = await self._attempt(step, permit, attempts)
                    else:
                        executed, value = await self._attempt_within(self._budget, step, permit, attempts)
                except StepError as error:
                    latency_s = asyncio.get_running_loop().time() - began
                    await self._after_failure(ctx, step, error, attempts, permit, latency_s)
                    continue
                latency_s = asyncio.get_running_loop().time() - began
                attempts.recorded = True
                await ctx.job.journal.append(
                    attempts.record(
                        step, ctx.job.id, self._clock(), response=executed.response, latency_s=latency_s
                    )
                )
                self._ended(ctx, step, replayed=False, latency_s=latency_s, usage=attempts.usage)
                return value
        except (StepError, RunStopped) as error:
            if isinstance(error, ProviderGone) and step.lane:
                step.lane.stop(error)
            if isinstance(error, RunStopped):
                # At once: the job's other branches may run for long yet.
                self._end(error, ctx.job.group, step.lane.name if step.lane else "")
            if attempts.failed:
                error_json = {"kind": getattr(error, "kind", "stopped"), "message": str(error)}
                await ctx.job.journal.append(
                    attempts.record(step, ctx.job.id, self._clock(), error=error_json)
                )
            if isinstance(error, StepError):
                error.step = error.step or step.name
            raise
        except asyncio.CancelledError:
            if self._budget and attempts.failed and not attempts.recorded:
                await self._remember_cancelled(ctx, step, attempts)
            raise

    async def _admit(self, ctx: Context, step: Step[Any]) -> Permit | None:
        if step.lane is None:
            return None
        return await step.lane.admit(ctx.seq, step.tokens, step.key, reserved=step.reserved)

    async def _admit_within(
        self, budget: Budget, ctx: Context, step: Step[Any], attempts: Attempts
    ) -> Permit | None:
        """Leave to send: first the budget's, then the lane's, since what a lane has let go must be sent at once."""
        attempts.reserved = None
        self._check_time(budget, step)
        if step.most is not None:
            most = step.cost(step.most(attempts.unusable))
            await budget.reserve(ctx.seq, most)
            attempts.reserved = most
        try:
            permit = await self._admit(ctx, step)
            try:
                self._check_time(budget, step)
            except DeadlineReached:
                if step.lane and permit:
                    step.lane.abandoned(permit)
                raise
        except BaseException:
            if attempts.reserved is not None:
                budget.settle(attempts.reserved, NOTHING)
            raise
        return permit

    def _check_time(self, budget: Budget, step: Step[Any]) -> None:
        if budget.deadline and step.lane:
            budget.deadline.check(step.lane.name, asyncio.get_running_loop().time())

    async def _attempt_within(
        self, budget: Budget, step: Step[T], permit: Permit | None, attempts: Attempts
    ) -> tuple[Executed, T]:
        """`_attempt`, with its true cost put in place of what was reserved."""
        began = asyncio.get_running_loop().time()
        try:
            result = await self._attempt(step, permit, attempts)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                latency_s = round(asyncio.get_running_loop().time() - began, 4)
                attempts.failed.append(
                    {"kind": "cancelled", "message": "cancelled in flight", "latency_s": latency_s}
                )
            attempts.settle(budget, step, attempts.charged or charge_of(error))
            raise
        attempts.settle(budget, step, attempts.charged)
        if budget.deadline and step.lane:
            budget.deadline.learn(step.lane.name, asyncio.get_running_loop().time() - began)
        return result

    async def _remember_cancelled(self, ctx: Context, step: Step[Any], attempts: Attempts) -> None:
        """Keep what the attempts may have cost: a budget counts it the next time, too."""
        error_json = {"kind": "cancelled", "message": "the run was stopped at once"}
        record = attempts.record(step, ctx.job.id, self._clock(), error=error_json)
        with anyio.CancelScope(shield=True), suppress(RunStopped):
            await ctx.job.journal.append(record)

    async def _attempt(self, step: Step[T], permit: Permit | None, attempts: Attempts) -> tuple[Executed, T]:
        """One attempt, the lane told how it went. Raises StepError."""
        attempts.charged = None
        try:
            executed = await step.execute(attempts.unusable)
        except TransientError:
            raise
        except (StepError, RunStopped):
            if step.lane and permit:
                step.lane.succeeded(permit, None)
            raise
        except BaseException:
            if step.lane and permit:
                step.lane.abandoned(permit)
            raise
        if step.lane and permit:
            used = float(executed.usage.total) if executed.usage else None
            step.lane.succeeded(permit, used, executed.quotas)
        attempts.answered(executed.usage)
        return executed, step.decode(executed.response)

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
        outage = False
        if isinstance(error, TransientError) and step.lane and permit:
            outage = step.lane.failed(permit, error, step.key)
        policy = step.policy or self.policy
        wait_s = wait_before_retry(error, attempts.failures, policy, self._jitter, outage=outage)
        if step.lane and step.lane.gave_up(step.key):
            wait_s = None
        attempts.fail(error, latency_s)
        lane = step.lane.name if step.lane else ""
        self.events.emit(
            AttemptFailed(ctx.job.group, ctx.job.id, step.name, lane, error.kind, str(error), wait_s)
        )
        if wait_s is None:
            raise error
        if wait_s > 0:
            await (step.lane.rest(wait_s) if step.lane else self._sleep(wait_s))

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but wake when the run stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop_event.wait()
        except TimeoutError:
            return

    def _ended(
        self, ctx: Context, step: Step[Any], *, replayed: bool, latency_s: float, usage: Usage
    ) -> None:
        ctx.steps += 1
        if not self.events:
            return
        lane = step.lane.name if step.lane else ""
        usd = step.prices.usd(usage) if step.prices and not replayed else 0.0
        self.events.emit(
            StepEnded(ctx.job.group, ctx.job.id, step.name, lane, replayed, latency_s, usage, usd)
        )


def interrupted() -> Interrupted:
    """What a first Ctrl-C stops the run with."""
    return Interrupted("interrupted; nothing is lost, the same command resumes")
