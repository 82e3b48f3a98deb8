"""Holds conversations: every system over every instance on one engine, each into its own run directory.

A run of `cts converse` is one of `cts run` without the search: the same steps under the same keys, the same files.
Jobs go instance by instance, all systems of an instance side by side, so that an early stop leaves them comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from cts_async.engine.events import Events
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.stop import stoppable
from cts_async.errors import StepError
from cts_async.protocol.answer import ModelRespondent
from cts_async.protocol.conversation import Talk, converse
from cts_async.protocol.crew import Crew, instances_in_flight, opened, prices_of
from cts_async.protocol.results import Line, failure_line, talk_json
from cts_async.protocol.run_files import RunFiles, opened_files
from cts_async.protocol.spending import open_budget
from cts_async.protocol.systems import System
from cts_async.protocol.talk_plan import TalkPlan
from cts_async.records import ConversationTurn, Instance

Files = Mapping[System, RunFiles]


async def hold_talks(plan: TalkPlan, environ: Mapping[str, str], events: Events) -> None:
    """Converse or resume. Raises RunStopped when it ends early; what was said is on disk in any case."""
    config = plan.config.run
    async with (
        stoppable() as stopper,
        opened(plan.specs, plan.prompts, environ, events, max_outage_s=config.max_outage_s) as crew,
    ):
        with ExitStack() as stack:
            files = {system: stack.enter_context(_files(plan, system)) for system in plan.systems}
            for system, of in files.items():
                of.tell(events, plan.n_expected(system), retry_failed=config.retry_failed)
            journals = [of.journal.path for of in files.values()]
            runner = Runner(
                crew.lanes,
                events=events,
                seed=config.seed,
                in_flight=config.in_flight or instances_in_flight(crew),
                budget=open_budget(config.budget, plan.specs.values(), journals, (), events),
            )
            stopper.watch(runner)
            await runner.run(_jobs(plan, crew, files))


def _files(plan: TalkPlan, system: System) -> Any:
    config = plan.config.run
    notes = {
        "command": config.command,
        "data": {
            "spec": config.data,
            "path": str(plan.dataset.path),
            "gold": None,
            "fields": dict(config.fields),
            "corpus": None,
        },
        "players": plan.players(system),
        "prices": prices_of(plan.specs.values()),
        "embedded": plan.embedded,
        "n_expected": plan.n_expected(system),
    }
    return opened_files(
        plan.systems[system],
        plan.identity(system),
        notes,
        prompts=plan.prompt_texts(system),
        sync=config.sync,
    )


def _jobs(plan: TalkPlan, crew: Crew, files: Files) -> Iterator[Job]:
    heard: set[str] = set()
    for instance in plan.instances():
        first = instance.blurred_query not in heard
        heard.add(instance.blurred_query)
        for system, of in files.items():
            due = first or system.mode != "at-once"
            if due and of.needs_work(instance.id, retry_failed=plan.config.run.retry_failed):
                yield Job(
                    group=of.directory.name,
                    id=instance.id,
                    journal=of.journal,
                    walk=partial(_walk, plan=plan, crew=crew, system=system, instance=instance),
                    finish=partial(_finish, of=of, system=system, instance=instance),
                )


async def _walk(
    ctx: Context, *, plan: TalkPlan, crew: Crew, system: System, instance: Instance
) -> tuple[ConversationTurn, ...]:
    # In mode "at-once" nobody plays the user: the questions are all there is.
    user = crew.role(plan.players(system).get("support", system.clarifier))
    talk = Talk(answerer=None, respondent=ModelRespondent(user), selector=user, reformulator=user)
    clarifier = crew.role(system.clarifier)
    return await converse(ctx, talk, clarifier, instance, system, every_turn=True)


async def _finish(
    ended: tuple[ConversationTurn, ...] | StepError, *, of: RunFiles, system: System, instance: Instance
) -> None:
    if isinstance(ended, StepError):
        await of.add_result(failure_line(system.label, instance, ended))
    else:
        await of.add_result(talk_line(system, instance, ended))


def talk_line(system: System, instance: Instance, turns: tuple[ConversationTurn, ...]) -> Line:
    """A conversation that was held. Questions stand with their answers; those that nobody answered in `turns` only."""
    answered = [turn for turn in turns if turn.answers]
    return {
        "id": instance.id,
        "system": system.label,
        "fused_query": instance.fused_query,
        "blurred_query": instance.blurred_query,
        "k": system.k,
        **talk_json(system, turns),
        "questions": [question for turn in answered for question in turn.offered],
        "answers": [answer.text for turn in answered for answer in turn.answers],
    }
