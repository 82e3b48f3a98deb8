"""Runs a plan: every system over every instance on one engine, each into its own run directory.

Jobs go instance by instance, all systems of an instance side by side, so that the compared systems
grow together and an early stop leaves them comparable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from cts_async.engine.budget import Budget
from cts_async.engine.events import Events
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.signals import stoppable
from cts_async.errors import StepError
from cts_async.protocol.conversation import ModelRespondent
from cts_async.protocol.forecast import Forecast, forecast, note
from cts_async.protocol.human_answers import HumanAnswerer
from cts_async.protocol.judge import LEXICAL, Judge, LexicalJudge
from cts_async.protocol.pipeline import Cast, clarify_then_search, converse_then_search, search_only
from cts_async.protocol.plan import Plan
from cts_async.protocol.resources import (
    Crew,
    LaneOf,
    instances_in_flight,
    manifest_prices,
    open_budget,
    opened,
    opened_searcher,
)
from cts_async.protocol.results import Line, failure_line, judgment_line, outcome_line, talk_json
from cts_async.protocol.roles import ModelAnswerer
from cts_async.protocol.run_files import Also, RunFiles, opened_files
from cts_async.protocol.systems import System
from cts_async.records import Instance, Outcome

Files = Mapping[System, RunFiles]


async def run_campaign(plan: Plan, environ: Mapping[str, str], events: Events) -> None:
    """Run or resume. Raises RunStopped when it ends early; what was done is on disk in any case."""
    config = plan.config
    async with stoppable() as stopper, opened_company(plan, environ, events) as company:
        with opened_runs(plan, events) as files:
            runner = Runner(
                company.crew.lanes,
                events=events,
                seed=config.seed,
                in_flight=config.in_flight or instances_in_flight(company.crew),
                budget=budget_of(plan, files, events),
            )
            stopper.watch(runner)
            await runner.run(_jobs(plan, company, files))


@dataclass(frozen=True, slots=True)
class Company:
    """Everybody who plays in the instances of a plan, ready to."""

    crew: Crew
    cast: Cast

    async def walk(self, ctx: Context, *, system: System, instance: Instance) -> Outcome:
        """One instance through one system."""
        if system.kind != "clarify":
            return await search_only(ctx, self.cast, instance, system.kind)
        clarifier = self.crew.role(system.clarifier)
        if system.converses:
            return await converse_then_search(ctx, self.cast, clarifier, instance, system)
        return await clarify_then_search(ctx, self.cast, clarifier, instance, system.k)


@asynccontextmanager
async def opened_company(
    plan: Plan, environ: Mapping[str, str], events: Events, lane_of: LaneOf | None = None
) -> AsyncIterator[Company]:
    """Open what the plan's instances need, see `crew.opened`. Raises UsageError where something is missing."""
    outage_s = plan.config.max_outage_s
    async with (
        opened(plan.specs, plan.prompts, environ, events, max_outage_s=outage_s, lane_of=lane_of) as crew,
        opened_searcher(plan, crew) as searcher,
    ):
        people = None if plan.people is None else HumanAnswerer(plan.people)
        cast = Cast(
            answerer=people or ModelAnswerer(crew.role(plan.roles.support)),
            respondent=people or ModelRespondent(crew.role(plan.roles.support)),
            rewriter=crew.role(plan.roles.support),
            searcher=searcher,
            judges=_judges(plan, crew),
        )
        yield Company(crew, cast)


@contextmanager
def opened_runs(plan: Plan, events: Events, also: Also = dict) -> Iterator[Files]:
    """The files of every system, in order, with what was found there told to `events`. Raises UsageError.

    `also` is what a session's note tells besides, see `run_files.noted`.
    """
    planned = forecast(plan)
    with ExitStack() as stack:
        files = {system: stack.enter_context(_files(plan, system, planned, also)) for system in plan.systems}
        for opened_run in files.values():
            opened_run.tell(events, plan.n_instances, retry_failed=plan.config.retry_failed)
        yield files


def budget_of(plan: Plan, files: Files, events: Events) -> Budget | None:
    """What the plan may spend, with what its runs have spent before; None where no line is drawn."""
    return open_budget(
        plan.config.budget,
        plan.specs.values(),
        [opened_run.journal.path for opened_run in files.values()],
        plan.roles.judges,
        events,
    )


def work_left(plan: Plan, files: Files) -> Iterator[tuple[Instance, System]]:
    """What has to be done, instance by instance."""
    for instance in plan.instances():
        for system, of in files.items():
            if of.needs_work(instance.id, retry_failed=plan.config.retry_failed):
                yield instance, system


def judgments_of(instance: Instance, ended: Outcome | StepError) -> Sequence[tuple[str, Line]]:
    """The lines of further judges that an instance's end brings, by their names."""
    if isinstance(ended, StepError):
        return ()
    further = ended.judgments[1:]
    return [(one.judge, judgment_line(instance.id, instance.nuggets, one)) for one in further]


def result_of(system: System, instance: Instance, ended: Outcome | StepError) -> Line:
    """The line of results that an instance's end brings."""
    if isinstance(ended, StepError):
        return failure_line(system.label, instance, ended)
    return {**outcome_line(system.label, ended), **talk_json(system, ended.turns)}


def _judges(plan: Plan, crew: Crew) -> tuple[Judge, ...]:
    """The judges asked for, and the lexical one beside them: it costs nothing."""
    if plan.config.no_judge:
        return ()
    asked = tuple(crew.judge(name) for name in plan.roles.judges)
    return asked if LEXICAL in plan.roles.judges else (*asked, LexicalJudge())


def _files(plan: Plan, system: System, planned: Forecast, also: Also) -> Any:
    notes = {
        "command": plan.config.command,
        "data": {
            "spec": plan.config.data,
            "path": str(plan.dataset.path),
            "gold": str(plan.config.gold) if plan.config.gold else None,
            "fields": dict(plan.config.fields),
            "corpus": str(plan.search.corpus) if plan.search.corpus else None,
            **({"skip_bad_gold": True, "notes": plan.dataset.notes} if plan.config.skip_bad_gold else {}),
        },
        "tools": plan.search.notes,
        "players": plan.players(system),
        "prices": manifest_prices(plan.specs.values()),
        "embedded": plan.embedded,
        "n_expected": plan.n_instances,
        "forecast": note(plan, planned, system),
    }
    return opened_files(
        plan.systems[system],
        plan.identity(system),
        notes,
        prompts=plan.prompt_texts(system),
        sync=plan.config.sync,
        also=also,
    )


def _jobs(plan: Plan, company: Company, files: Files) -> Iterator[Job]:
    for instance, system in work_left(plan, files):
        of = files[system]
        yield Job(
            group=of.directory.name,
            id=instance.id,
            journal=of.journal,
            walk=partial(company.walk, system=system, instance=instance),
            finish=partial(_finish, of=of, system=system, instance=instance),
        )


async def _finish(ended: Outcome | StepError, *, of: RunFiles, system: System, instance: Instance) -> None:
    for judge, line in judgments_of(instance, ended):
        await of.add_judgment(judge, line)
    # Last: an instance with a result is never done again, so nothing of it may still be missing.
    await of.add_result(result_of(system, instance, ended))
