"""`cts converse`: clarifying conversations without search and judges (AT-CoT), planned and held.

A run of `cts converse` is a `cts run` without the search: the same steps under the same keys, the same files. In mode
"at-once" only the query matters, so each system asks about a distinct query once, under the id of its first instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from cts_async.config import ConverseConfig, RunConfig
from cts_async.datasets import open_dataset
from cts_async.engine.events import Events
from cts_async.engine.runner import Context, Job
from cts_async.errors import StepError, UsageError
from cts_async.llm.catalog import Catalogue
from cts_async.protocol.conversation import answered_questions, converse, prompt_of, prompts_of
from cts_async.protocol.custom.sources import Players, label_players, remarks_on_modes
from cts_async.protocol.plan import SystemsPlan, remarks_on_temperature, reuse_of, sends_fixed_temperature
from cts_async.protocol.prompts import PromptSet, choose_prompts, remarks_on
from cts_async.protocol.run import Files, Jobs, Resources, execute, open_system_files
from cts_async.protocol.run_files import EndedLines
from cts_async.protocol.systems import (
    RoleNames,
    System,
    check_prices,
    choose_roles,
    remarks_on_tiers,
    resolve_all,
    role_suffix,
    run_names,
    systems_of,
    with_embedded_file,
)
from cts_async.protocol.versions import ChosenVersion, Series, choose_version
from cts_async.records import ConversationTurn, Instance, language_of
from cts_async.runs.manifest import TALK
from cts_async.runs.results import conversation_json, failure_line

_CHOOSE_MODELS: Final = "--model, --support, --all NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversePlan(SystemsPlan):
    """Conversations of several systems over the same instances."""

    roles: RoleNames
    """Who plays the user and reformulates; nobody searches or judges."""
    n_queries: int
    """Distinct underspecified queries of the instances."""

    def n_expected(self, system: System) -> int:
        """Number of results that the system's finished run has."""
        return self.n_queries if system.mode == "at-once" else self.n_instances

    @property
    def support(self) -> str:
        """The names of who plays the user and reformulates."""
        return ", ".join(dict.fromkeys(self.roles.supporters))

    def players(self, system: System) -> dict[str, str]:
        """Role to model name, for the roles that the system has."""
        players = {"clarifier": system.clarifier}
        if system.mode == "at-once":  # nobody answers
            return players
        if self.roles.support in self.custom:
            # Code of the user's has a function for each, and each of them an identity of its own.
            players["answerer"], players["rewriter"] = self.roles.supporters
        else:
            players["support"] = self.roles.support
        return players

    def identity(self, system: System) -> dict[str, Any]:
        """What determines the system's conversations; how they are evaluated does not belong to it."""
        return {
            "system": system.label,
            "task": TALK,
            "scheme": system.scheme,
            "mode": system.mode,
            "k": system.k,
            "data": dict(self.data_identity),
            "models": {role: self.player_identity(role, name) for role, name in self.players(system).items()},
            "prompts": self.prompt_digests(system),
            "judges": [],
            "seed": self.config.seed,
        }

    def prompted(self, system: System) -> list[tuple[str, str]]:
        """Pairs of a role's prompt and who is given it."""
        pairs = []
        clarifiers_prompt = prompt_of(system.scheme, system.mode)
        if system.clarifier not in self.custom:
            pairs.append((clarifiers_prompt, system.clarifier))
        if system.mode == "at-once" or self.roles.support in self.custom:
            return pairs
        for prompt in prompts_of(system):
            if prompt != clarifiers_prompt:
                pairs.append((prompt, self.roles.support))
        return pairs


def plan_conversations(
    config: ConverseConfig, catalogue: Catalogue, environ: Mapping[str, str]
) -> ConversePlan:
    """Check models, keys and data. Raises UsageError; starts and writes nothing."""
    prompts, catalogue = choose_prompts(config, catalogue)
    catalogue = replace(catalogue, cheap=config.cheap)
    # The part of a run that comes before its search, for what both plan alike.
    asking = RunConfig(
        models=config.models,
        schemes=config.schemes,
        modes=config.modes,
        support=config.support or config.every_role,
        references=(),
    )
    asking, custom = label_players(asking, catalogue)
    systems = _systems(asking, config, prompts, custom)
    dataset = open_dataset(config.data, None, config.fields)
    roles = replace(choose_roles(asking, catalogue.roles), judges=(), agent="")
    has_user = any(system.mode != "at-once" for system in systems)
    roles_by_model = {name: ["model"] for name in asking.models if name not in custom}
    if has_user and roles.support not in custom:
        roles_by_model.setdefault(roles.support, []).append("support")
    specs = resolve_all(roles_by_model, catalogue, environ, options=_CHOOSE_MODELS)
    specs = with_embedded_file(specs, environ)
    if config.budget.max_usd is not None:
        check_prices(specs.values())

    def instances() -> Iterator[Instance]:
        return selected_instances(dataset.instances(), config)

    n_by_query = Counter(instance.query for instance in instances())
    languages = {language_of(query) for query in n_by_query}
    if not n_by_query:
        raise UsageError(f"{dataset.path}: no instances")
    # Runs whose user is not played by the usual model are told apart by their names.
    usual_support = choose_roles(RunConfig(models=asking.models), catalogue.roles).support
    usual_roles = RoleNames(usual_support, (), agent="")
    suffixes = {}
    for system in systems:
        suffixes[system] = prompts.mark(clarifying=True)
        if system.mode != "at-once":
            suffixes[system] = role_suffix(system, roles, usual_roles, judged=False) + suffixes[system]
    names = run_names(systems, f"{dataset.name}-{TALK}", config.name, suffixes)
    remarks = list(remarks_on(prompts, languages))
    remarks += remarks_on_modes(asking, custom)
    remarks += remarks_on_tiers(specs, cheap=config.cheap)
    plan = ConversePlan(
        config=config,
        systems=dict.fromkeys(systems, Path()),
        reuse=reuse_of(config, config.runs_dir),
        roles=roles,
        specs=specs,
        custom=custom,
        catalogue=catalogue if custom else None,
        dataset=dataset,
        data_identity={"name": dataset.name, "sha256": dataset.sha256(), "gold_sha256": None},
        prompts=prompts,
        remarks=tuple(remarks),
        instances=instances,
        n_instances=n_by_query.total(),
        n_queries=len(n_by_query),
    )
    plan.check_prompts()
    plan.reuse.check()
    versions: dict[System, ChosenVersion] = {}
    for system in systems:
        series = Series(config.runs_dir / names[system])
        versions[system] = choose_version(series, plan.identity(system), config)
    directories = {system: version.directory for system, version in versions.items()}
    plan = replace(
        plan,
        systems=directories,
        versions=versions,
        fixed_temperature=sends_fixed_temperature(directories.values()),
    )
    return replace(plan, remarks=plan.remarks + tuple(remarks_on_temperature(plan)))


