"""Runs the jobs of a plan on one engine; `execute` serves `cts run`, `gold`, `converse` and `judge`.

A command says what its jobs are with an `open_jobs` function, which opens what they need (files, tools, judges).
Jobs go instance by instance, all systems of an instance side by side, so that the compared systems grow together
and an early stop leaves them comparable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cts_async.engine.events import Events
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.signals import stoppable
from cts_async.errors import StepError
from cts_async.protocol.conversation import NOBODY
from cts_async.protocol.forecast import forecast, manifest_forecast
from cts_async.protocol.human_answers import HumanAnswerer
from cts_async.protocol.judge import LEXICAL, Judge, LexicalJudge
from cts_async.protocol.pipeline import (
    Cast,
    clarify_then_search,
    converse_then_search,
    search_only,
)
from cts_async.protocol.plan import CommandPlan, Plan, SystemsPlan
from cts_async.protocol.resources import (
    Resources,
    instances_in_flight,
    open_budget,
    open_resources,
    open_search,
)
from cts_async.protocol.results import conversation_json, failure_line, judged, outcome_line
from cts_async.protocol.run_files import EndedLines, RunFiles, RunRecord, SessionNotes, open_run_files
from cts_async.protocol.systems import System
from cts_async.records import Instance, Outcome

Files = Mapping[System, RunFiles]
Walk = Callable[[Context], Awaitable[Outcome]]


PlanT = TypeVar("PlanT", bound=CommandPlan)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Streams of jobs, each with workers of its own."""

    streams: Sequence[Iterator[Job]]
    in_flight: Sequence[int] = ()
    """Jobs at once, by stream; empty: as many as the models' limits keep busy."""


OpenJobs = Callable[[PlanT, Resources, Events], AbstractAsyncContextManager[Jobs]]


async def execute(
    plan: PlanT, environ: Mapping[str, str], events: Events, open_jobs: OpenJobs[PlanT]
) -> None:
    """Open everything, run or resume all jobs, and close. Raises RunStopped when it ends early; nothing is lost."""
    config = plan.config
    async with (
        stoppable() as stopper,
        open_resources(plan, environ, events) as resources,
        open_jobs(plan, resources, events) as jobs,
    ):
        runner = Runner(
            resources.lanes,
            events=events,
            seed=config.seed,
            in_flight=config.in_flight or instances_in_flight(resources),
            budget=open_budget(plan, events),
        )
        if resources.host:
            resources.host.on_lane = runner.add_lane
        stopper.stop = runner.stop
        await runner.run(*jobs.streams, in_flight=jobs.in_flight)


@contextmanager
def open_system_files(
    plan: SystemsPlan,
    events: Events,
    session_notes: SessionNotes = dict,
    more_notes: Callable[[System], Mapping[str, Any]] = lambda system: {},
) -> Iterator[Files]:
    """The files of every system, in order; emits what was found in them. Raises UsageError, StorageFull."""
    with ExitStack() as stack:
        files = {}
        for system, directory in plan.systems.items():
            record = RunRecord(
                identity=plan.identity(system),
                notes={**plan.notes(system), **more_notes(system)},
                prompts={prompt.name: prompt.text for prompt in plan.prompts_of(system)},
            )
            files[system] = stack.enter_context(
                open_run_files(directory, record, sync=plan.config.sync, session_notes=session_notes)
            )
        for system, run in files.items():
            run.report_found(events, plan.n_expected(system), retry_failed=plan.config.retry_failed)
        yield files


# --- cts run


async def run_plan(plan: Plan, environ: Mapping[str, str], events: Events) -> None:
    """Run or resume every system. Raises RunStopped when it ends early."""
    await execute(plan, environ, events, _open_jobs)


@asynccontextmanager
async def _open_jobs(plan: Plan, resources: Resources, events: Events) -> AsyncIterator[Jobs]:
    async with open_cast(plan, resources) as cast:
        with open_runs(plan, events) as files:
            yield Jobs([_jobs(plan, resources, cast, files)])


def open_runs(
    plan: Plan, events: Events, session_notes: SessionNotes = dict
) -> AbstractContextManager[Files]:
    """`open_system_files` with the forecast in each manifest, to be compared with what the run really takes."""
    planned = forecast(plan)
    return open_system_files(
        plan,
        events,
        session_notes,
        more_notes=lambda system: {"forecast": manifest_forecast(plan, planned, system)},
    )


@asynccontextmanager
async def open_cast(plan: Plan, resources: Resources) -> AsyncIterator[Cast]:
    """Open the players of all roles but the Clarifiers'. Raises UsageError where something is missing."""
    async with open_search(plan, resources) if plan.searches else nullcontext(NOBODY) as searcher:
        people = None if plan.people is None else HumanAnswerer(plan.people)
        user = resources.participants(plan.roles, people)
        yield Cast(user, searcher, _judges(plan, resources), plan.given, plan.config.stop_after)


def walk_of(resources: Resources, cast: Cast, system: System, instance: Instance) -> Walk:
    """The steps of one instance in one system, to be called with the Context of its job."""
    if system.kind != "clarify":
        return partial(search_only, cast=cast, instance=instance, system=system)
    if system.converses:
        asks = resources.turn_clarifier(system)
        return partial(converse_then_search, cast=cast, clarifier=asks, instance=instance, system=system)
    clarifier = cast.given.get(system.clarifier) or resources.clarifier(system.clarifier)
    return partial(clarify_then_search, cast=cast, clarifier=clarifier, instance=instance, k=system.k)


def work_left(plan: Plan, files: Files) -> Iterator[tuple[Instance, System]]:
    """The instances without a result, each with the system that lacks it, instance by instance."""
    for instance in plan.instances():
        for system, run in files.items():
            if run.needs_work(instance.id, retry_failed=plan.config.retry_failed):
                yield instance, system


def lines_of(system: System, instance: Instance, ended: Outcome | StepError) -> EndedLines:
    """What is recorded of an instance that has ended: further judges' lines, and last its result."""
    if isinstance(ended, StepError):
        return [(None, failure_line(system.label, instance, ended))]
    further = ended.judgments[1:]
    judgments = [(one.judge, {"id": instance.id, **judged(instance.nuggets, one)}) for one in further]
    result = {**outcome_line(system.label, ended), **conversation_json(system, ended.turns)}
    return [*judgments, (None, result)]


def _judges(plan: Plan, resources: Resources) -> tuple[Judge, ...]:
    """The judges of the configuration, and always the lexical one, which costs nothing."""
    if plan.config.no_judge:
        return ()
    chosen = tuple(resources.judge(name) for name in plan.roles.judges)
    return chosen if LEXICAL in plan.roles.judges else (*chosen, LexicalJudge())


def _jobs(plan: Plan, resources: Resources, cast: Cast, files: Files) -> Iterator[Job]:
    for instance, system in work_left(plan, files):
        walk = walk_of(resources, cast, system, instance)
        yield files[system].job(instance.id, walk, partial(lines_of, system, instance))
