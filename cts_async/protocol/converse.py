"""What conversations will be held: schemes and modes, instances, who plays the user; all checked first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from cts_async.config import TalkConfig
from cts_async.datasets import Dataset, open_dataset
from cts_async.engine.events import Events
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.signals import stoppable
from cts_async.errors import StepError, UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.conversation import ModelRespondent, Talk, converse, prompt_of, prompts_of
from cts_async.protocol.prompts import PromptSet, load_prompts
from cts_async.protocol.resources import Crew, instances_in_flight, manifest_prices, open_budget, opened
from cts_async.protocol.results import Line, failure_line, talk_json
from cts_async.protocol.run_files import RunFiles, opened_files
from cts_async.protocol.run_folders import TALK
from cts_async.protocol.systems import (
    RoleNames,
    System,
    check_prices,
    choose_roles,
    mark,
    resolve_all,
    run_names,
    systems_of,
    with_embedded_file,
)
from cts_async.records import ConversationTurn, Instance

_CHOOSE: Final = "--model, --support, --all NAME"


@dataclass(frozen=True, slots=True)
class TalkPlan:
    """Conversations of several systems over the same instances, each system with a run directory of its own.

    In mode "at-once" only q matters, so a system asks about each distinct q once: in the name of its first instance.
    """

    config: TalkConfig
    systems: Mapping[System, Path]
    support: str
    """Who plays the user and reformulates."""
    specs: Mapping[str, ModelSpec]
    dataset: Dataset
    data_identity: Mapping[str, Any]
    prompts: PromptSet
    n_instances: int
    n_queries: int

    @property
    def embedded(self) -> bool:
        """Whether any role is played by the embedded model: then the numbers are a smoke test."""
        return any(spec.embedded for spec in self.specs.values())

    def instances(self) -> Iterator[Instance]:
        """The instances to talk about, in the data's order."""
        return selected(self.dataset.instances(), self.config)

    def directories(self) -> Sequence[Path]:
        """The systems' run directories."""
        return list(self.systems.values())

    def n_expected(self, system: System) -> int:
        return self.n_queries if system.mode == "at-once" else self.n_instances

    def players(self, system: System) -> dict[str, str]:
        """Role to model name, for the roles that this system has."""
        user = {"support": self.support} if system.mode != "at-once" else {}
        return {"clarifier": system.clarifier, **user}

    def identity(self, system: System) -> dict[str, Any]:
        """What determines this system's conversations, on which a resumed run must agree. Their evaluation does not."""
        return {
            "system": system.label,
            "task": TALK,
            "scheme": system.scheme,
            "mode": system.mode,
            "k": system.k,
            "data": dict(self.data_identity),
            "models": {role: self.specs[name].identity for role, name in self.players(system).items()},
            "prompts": {name: self.prompts.sha256[name] for name in self.prompt_texts(system)},
            "judges": [],
            "seed": self.config.run.seed,
        }

    def prompt_texts(self, system: System) -> dict[str, str]:
        """The prompts that this system may use, by name."""
        roles = prompts_of(system)
        if system.mode == "at-once":  # nobody answers here
            roles = [prompt_of(system.scheme, system.mode)]
        return {
            name: self.prompts.text(name)
            for name in sorted(self.prompts.sha256)
            if name.split(".")[0] in roles
        }


def plan_talks(config: TalkConfig, catalogue: Catalogue, environ: Mapping[str, str]) -> TalkPlan:
    """Check everything: models, keys, data. Raises UsageError; starts and writes nothing."""
    run = config.run
    systems = _systems(config)
    dataset = open_dataset(run.data, None, run.fields)
    support = _support(config, catalogue, chosen=True)
    specs = resolve_all(_wanted(config, systems, support), catalogue, environ, options=_CHOOSE)
    specs = with_embedded_file(specs, environ)
    if run.budget.max_usd is not None:
        check_prices(specs.values())
    queries = Counter(one.blurred_query for one in selected(dataset.instances(), config))
    if not queries:
        raise UsageError(f"{dataset.path}: no instances")
    marks = _marks(systems, support, _support(config, catalogue, chosen=False))
    names = run_names(systems, f"{dataset.name}-{TALK}", run.name, marks)
    return TalkPlan(
        config=config,
        systems={system: run.runs_dir / names[system] for system in systems},
        support=support,
        specs=specs,
        dataset=dataset,
        data_identity={"name": dataset.name, "sha256": dataset.sha256(), "gold_sha256": None},
        prompts=load_prompts(),
        n_instances=queries.total(),
        n_queries=len(queries),
    )


def selected(instances: Iterable[Instance], config: TalkConfig) -> Iterator[Instance]:
    """Of the first `topics` distinct queries at most `intents` instances each; of these, at most the run's `limit`."""
    return islice(_of_topics(instances, config), config.run.limit)


def _of_topics(instances: Iterable[Instance], config: TalkConfig) -> Iterator[Instance]:
    taken: Counter[str] = Counter()
    for instance in instances:
        query = instance.blurred_query
        if query not in taken and len(taken) == config.topics:
            continue
        if config.intents is None or taken[query] < config.intents:
            taken[query] += 1
            yield instance


def _systems(config: TalkConfig) -> list[System]:
    """Scheme by scheme, every mode with its number of questions or turns."""
    run = config.run
    found = []
    for scheme in dict.fromkeys(run.schemes):
        for mode in dict.fromkeys(run.modes):
            budgets = (config.questions,) if mode == "at-once" else run.ks
            found += systems_of(run.models, budgets, (), schemes=(scheme,), modes=(mode,))
    return found


def _support(config: TalkConfig, catalogue: Catalogue, *, chosen: bool) -> str:
    """Who plays the user, by the options or, unless `chosen`, where nobody names anybody."""
    run = config.run
    return choose_roles(
        run.models,
        catalogue.roles,
        support=run.support if chosen else None,
        judges=(),
        agent=None,
        every_role=run.every_role if chosen else None,
    ).support


def _marks(systems: Iterable[System], support: str, usual: str) -> dict[System, str]:
    """What tells runs apart whose user is played by somebody unusual."""
    roles, defaults = RoleNames(support, (), agent=""), RoleNames(usual, (), agent="")
    return {
        system: "" if system.mode == "at-once" else mark(system, roles, defaults, judged=False)
        for system in systems
    }


def _wanted(config: TalkConfig, systems: Iterable[System], support: str) -> dict[str, list[str]]:
    wanted: dict[str, list[str]] = {name: ["model"] for name in config.run.models}
    if any(system.mode != "at-once" for system in systems):
        wanted.setdefault(support, []).append("support")
    return wanted


# --- Holds conversations: every system over every instance on one engine, each into its own run directory.
#
# A run of `cts converse` is one of `cts run` without the search: the same steps under the same keys, the same files.
# Jobs go instance by instance, all systems of an instance side by side, so that an early stop leaves them comparable.


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
        "prices": manifest_prices(plan.specs.values()),
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