def selected_instances(instances: Iterable[Instance], config: ConverseConfig) -> Iterator[Instance]:
    """Of the first `topics` distinct queries at most `intents` instances each; of these at most `limit`."""
    n_by_query, n_selected = Counter[str](), 0
    for instance in instances:
        query = instance.query
        # Instances of a query need not stand together: those of the first queries may follow later.
        if query not in n_by_query and len(n_by_query) == config.topics:
            continue
        if n_selected == config.limit:
            return
        if config.intents is None or n_by_query[query] < config.intents:
            n_by_query[query] += 1
            n_selected += 1
            yield instance


def _systems(asking: RunConfig, config: ConverseConfig, prompts: PromptSet, custom: Players) -> list[System]:
    """Scheme by scheme, every mode with its number of questions or turns; code of the user's once for each mode."""
    systems: list[System] = []
    for scheme, mode in product(dict.fromkeys(config.schemes), dict.fromkeys(config.modes)):
        ks = (config.questions,) if mode == "at-once" else config.ks
        of_mode = replace(asking, ks=ks, schemes=(scheme,), modes=(mode,))
        systems += systems_of(of_mode, variants=prompts.variants, custom=custom)
    return list(dict.fromkeys(systems))


# --- Running it


async def run_conversations(plan: ConversePlan, environ: Mapping[str, str], events: Events) -> None:
    """Hold or resume the conversations. Raises RunStopped when it ends early."""
    await execute(plan, environ, events, _open_jobs)


@asynccontextmanager
async def _open_jobs(plan: ConversePlan, resources: Resources, events: Events) -> AsyncIterator[Jobs]:
    with open_system_files(plan, events) as files:
        yield Jobs([_jobs(plan, resources, files)])


def _jobs(plan: ConversePlan, resources: Resources, files: Files) -> Iterator[Job]:
    queries_seen: set[str] = set()
    participants = resources.participants(plan.roles)
    for instance in plan.instances():
        is_new_query = instance.query not in queries_seen
        queries_seen.add(instance.query)
        for system, run in files.items():
            # Nobody answers there, so that the intent does not matter: the query's first instance stands for all.
            if system.mode == "at-once" and not is_new_query:
                continue
            if run.needs_work(instance.id, retry_failed=plan.config.retry_failed):
                walk = partial(
                    converse,
                    participants=participants,
                    clarifier=resources.turn_clarifier(system),
                    instance=instance,
                    system=system,
                    every_turn=True,
                )
                yield run.job(instance.id, partial(_hold, walk=walk), partial(_lines_of, system, instance))


@dataclass(frozen=True, slots=True)
class _Held:
    """A conversation, and by step what replies had beyond their forms."""

    turns: tuple[ConversationTurn, ...]
    further: Mapping[str, Mapping[str, Any]]


async def _hold(ctx: Context, walk: Callable[[Context], Awaitable[tuple[ConversationTurn, ...]]]) -> _Held:
    return _Held(await walk(ctx), ctx.further)


def _lines_of(system: System, instance: Instance, ended: _Held | StepError) -> EndedLines:
    """What is recorded of a conversation; questions that nobody answered are listed in `turns` only."""
    if isinstance(ended, StepError):
        return [(None, failure_line(system.label, instance, ended))]
    questions, answers = answered_questions(ended.turns)
    line: dict[str, Any] = {
        "id": instance.id,
        "system": system.label,
        "fused_query": instance.intent,
        "blurred_query": instance.query,
        "k": system.k,
    }
    line |= conversation_json(system.scheme, system.mode, ended.turns)
    line["questions"] = questions
    line["answers"] = [answer.text for answer in answers]
    if ended.further:
        line["further"] = ended.further
    return [(None, line)]
