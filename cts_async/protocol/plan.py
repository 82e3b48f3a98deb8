"""The plan of a run: systems, models, data, documents and tools, all checked before anything starts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast

from cts_async.config import CommandConfig, DataConfig, RunConfig, suggestion
from cts_async.custom import RoleName
from cts_async.datasets import Dataset, open_dataset, sha256_of
from cts_async.datasets.kinds import HumanPairs
from cts_async.engine.reuse import StepSource
from cts_async.errors import UsageError, closest
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.llm.params import output_limit
from cts_async.llm.tokenizer import open_counter
from cts_async.protocol.asking import asks_json, check_asking
from cts_async.protocol.batching import check_batches, remarks_on_batches
from cts_async.protocol.conversation import prompts_of
from cts_async.protocol.custom.sources import (
    Players,
    label_players,
    may_ask_models,
    may_ask_user,
    remarks_on_modes,
    source_texts,
)
from cts_async.protocol.given import Given, given_texts, with_given
from cts_async.protocol.human_answers import THRESHOLD, read_human_answers
from cts_async.protocol.judge import LEXICAL, SELF_PREFERENCE, check_form, self_judged_roles
from cts_async.protocol.prompts import (
    JUDGE_PROMPTS,
    Prompt,
    PromptSet,
    choose_prompts,
    remarks_on,
    remarks_on_agent,
)
from cts_async.protocol.systems import (
    REFERENCE_KINDS,
    RoleNames,
    System,
    check_prices,
    choose_roles,
    manifest_prices,
    remarks_on_tiers,
    resolve_all,
    role_suffix,
    run_names,
    systems_of,
    tier_notes,
    with_embedded_file,
)
from cts_async.protocol.versions import (
    ChosenVersion,
    Reuse,
    Series,
    choose_date,
    choose_version,
    recorded_dates,
)
from cts_async.records import STAGES, AgentPrompt, Instance, JudgeForm, Language, language_of
from cts_async.runs.files import STEPS
from cts_async.runs.manifest import Manifest, Tools, manifest_or_empty, read_manifest
from cts_async.runs.reuse import Origins, read_folder
from cts_async.search.backends.addresses import AllowList
from cts_async.search.catalog import EngineSpec, ReaderSpec, SearchCatalogue, load_search
from cts_async.search.toolbox import NO_TOOLS, Toolbox, open_toolbox
from cts_async.search.toolbox.ask import asking_toolbox
from cts_async.search.tools import AGENT_MODES, ALL_SWITCHES, AgentSettings

SMOKE_LIMIT = 8
"""Instances of the default run: enough to see everything work, within minutes on two cores."""


AS_PUBLISHED = (
    "as published: the paper's rules for the User Answerer, exactly unknown, all nuggets in one call, temperature 0 "
    "for all roles but the agent"
)
"""What a run with `--as-published` does, for people."""

_CHOOSE_PLAYERS = "--support, --judge, --agent, --all NAME"
_CHOOSE_BUILDERS = "--agent, --extractor, --all NAME"
"""The options of `cts run` and of `cts gold` that choose models, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan(ABC):
    """What a command that calls models is going to do: `cts run`, `gold`, `converse` or `judge`."""

    config: CommandConfig
    specs: Mapping[str, ModelSpec]
    prompts: PromptSet
    custom: Players = field(default_factory=dict)
    """Roles that code of the user's plays, by label."""
    catalogue: Catalogue | None = None
    """The models that they may ask; None: there are no such roles."""
    judges: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What the user should know of data and prompts."""
    fixed_temperature: bool = True
    """Whether User Answerer, Rewriter and judge are asked at the paper's temperature where their model has none."""
    reuse: Reuse
    """Where steps of other runs are looked up."""
    judge_form: JudgeForm = "nuggets"
    """What judges are asked."""
    only_judges: ClassVar[bool] = False
    """Whether the judges' calls alone count towards the budget: all others are of another command."""

    @property
    def judges_several_answers(self) -> bool:
        """Whether its judges are given several answers to each query, one soon after the other."""
        return False

    @property
    def embedded(self) -> bool:
        """Whether the embedded model plays any role: then the scores are a smoke test."""
        return any(spec.embedded for spec in self.specs.values())

    @property
    def demo(self) -> bool:
        """Whether the scripted models of `cts demo` play: then no score is a model's."""
        return any(spec.demo for spec in self.specs.values())

    @property
    def specs_by_model(self) -> dict[str, ModelSpec]:
        """Every model that a step may have asked, by its id at the provider."""
        specs: list[ModelSpec] = []
        if self.catalogue is not None:  # code of the user's may have asked any of its models
            specs += self.catalogue.models.values()
        specs += self.specs.values()
        return {spec.model: spec for spec in specs}

    @property
    def reachable(self) -> Sequence[ModelSpec]:
        """The models that code of the user's may ask: all of the catalogue, or none without such code."""
        if self.catalogue is None:
            return ()
        for roles in self.custom.values():
            if any(map(may_ask_models, roles.values())):
                return tuple(self.catalogue.models.values())
        return ()

    @abstractmethod
    def directories(self) -> Sequence[Path]:
        """The run directories."""

    @property
    def journals(self) -> Sequence[Path]:
        """The journals that record the calls."""
        return [directory / STEPS for directory in self.directories()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemsPlan(CommandPlan):
    """Systems over the same instances, each with a run directory of its own: `cts run`, `gold` and `converse`."""

    config: DataConfig
    systems: Mapping[System, Path]
    """The run directory of each system."""
    versions: Mapping[System, ChosenVersion] = field(default_factory=dict)
    """Which version of its run each directory is."""
    dataset: Dataset
    data_identity: Mapping[str, Any]
    agent_prompt: AgentPrompt = "query"
    instances: Callable[[], Iterator[Instance]]
    n_instances: int
    search: SearchPlan | None = None
    """The search tools; None: the command has none."""

    def directories(self) -> Sequence[Path]:
        """The systems' run directories."""
        return list(self.systems.values())

    def n_expected(self, system: System) -> int:
        """Number of results that the system's finished run has."""
        return self.n_instances

    @abstractmethod
    def players(self, system: System) -> dict[str, str]:
        """Role to model name, for the roles that the system has."""

    def player_identity(self, role: str, name: str) -> Mapping[str, Any]:
        """What determines the replies of the player of a role ("judge NAME" for a judge)."""
        if name in self.specs:
            return self.specs[name].identity
        if role.startswith("judge "):
            role = "judge"
        return self.custom[name][cast(RoleName, role)].identity

    @abstractmethod
    def prompted(self, system: System) -> list[tuple[str, str]]:
        """Pairs of a role's prompt ("clarify", "agent", ...) and who is given it."""

    @abstractmethod
    def identity(self, system: System) -> dict[str, Any]:
        """Everything that determines the system's results; a resumed run must agree with it."""

    def prompts_of(self, system: System) -> list[Prompt]:
        """The prompts that the system may use, by name."""
        prompts: dict[str, Prompt] = {}
        for role, player in self.prompted(system):
            for prompt in self.prompt_set(system).of(player).of_role(role, self.agent_prompt):
                prompts[prompt.name] = prompt
        return [prompts[name] for name in sorted(prompts)]

    def prompt_set(self, system: System) -> PromptSet:
        """The prompts of a system."""
        return self.prompts

    def sources_of(self, system: System) -> dict[str, str]:
        """The sources of the roles that code of the user's plays in the system, by file name."""
        texts: dict[str, str] = {}
        for role, label in self.players(system).items():
            name = cast(RoleName, role.partition(" ")[0])
            player = self.custom.get(label, {}).get(name)
            if player is not None:
                texts |= source_texts(player)
        return texts

    def prompt_digests(self, system: System) -> dict[str, str]:
        """The sha256 of each prompt that the system may use, by name."""
        return {prompt.name: prompt.sha256 for prompt in self.prompts_of(system)}

    def check_prompts(self) -> None:
        """Raise UsageError for prompts of the user's that change nothing: another system would only seem to differ."""
        used: list[Prompt] = []
        used_by_player: dict[str, list[Prompt]] = {}
        asking_by_player: dict[str, list[Prompt]] = {}
        for system in self.systems:
            for role, player in self.prompted(system):
                prompts = self.prompts.of(player).of_role(role, self.agent_prompt)
                used += prompts
                used_by_player.setdefault(player, []).extend(prompts)
                if role not in PLAYED_BY and role not in JUDGE_PROMPTS.values():
                    asking_by_player.setdefault(player, []).extend(prompts)
        if self.prompts.own and self.prompts.own.isdisjoint(prompt.name for prompt in used):
            raise _unchanged(self.prompts, "this run", used)
        for player, player_prompts in used_by_player.items():
            if self.prompts.of(player) is self.prompts:
                continue
            # A Clarifier is a system: what it asks with has to differ, whatever else it plays.
            player_prompts = asking_by_player.get(player) or player_prompts
            if not any(prompt.variant for prompt in player_prompts):
                raise _unchanged(self.prompts.of(player), player, player_prompts)

    def notes(self, system: System) -> dict[str, Any]:
        """What the manifest records in addition to the identity; may differ between sessions."""
        notes = self.config.manifest_fields | {"data": self.data_notes()}
        if self.search:
            notes["tools"] = self.search.notes
        notes |= self.versions[system].manifest_notes
        if self.config.share_sampled:
            notes["shares_sampled"] = True
        # A resumed run keeps the temperature of its fixed roles, whatever a later version's default is.
        if self.fixed_temperature:
            notes[FIXED_TEMPERATURE] = 0.0
        notes["players"] = self.players(system)
        notes["prices"] = manifest_prices(self.specs.values())
        notes |= tier_notes(self.specs)
        notes["embedded"] = self.embedded
        if self.demo:
            notes["demo"] = True
        notes["n_expected"] = self.n_expected(system)
        return notes

    @property
    def prompt_date(self) -> str:
        """The date in the agent's prompt; "" without an agent."""
        return ""

    def source_of(self, system: System, origins: Origins | None) -> StepSource | None:
        """Where the steps of other runs are looked up for a system; None where no run has any."""
        if origins is None:
            return None
        label = str(self.identity(system)["system"])
        return self.reuse.source(origins, label, date=self.prompt_date, sends_defaults=self.fixed_temperature)

    def data_notes(self) -> dict[str, Any]:
        """Where the data were read, for the manifest: commands that read a finished run open them again."""
        corpus = None
        if self.search and self.search.corpus:
            corpus = str(self.search.corpus)
        notes: dict[str, Any] = {
            "spec": self.config.data,
            "path": str(self.dataset.path),
            "gold": None,
            "fields": dict(self.config.fields),
            "corpus": corpus,
        }
        if self.dataset.restriction:
            notes["restriction"] = self.dataset.restriction
        return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(SystemsPlan):
    """A `cts run`: clarify, search, judge."""

    config: RunConfig
    roles: RoleNames
    limit: int | None
    search: SearchPlan
    settings: AgentSettings
    toolbox: Toolbox
    current_date: str
    extractor: str = ""
    """The model that extracts nuggets from what was found; "": none are."""
    most_nuggets: int = 0
    """The largest number of nuggets of any instance."""
    human_answers: Mapping[str, HumanPairs] | None = None
    """Human (question, answer) pairs by instance id, used instead of the User Answerer; None: the model answers."""
    given: Mapping[str, Given] = field(default_factory=dict)
    """Given questions or rewritten queries, by label."""
    asking_prompts: PromptSet | None = None
    """The prompts of systems whose agent may ask the user; None: there are none."""
    asks_confidence: bool = False
    """Whether the agent is asked how sure it is of its answer."""
    plain_prompts: PromptSet | None = None
    """The prompts without that request; None: they have none."""

    @property
    def asking_toolbox(self) -> Toolbox:
        """The agent's tools where it may ask the user."""
        return asking_toolbox(self.toolbox, self.config.ask_rules)

    def prompt_set(self, system: System) -> PromptSet:
        """The prompts of a system."""
        if system.asks is not None and self.asking_prompts is not None:
            return self.asking_prompts
        return self.prompts

    @property
    def searches(self) -> bool:
        """Whether there is a search; a run without one ends with the stage that it stops after."""
        return self.config.stop_after is None

    @property
    def prompt_date(self) -> str:
        """The date in the agent's prompt."""
        return self.current_date if self.searches else ""

    def identity(self, system: System) -> dict[str, Any]:
        """Everything that determines the system's results; a resumed run must agree with it."""
        players = self.players(system)
        # Fields are written only where they differ from the default, so that older runs resume; their order is kept.
        identity: dict[str, Any] = {"system": system.label, "k": system.k}
        if system.converses:
            identity |= {"scheme": system.scheme, "mode": system.mode}
        identity["data"] = dict(self.data_identity)
        if self.config.answers and system.kind == "clarify":
            identity["answers"] = {"of": self.config.answers, "similarity": THRESHOLD}
        identity["models"] = {role: self.player_identity(role, name) for role, name in players.items()}
        if system.kind == "rewrites":
            identity["rewrites"] = self.given[system.clarifier].identity
        if self.searches:
            identity["agent"] = self.settings.as_json()
            if system.asks is not None:
                identity["agent_tools"] = self.asking_toolbox.identity
                identity["asks"] = asks_json(system.asks)
            elif not self.toolbox.is_default:
                identity["agent_tools"] = self.toolbox.identity
            if system.inject_at is not None:
                identity["inject_at"] = system.inject_at
            identity["corpus_sha256"] = self.search.corpus_sha256
            identity["tools"] = self.search.identity
        else:
            identity["stop_after"] = self.config.stop_after
        identity["prompts"] = self.prompt_digests(system)
        identity["judges"] = [] if self.config.no_judge else list(self.roles.judges)
        nuggets_per_call = self._nuggets_per_call(players)
        if nuggets_per_call:
            identity["nuggets_per_call"] = nuggets_per_call
        if self.judge_form != "nuggets" and not self.config.no_judge:
            identity["judge_form"] = self.judge_form
        if self.agent_prompt != "query":
            identity["agent_prompt"] = self.agent_prompt
        if self.config.empty_answers != "fail":
            identity["empty_answers"] = self.config.empty_answers
        if self.searches:  # the agent's prompt has it
            identity["current_date"] = self.current_date
        identity["seed"] = self.config.seed
        if self.config.as_published:
            identity["as_published"] = True
        return identity

    def _nuggets_per_call(self, players: Mapping[str, str]) -> dict[str, int]:
        """The nuggets in one call of each judge for whom those of some instance are too many."""
        limits = {}
        for role, name in players.items():
            if not role.startswith("judge ") or name not in self.specs:
                continue
            limit = self.specs[name].judge_nuggets
            # Where one call is enough, verdicts do not depend on the limit, and a run with another one is the same run.
            if self.most_nuggets > limit:
                limits[name] = limit
        return limits

    def notes(self, system: System) -> dict[str, Any]:
        """What the manifest records in addition to the identity, and where given texts were read."""
        notes = SystemsPlan.notes(self, system)
        if system.clarifier in self.given:
            notes["given"] = self.given[system.clarifier].note
        if self.searches and self.settings.switches:
            notes["agent_mode"] = self.settings.mode
        return notes

    def data_notes(self) -> dict[str, Any]:
        """Where data and gold were read, and which instances were left out for their gold."""
        notes = SystemsPlan.data_notes(self)
        if self.config.gold:
            notes["gold"] = str(self.config.gold)
        if self.config.skip_bad_gold:
            notes |= {"skip_bad_gold": True, "notes": self.dataset.notes}
        return notes

    def players(self, system: System) -> dict[str, str]:
        """Role to model name, for the roles that the system has."""
        players: dict[str, str] = {}
        if system.kind == "clarify":
            players["clarifier"] = system.clarifier
            players |= self._supporters(system)
        elif system.kind == "ask":
            players |= self._supporters(system)
        if self.searches:
            players["agent"] = self.roles.agent
            if self.roles.visit:
                players["visit"] = self.roles.visit
        if not self.config.no_judge:
            for judge in self.roles.judges:
                # The lexical judge is neither a model nor code of the user's: nothing about it can differ.
                if judge in self.specs or judge in self.custom:
                    players[f"judge {judge}"] = judge
        if self.extractor:
            players["extractor"] = self.extractor
        return players

    def _supporters(self, system: System) -> dict[str, str]:
        """Who answers and rewrites, by role; as `support` where one model plays both."""
        roles, n_supporters = self.roles, n_supporters_of(self.config)
        if system.kind == "ask" or system.inject_at is not None:
            return {"answerer": roles.supporters[0]}
        # Code of the user's has a function for each, and each of them an identity of its own.
        if "answerer" in roles.supporting or roles.support in self.custom:
            players = zip(("answerer", "rewriter"), roles.supporters, strict=True)
            return dict(islice(players, n_supporters))
        return {"support": roles.support} if n_supporters else {}

    def player_identity(self, role: str, name: str) -> Mapping[str, Any]:
        """What determines the replies of the player of a role; given texts are a Clarifier's."""
        if role == "clarifier" and name in self.given:
            return self.given[name].identity
        return SystemsPlan.player_identity(self, role, name)

    def prompted(self, system: System) -> list[tuple[str, str]]:
        """Pairs of a role's prompt and who is given it; code of the user's needs none, nor do given texts."""
        players = self.players(system)
        roles = prompts_of(system)
        if self.extractor:
            roles.append("gold")
        if self.searches:
            roles.append("agent")
            if self.roles.visit:
                roles.append("visit")
        unused = self._unused_prompts(system)
        pairs = []
        for role in roles:
            if role not in unused:
                player = players.get(PLAYED_BY.get(role, "clarifier"))
                pairs.append((role, player or self.roles.support))
        if not self.config.no_judge:
            judges = [name for role, name in players.items() if role.startswith("judge ")]
            models = [name for name in judges if name in self.specs]
            # A run that the lexical judge alone scores records a judge's prompts, as it did before prompts could differ
            # by player: without them it would be another run.
            if not models and not self.custom:
                models = [LEXICAL]
            pairs += [(JUDGE_PROMPTS[self.judge_form], model) for model in models]
        return [(role, player) for role, player in pairs if player not in self.custom]

    def _unused_prompts(self, system: System) -> set[str]:
        """Prompts of roles that nobody plays in this run, or that are played without a model."""
        unused: set[str] = set()
        if self.human_answers is not None:
            unused |= {"answer", "answer_yes_no", "respond"}
        if system.clarifier in self.given:
            unused.add("clarify")
        unused.update(("answer", "rewrite")[n_supporters_of(self.config) :])
        _, rewriter = self.roles.supporters
        if rewriter in self.custom:
            unused.add("reformulate")
        return unused


def _asks_confidence(dataset: Dataset, extractor: str | None) -> bool:
    # By the data alone: a run with another form of judging has the same searches. What gold is extracted from is no
    # answer that is right or wrong.
    return dataset.has_right_answers and not extractor


def enough_in_flight(widths: Iterable[int]) -> int:
    """Number of instances that keep lanes of these widths busy, and few enough that results appear steadily."""
    widest = max(widths, default=1)
    return max(4, min(1024, widest + widest // 2))


PLAYED_BY: Final = {
    "answer": "answerer",
    "answer_yes_no": "answerer",
    "respond": "answerer",
    "rewrite": "rewriter",
    "reformulate": "support",
    "select_query": "support",
    "agent": "agent",
    "visit": "visit",
    "gold": "extractor",
}
"""The role that is given a prompt; a judge is given one of JUDGE_PROMPTS, and the Clarifier all others."""


def _unchanged(prompts: PromptSet, player: str, used: Sequence[Prompt]) -> UsageError:
    """The error for prompts of the user's that change none of those that a player uses."""
    changed = ", ".join(sorted(prompts.own)) or "no prompt"
    names = ", ".join(dict.fromkeys(prompt.name for prompt in used)) or "none"
    return UsageError(f"{prompts.directory}: changes {changed}, but {player} uses {names}")


def n_supporters_of(config: RunConfig) -> int:
    """How many of User Answerer and Rewriter a run's Clarifiers need."""
    # "questions", "answers", "rewrite": each stage after the first needs one more of them.
    return STAGES.index(config.stop_after or "rewrite")


def make_plan(
    config: RunConfig,
    catalogue: Catalogue,
    environ: Mapping[str, str],
    *,
    keyless: bool = False,
    keys_elsewhere: bool = False,
) -> Plan:
    """Check everything: models, keys, data, gold, corpus. Raises UsageError; starts and writes nothing.

    `keyless` and `keys_elsewhere` as in `resolve_all`.
    """
    plan, series = draft_plan(config, catalogue, environ, keyless=keyless, keys_elsewhere=keys_elsewhere)
    judges: list[str] = []
    if plan.searches and not plan.config.no_judge:
        judges = [judge for judge in plan.roles.judges if judge != LEXICAL]
    check_batches(plan.config, judges, plan.specs)
    return with_versions(plan, series)


def draft_plan(
    config: RunConfig,
    catalogue: Catalogue,
    environ: Mapping[str, str],
    *,
    extractor: str | None = None,
    keyless: bool = False,
    keys_elsewhere: bool = False,
) -> tuple[Plan, Mapping[System, Series]]:
    """`make_plan` before the versions of its runs are chosen, and the series that they are of.

    `extractor` extracts nuggets from what was found; None: the one of the configuration, if it names one.
    """
    extractor = extractor or config.extractor
    prompts, catalogue = choose_prompts(config, catalogue)
    catalogue = replace(catalogue, cheap=config.cheap)

    # Who takes part.
    check_asking(config)
    config, given_rows = with_given(config)
    if config.stop_after:
        # Reference points do nothing but search.
        config = replace(config, no_judge=True, references=())
    config, custom = label_players(config, catalogue)
    rewrites: Iterable[str] = ()
    if config.given_questions:
        config = replace(config, models=tuple(given_rows))
    elif config.given_rewrites:
        rewrites = given_rows
    systems = systems_of(config, rewrites, prompts.variants, custom)

    # What they work on, and with which prompts and tools.
    dataset = open_dataset(config.data, config.gold, config.fields, skip_bad_gold=config.skip_bad_gold)
    human_answers = read_human_answers(config, dataset)
    plain_prompts: PromptSet | None = None
    if _asks_confidence(dataset, extractor):
        plain_prompts, prompts = prompts, prompts.asking_confidence()
    toolbox = open_toolbox(config.tools)
    search = plan_search(config, load_search(*config.config_files), environ, dataset.corpus)
    _typed_switches(config.agent_settings)  # a misspelled one is said before a missing key
    roles = _with_page_reader(choose_roles(config, catalogue.roles, web=search.web), custom)
    if roles.agent in custom:
        _check_custom_agent(config, roles.agent, custom, toolbox)
    asking_prompts: PromptSet | None = None
    if config.asks_during_search:
        asking_prompts, _ = choose_prompts(config, catalogue, asking_toolbox(toolbox, config.ask_rules))
        if _asks_confidence(dataset, extractor):
            asking_prompts = asking_prompts.asking_confidence()
    if not toolbox.uses("visit"):
        roles = replace(roles, visit=None)  # no page is read, so nobody needs to read one

    # Their models, whose keys are missed only now.
    specs = _resolved_models(
        config,
        catalogue,
        environ,
        _roles_by_model(config, roles, given_labels=given_rows, custom=custom),
        extractor=extractor,
        missing_variables=_missing_variables(search, environ),
        keyless=keyless,
        keys_elsewhere=keys_elsewhere,
    )

    # The instances, all of which are read.
    limit = _limit(config, specs)
    n_instances, most_nuggets, languages = _check_instances(dataset, limit, config)
    judge_form = config.judge_form or dataset.judge_form
    if not config.no_judge:
        numbers = (len(instance.nuggets) for instance in islice(dataset.instances(), limit))
        check_form(judge_form, roles.judges, custom, numbers)
    if config.as_published:
        _check_published(config)
        # The paper's judge has all nuggets in one call, however long its replies become.
        specs = {name: _judging_in_one_call(spec, most_nuggets) for name, spec in specs.items()}

    def instances() -> Iterator[Instance]:
        return islice(dataset.instances(), limit)

    # How the agent searches.
    agent = specs.get(roles.agent)
    settings = _settings(config, agent)
    if agent is not None and agent.structured == "llama":
        _check_turns_for_asks(config, agent, settings)
    agent_prompt = config.agent_prompt
    if agent_prompt is None:
        agent_prompt = agent.agent_prompt if agent else "query"

    remarks = list(remarks_on(prompts, languages))
    remarks += remarks_on_modes(config, custom)
    remarks += remarks_on_tiers(specs, cheap=config.cheap)
    if config.as_published:
        remarks.append(AS_PUBLISHED)
    if not config.stop_after:
        remarks += remarks_on_mode(settings, roles, search)
        if agent is not None:
            remarks += remarks_on_agent(prompts.of(roles.agent), agent_prompt)
    gold_sha256 = sha256_of(dataset.gold_path) if dataset.gold_path else None
    plan = Plan(
        config=config,
        systems=dict.fromkeys(systems, Path()),
        reuse=reuse_of(config, config.runs_dir),
        roles=roles,
        specs=specs,
        custom=custom,
        catalogue=catalogue if custom else None,
        dataset=dataset,
        instances=instances,
        n_instances=n_instances,
        limit=limit,
        search=search,
        judges=roles.judges,
        judge_form=judge_form,
        prompts=prompts,
        remarks=tuple(remarks),
        settings=settings,
        toolbox=toolbox,
        current_date="",
        extractor=extractor or "",
        agent_prompt=agent_prompt,
        data_identity={"name": dataset.name, "sha256": dataset.sha256(), "gold_sha256": gold_sha256},
        most_nuggets=most_nuggets,
        human_answers=human_answers,
        given=given_texts(config, given_rows, instances),
        asking_prompts=asking_prompts,
        asks_confidence=plain_prompts is not None and not config.stop_after,
        plain_prompts=plain_prompts,
    )
    plan.check_prompts()
    plan.reuse.check()
    return plan, _series(plan, catalogue)


def _check_custom_agent(config: RunConfig, agent: str, custom: Players, toolbox: Toolbox) -> None:
    """Raise UsageError for an option that an agent of the user's own code cannot follow."""
    if config.agent_mode == "as-published" or config.agent_settings:
        raise UsageError(
            f"{agent} is code of yours, and has no agent mode: leave out --agent-mode and --agent-setting"
        )
    if config.inject_at:
        raise UsageError(
            f"{agent} is code of yours, and takes nothing between its turns: leave out --inject-at"
        )
    # A system named for its questions, whose agent can ask none, would be read as one that had no need to.
    if config.asks_during_search and not may_ask_user(custom[agent]["agent"]):
        raise UsageError(
            f"{agent}: takes no `ask`, and so cannot ask the user during its search: add `ask` to its parameters, "
            "or leave out --ask during and both"
        )
    if not toolbox.is_default:
        raise UsageError(f"{agent} is code of yours, and brings its own tools: leave out --tools")


def _resolved_models(
    config: RunConfig,
    catalogue: Catalogue,
    environ: Mapping[str, str],
    roles_by_model: dict[str, list[str]],
    *,
    extractor: str | None,
    missing_variables: Sequence[str],
    keyless: bool,
    keys_elsewhere: bool,
) -> dict[str, ModelSpec]:
    """The models of all players, by name. Raises UsageError for what cannot be asked, with what to do next."""
    options, trial = _CHOOSE_PLAYERS, "--all baseline"
    if extractor is not None:
        roles_by_model.setdefault(extractor, []).append("extractor")
        options = _CHOOSE_BUILDERS
    # The baseline extracts no nuggets and has no scheme.
    if extractor is not None or config.schemes != ("cts",):
        trial = "--all local"
    specs = resolve_all(
        roles_by_model,
        catalogue,
        environ,
        also_missing=missing_variables,
        options=options,
        trial=trial,
        keyless=keyless,
        keys_elsewhere=keys_elsewhere,
    )
    specs = with_embedded_file(specs, environ)
    if config.budget.max_usd is not None:
        check_prices(specs.values())
    return specs


def _limit(config: RunConfig, specs: Mapping[str, ModelSpec]) -> int | None:
    """How many instances are run: as many as the user says, else a few where the embedded model plays every role."""
    only_embedded = bool(specs) and all(spec.embedded for spec in specs.values())
    if config.limit is None and config.data == "sample" and only_embedded:
        return SMOKE_LIMIT
    return config.limit


def _check_turns_for_asks(config: RunConfig, agent: ModelSpec, settings: AgentSettings) -> None:
    """Raise UsageError where an agent that asks once a turn has too few turns for the questions that it has to ask."""
    if config.min_asks >= settings.max_turns:
        raise UsageError(
            f"--min-asks {config.min_asks}: {agent.name} asks once a turn, and has {settings.max_turns}, the last of "
            f"which answers: add --max-turns {config.min_asks + 1}, or more"
        )


PlanT = TypeVar("PlanT", bound=Plan)


def with_versions(plan: PlanT, series: Mapping[System, Series]) -> PlanT:
    """The plan with the version of each run that it works on, and the date in the agent's prompt.

    Raises InputError for a damaged manifest.
    """
    plan = _as_asked(_as_begun(plan, series), series)
    chosen_date, date_from = choose_date(
        plan.config.date,
        series.values(),
        n_resumed=partial(_n_resumed, plan, series),
        folder=partial(_runs_with_agent, plan),
        today=_today(plan.settings),
    )
    plan = replace(plan, current_date=chosen_date)
    versions: dict[System, ChosenVersion] = {}
    for system in plan.systems:
        versions[system] = choose_version(series[system], plan.identity(system), plan.config)
    directories = {system: version.directory for system, version in versions.items()}
    plan = replace(
        plan,
        systems=directories,
        versions=versions,
        fixed_temperature=sends_fixed_temperature(directories.values()),
    )
    # A resumed run keeps its temperature, so these come after the directories are known.
    remarks = list(plan.remarks)
    remarks += _remarks_on_judges(plan)
    remarks += remarks_on_temperature(plan)
    begun_from = [version.begun_from for version in versions.values() if version.begun_from]
    remarks += remarks_on_batches(plan.config, plan.specs, plan.journals, begun_from)
    is_new = any(version.is_new for version in versions.values())
    if plan.searches and is_new and date_from and chosen_date != _today(plan.settings):
        remarks.append(
            f"The date in the agent's prompt is {chosen_date}, that of {date_from}, so that runs can be compared and "
            "steps reused; --date moves on."
        )
    return replace(plan, remarks=tuple(remarks))


def _as_begun(plan: PlanT, series: Mapping[System, Series]) -> PlanT:
    """The plan in strict mode, where that resumes more of its runs than the default mode of its agent.

    Runs of versions up to 0.13 are all in strict mode, and are finished as they were begun.
    """
    typed = plan.config.agent_mode or plan.config.agent_settings or plan.config.new
    if typed or not (plan.searches and plan.settings.switches):
        return plan
    strict_config = replace(plan.config, agent_mode="strict")
    strict = replace(plan, settings=_settings(strict_config, plan.specs.get(plan.roles.agent)))
    # A reference point may have a version in each mode, for other systems: most runs decide, as for the date.
    if _most_resumed(strict, series) <= _most_resumed(plan, series):
        return plan
    remark = (
        "The run was begun with the agent in strict mode, and is finished so; "
        "--agent-mode as-published makes a new version."
    )
    remarks_before = remarks_on_mode(plan.settings, plan.roles, plan.search)
    remarks = [text for text in plan.remarks if text not in remarks_before]
    remarks += remarks_on_mode(strict.settings, plan.roles, plan.search)
    return replace(strict, remarks=(*remarks, remark))


def _as_asked(plan: PlanT, series: Mapping[System, Series]) -> PlanT:
    """The plan without a request for a confidence, where that resumes more of its runs: 0.14 asked for none."""
    # No run of 0.14 has a system that asks during its search.
    if not plan.asks_confidence or plan.plain_prompts is None or plan.asking_prompts is not None:
        return plan
    unasked = replace(plan, asks_confidence=False, prompts=plan.plain_prompts)
    if plan.config.new or _most_resumed(unasked, series) <= _most_resumed(plan, series):
        return plan
    remark = "The run was begun without asking the agent how sure it is, and is finished so; --new asks."
    return replace(unasked, remarks=(*plan.remarks, remark))


def _most_resumed(plan: Plan, series: Mapping[System, Series]) -> int:
    """Number of systems that have a version with the plan's settings, at the date for which they are most."""
    dates: Iterable[str] = recorded_dates(series.values())
    if plan.config.date:
        dates = (plan.config.date,)
    most = 0
    for recorded in dates:
        most = max(most, _n_resumed(plan, series, recorded))
    return most


def _today(settings: AgentSettings) -> str:
    """The date of a new run."""
    if settings.beijing_date:
        # China has had no daylight saving time since 1991; no time zone database is needed.
        return (datetime.now(UTC) + timedelta(hours=8)).date().isoformat()
    return date.today().isoformat()


def remarks_on_mode(settings: AgentSettings, roles: RoleNames, search: SearchPlan) -> list[str]:
    """Say which switches of the agent mode are on, and which of them nothing here depends on; nothing in strict mode."""
    if not settings.switches:
        return []
    remarks = [f"Agent mode {settings.mode}: {', '.join(settings.switches)}."]
    # By reason, the switches that have no effect.
    idle_switches: dict[str, list[str]] = {}
    if roles.visit is None:
        unread = ["whole_evidence", "shorter_pages"]
        if not search.web:  # a page of the web is fetched whole all the same
            unread.append("whole_pages")
        idle_switches["no model reads pages; see --visit-model"] = unread
    if search.engine.kind != "serper":
        idle_switches["for Serper only"] = ["bare_queries", "local_results"]
    if search.reader.kind != "jina":
        idle_switches["for Jina only"] = ["plain_pages"]
    idle = []
    for reason, names in idle_switches.items():
        names_on = [name for name in names if name in settings.switches]
        if names_on:
            idle.append(f"{', '.join(names_on)} ({reason})")
    if idle:
        remarks.append(f"Without effect here: {', '.join(idle)}.")
    return remarks


def _n_resumed(plan: Plan, series: Mapping[System, Series], current_date: str) -> int:
    """Number of systems that have a version with the plan's settings and this date."""
    dated = replace(plan, current_date=current_date)
    n = 0
    for system, system_series in series.items():
        if not choose_version(system_series, dated.identity(system), replace(plan.config, new=False)).is_new:
            n += 1
    return n


def _runs_with_agent(plan: Plan) -> Iterator[Manifest]:
    """The runs in the plan's folder over the same data and by the same agent."""
    for manifest in read_folder(plan.config.runs_dir).manifests.values():
        if manifest.identity.data.name == plan.dataset.name and manifest.agent == plan.roles.agent:
            yield manifest


def reuse_of(config: CommandConfig, folder: Path) -> Reuse:
    """Where a command whose runs are in `folder` looks for steps of other runs."""
    return Reuse(folder, other_folders=config.reuse, shares_sampled=config.share_sampled)


def _check_published(config: RunConfig) -> None:
    """Raise UsageError for options that the paper's protocol does not have."""
    if config.asks_during_search or config.inject_at:
        raise UsageError(
            "as published, the user is asked before the search: leave out --ask during and both, and --inject-at"
        )
    if (config.schemes, config.modes) != (("cts",), ("at-once",)):
        raise UsageError("as published, all questions are asked at once: leave out --scheme and --mode")
    if config.answers is not None:
        raise UsageError("as published, the User Answerer is a model: leave out --answers, or --as-published")


def _judging_in_one_call(spec: ModelSpec, most_nuggets: int) -> ModelSpec:
    return replace(spec, judge_nuggets=max(spec.judge_nuggets, most_nuggets))


def _remarks_on_judges(plan: Plan) -> Iterator[str]:
    """Notice judges that judge their own text; not those of a smoke test, whose scores mean nothing."""
    if plan.config.no_judge:
        return
    for judge in plan.roles.judges:
        if judge not in plan.specs or plan.specs[judge].embedded:
            continue
        roles: set[str] = set()
        for system in plan.systems:
            players = plan.players(system)
            ids = {role: plan.specs[name].model for role, name in players.items() if name in plan.specs}
            roles.update(self_judged_roles(judge, players, ids))
        if roles:
            yield (
                f"{judge} judges its own text, as {' and '.join(sorted(roles))}: {SELF_PREFERENCE}. "
                "Use --judge for another judge."
            )


def _name_suffix(plan: Plan, system: System, catalogue: Catalogue, *, judged: bool) -> str:
    """The suffix of a run's name for what differs from the defaults, whatever the system is compared with.

    Without `judged` as if it had the usual judge.
    """
    config, clarifying = plan.config, system.kind == "clarify"
    # A reference point's label names no Clarifier, so its defaults are those of a remote one, also in a run with
    # `local`.
    clarifiers = (system.clarifier,) if clarifying else ()
    playing = plan.roles
    usual = choose_roles(RunConfig(models=clarifiers), catalogue.roles)
    # A custom Clarifier that can play the other roles does so by default.
    if {"answerer", "rewriter", "agent"} <= plan.custom.get(system.clarifier, {}).keys():
        usual = RoleNames(system.clarifier, (LEXICAL,), system.clarifier)
    suffix = "+questions" if config.given_questions and clarifying else ""
    if config.stop_after:
        playing, usual = replace(playing, agent=""), replace(usual, agent="")
        suffix += f"+stop-after-{config.stop_after}"
    if config.stop_after != "questions":  # then only the Clarifier plays
        suffix += role_suffix(system, playing, usual, judged=judged)
    if config.answers and clarifying:
        suffix += f"+answers-{config.answers}"
    if config.as_published:
        suffix += "+as-published"
    if not (plan.toolbox.is_default or config.stop_after):
        suffix += f"+tools-{'-'.join(plan.toolbox.names) or NO_TOOLS}"
    return suffix + plan.search.suffix(config) + plan.prompts.mark(clarifying=bool(system.k))


def _series(plan: Plan, catalogue: Catalogue) -> dict[System, Series]:
    """The series of each system's run. Reference points are shared by all systems, whatever name these were given."""
    names = _run_names(plan, catalogue, judged=not plan.config.no_judge)
    lineages = _run_names(plan, catalogue, judged=False)
    series: dict[System, Series] = {}
    for system, name in names.items():
        earlier_names: list[Path] = []
        if plan.config.name and system.kind in REFERENCE_KINDS:
            earlier_names.append(plan.config.runs_dir / f"{plan.config.name}-{system.label}")
        series[system] = Series(plan.config.runs_dir / name, lineages[system], tuple(earlier_names))
    return series


def _run_names(plan: Plan, catalogue: Catalogue, *, judged: bool) -> dict[System, str]:
    suffixes = {}
    for system in plan.systems:
        suffixes[system] = _name_suffix(plan, system, catalogue, judged=judged)
    return run_names(list(plan.systems), plan.dataset.name, plan.config.name, suffixes)


def _roles_by_model(
    config: RunConfig, roles: RoleNames, given_labels: Container[str] = (), custom: Container[str] = ()
) -> dict[str, list[str]]:
    """The roles of each model, by its name; the Clarifiers in `given_labels` are none, nor are players in `custom`."""
    supporters = roles.supporters[: n_supporters_of(config)]
    _, rewriter = roles.supporters
    if "select" in config.modes or ("respond" in config.modes and rewriter not in custom):
        supporters += (roles.support,)  # chooses and reformulates
    # In this order the error about a missing key names the roles that need it.
    players: dict[str, Iterable[str]] = {}
    if config.asks_before_search:
        players["model"] = [name for name in config.models if name not in given_labels]
    elif not config.asks_during_search:
        supporters = ()
    else:
        supporters = supporters[:1]
    if config.models or config.asks_during_search:
        players["support"] = dict.fromkeys(supporters)
    if not config.no_judge:
        players["judge"] = roles.judges
    if not config.stop_after:
        players["agent"] = (roles.agent,)
        if roles.visit is not None:
            players["visit"] = (roles.visit,)
    roles_by_model: dict[str, list[str]] = {}
    for role, names in players.items():
        for name in names:
            if name not in custom:
                roles_by_model.setdefault(name, []).append(role)
    return roles_by_model


def _with_page_reader(roles: RoleNames, custom: Players) -> RoleNames:
    """The roles with a model that reads pages, where one is needed. UsageError if code of the user's would have to."""
    if roles.visit is None or roles.visit not in custom:
        return roles
    # Pages are read by who supports, where nothing else was said; but there is no role of the user's that reads a page.
    # An agent of theirs gets pages whole.
    if roles.agent in custom:
        return replace(roles, visit=None)
    raise UsageError(
        f"{roles.visit} is code of yours, and reads no pages for {roles.agent}: name a model with --visit-model, or use "
        f"--visit-model {LEXICAL} (passages chosen by their words)"
    )


def _missing_variables(search: SearchPlan, environ: Mapping[str, str]) -> list[str]:
    """The environment variables that search tools lack, each with the tools that need it."""
    tools_by_variable: dict[str, list[str]] = {}
    for spec in search.opened:
        variable = spec.missing_key(environ)
        if variable:
            tools_by_variable.setdefault(variable, []).append(spec.name)
    missing = []
    for variable, tools in tools_by_variable.items():
        # One name may be both: Jina searches and reads pages.
        missing.append(f"{variable} (tools: {', '.join(dict.fromkeys(tools))})")
    return missing


def _check_instances(
    dataset: Dataset, limit: int | None, config: RunConfig
) -> tuple[int, int, frozenset[Language]]:
    """Read all instances once, so that an invalid line is found before the first call is paid.

    Returns their number, the largest number of nuggets of one of them, and the languages of their queries.
    """
    n_instances, most_nuggets, n_without_gold, first_without_gold = 0, 0, 0, ""
    languages: set[Language] = set()
    for instance in islice(dataset.instances(), limit):
        n_instances += 1
        most_nuggets = max(most_nuggets, len(instance.nuggets))
        languages |= {language_of(instance.query), language_of(instance.intent)}
        if not instance.nuggets:
            n_without_gold += 1
            first_without_gold = first_without_gold or instance.id
    if not n_instances:
        raise UsageError(f"{dataset.path}: no instances")
    if n_without_gold and not config.no_judge:
        raise UsageError(
            f"{dataset.path}: {n_without_gold} of {n_instances} instances have no nuggets "
            f"(first: {first_without_gold}): "
            "name a gold file with --gold FILE.jsonl, or run without scores with --no-judge"
        )
    return n_instances, most_nuggets, frozenset(languages)


def _settings(config: RunConfig, agent: ModelSpec | None) -> AgentSettings:
    """How the agent searches: as its model's entry of the catalogue says, within that model's context."""
    settings: dict[str, Any] = {}
    if agent is not None:
        settings |= AGENT_MODES[_agent_mode(config, agent)]
        _check_agent_table(agent)
        settings |= {name: value for name, value in agent.agent.items() if name != "mode"}
    settings |= _typed_switches(config.agent_settings)
    if agent is not None and "tokenizer" in settings:
        settings["tokenizer"] = _tokenizer_sha256(agent, settings)
    if config.max_turns is not None:
        settings["max_turns"] = config.max_turns
    if agent is not None and agent.context_tokens is not None:
        # The context holds the reply, too.
        room = agent.context_tokens - (output_limit(agent.params) or 0)
        settings["max_input_tokens"] = min(room, settings.get("max_input_tokens") or room)
    return AgentSettings(**settings)


def _tokenizer_sha256(agent: ModelSpec, settings: Mapping[str, Any]) -> str:
    """The digest of the tokenizer that an agent's entry names. Raises UsageError where it cannot be used."""
    if settings["cut_in_middle"]:
        # What is cut there is chosen by bytes.
        raise UsageError(
            f"{agent.name}: agent.tokenizer in cts.toml does not go with cut_in_middle; leave one out"
        )
    return open_counter(Path(agent.agent["tokenizer"])).sha256


def _agent_mode(config: RunConfig, agent: ModelSpec) -> str:
    """The agent mode as typed, else of the catalogue, else that of --as-published, else "strict"."""
    if config.agent_mode is not None:
        return config.agent_mode
    mode = agent.agent.get("mode", "strict")
    if mode not in AGENT_MODES:
        raise UsageError(
            f"{agent.name}: agent.mode in cts.toml is {mode!r}; write {' or '.join(AGENT_MODES)}"
        )
    if config.as_published and mode == "strict":
        return "as-published"
    return str(mode)


_AT_LEAST_ONE: Final = ("max_turns", "max_input_tokens")
"""Settings without which there is no search; the others are numbers of characters or results."""


def _check_agent_table(agent: ModelSpec) -> None:
    """Raise UsageError for a setting that agents do not have, or whose value is of another type; not for `mode`."""
    defaults = {setting.name: setting.default for setting in fields(AgentSettings)}
    for name, value in agent.agent.items():
        if name == "mode":
            continue
        place = f"{agent.name}: agent.{name} in cts.toml"
        if name not in defaults:
            # A misspelled switch would make another experiment than the one that was meant.
            hint = suggestion(name, ("mode", *defaults))
            raise UsageError(f"{place}: agents have no such setting{hint}")
        if isinstance(defaults[name], bool):
            if not isinstance(value, bool):
                raise UsageError(f"{place} is {value!r}; write true or false")
        elif name == "max_minutes":
            if not (type(value) in (int, float) and 0 < value < math.inf):
                raise UsageError(f"{place} is {value!r}; write a number of minutes above 0")
        elif name == "tokenizer":
            if not isinstance(value, str) or not value:
                raise UsageError(f"{place} is {value!r}; write the path of a tokenizer.json")
        else:
            least = 0
            if name in _AT_LEAST_ONE:
                least = 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{place} is {value!r}; write a whole number, {least} or more")


def _typed_switches(texts: Iterable[str]) -> dict[str, bool]:
    """The switches of `--agent-setting`, each as NAME=true or NAME=false. Raises UsageError."""
    switches: dict[str, bool] = {}
    for text in texts:
        name, _, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in ALL_SWITCHES:
            near = closest(name, ALL_SWITCHES)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(ALL_SWITCHES)}"
            raise UsageError(f"--agent-setting {text}: no switch is called {name!r}{hint}")
        value = value.strip().lower()
        if value not in ("true", "false"):
            raise UsageError(f"--agent-setting {text}: write {name}=true or {name}=false")
        if switches.get(name, value == "true") != (value == "true"):
            raise UsageError(f"--agent-setting {name}: typed as true and as false; type one of them")
        switches[name] = value == "true"
    return switches


FIXED_TEMPERATURE: Final = "fixed_temperature"
"""The manifest's note of the temperature that fixed roles are asked at though their model's entry has none."""


def sends_fixed_temperature(directories: Iterable[Path]) -> bool:
    """False if one of the runs was begun without it, by a version up to 0.11: it is finished as it was begun."""
    for directory in directories:
        manifest = read_manifest(directory)
        if manifest is not None and manifest.fixed_temperature is None:
            return False
    return True


def remarks_on_temperature(plan: SystemsPlan) -> Iterator[str]:
    """Say which models sample as their server likes because a run was begun so."""
    names = [name for name, spec in plan.specs.items() if spec.fixed_role_params]
    if names and not plan.fixed_temperature:
        yield (
            f"{', '.join(names)}: the run was begun without a temperature for User Answerer, Rewriter and judge, and is "
            "finished so; a new version (--new) asks them at 0"
        )


# --- Search tools


CORPUS = "corpus"


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A search engine, a page reader, and the runs whose journals replace them, if any.

    `corpus` is the file of documents to search or visit; None if neither uses documents.
    """

    engine: EngineSpec
    reader: ReaderSpec
    corpus: Path | None = None
    corpus_sha256: str | None = None
    replayed: tuple[Path, ...] = ()
    replayed_sha256: tuple[str, ...] = ()

    @property
    def web(self) -> bool:
        """Whether pages come from the web, not from a file."""
        return self.reader.kind != CORPUS

    @property
    def opened(self) -> list[EngineSpec | ReaderSpec]:
        """The tools that use the network: none if replayed, and not the documents."""
        if self.replayed:
            return []
        specs: list[EngineSpec | ReaderSpec] = [self.engine, self.reader]
        return [spec for spec in specs if spec.kind != CORPUS]

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the results of searches and visits, as JSON values."""
        visit = dict(self.reader.identity)
        # Pages at private addresses are found only where they are allowed.
        if self.reader.kind == "direct" and self.reader.allow:
            visit["allow"] = sorted(self.reader.allow)
        identity: dict[str, Any] = {"search": dict(self.engine.identity), "visit": visit}
        if self.replayed:
            identity["replay"] = list(self.replayed_sha256)
        return identity

    def suffix(self, config: RunConfig) -> str:
        """The suffix of a run's name: `+serper`, `+visit-direct` if an option chose it, `+replay`; "" for documents."""
        suffix = ""
        if self.engine.kind != CORPUS:
            suffix += f"+{self.engine.name}"
        if config.visit and self.web:
            suffix += f"+visit-{self.reader.name}"
        if self.replayed:
            suffix += "+replay"
        return suffix

    @property
    def notes(self) -> dict[str, Any]:
        """The tools by name, for the manifest; `--replay` reads it again."""
        return {
            "search": self.engine.name,
            "visit": self.reader.name,
            "replay": list(map(str, self.replayed)),
        }


def plan_search(
    config: RunConfig, catalogue: SearchCatalogue, environ: Mapping[str, str], documents: Path | None
) -> SearchPlan:
    """Choose engine and reader; `documents` are those of the dataset, replaced by `--corpus`. Raises UsageError.

    A run that stops before the search has neither documents nor runs to replay, nor has an agent without tools.
    """
    if config.stop_after or config.tools == (NO_TOOLS,):
        return SearchPlan(catalogue.engine(CORPUS), catalogue.reader(CORPUS))
    journals = []
    for run in config.replay:
        if not (run / STEPS).is_file():
            raise UsageError(f"--replay {run}: not a run directory: {STEPS} not found")
        journals.append(run / STEPS)
    replayed_tools = Tools()
    if config.replay:
        replayed_tools = manifest_or_empty(config.replay[0]).tools
    documents = config.corpus or documents
    name = config.search or replayed_tools.search
    if not name and documents is None:
        raise UsageError(
            f"--data {config.data} has no documents: use --corpus FILE.jsonl, "
            "or search the web with --search serper"
        )
    engine = catalogue.engine(name or CORPUS)
    reader = catalogue.reader(config.visit or replayed_tools.visit or _usual_reader(engine, environ))
    if config.allow_addresses:
        reader = _allowing(reader, config.allow_addresses)
    corpus = _documents_used(engine, reader, documents)
    return SearchPlan(
        engine=engine,
        reader=reader,
        corpus=corpus,
        corpus_sha256=sha256_of(corpus) if corpus else None,
        replayed=tuple(config.replay),
        replayed_sha256=tuple(sha256_of(path) for path in journals),
    )


def _usual_reader(engine: EngineSpec, environ: Mapping[str, str]) -> str:
    """The name of the page reader that suits a search engine: documents are visited where they were searched."""
    if engine.kind == CORPUS:
        return CORPUS
    return "jina" if environ.get("JINA_API_KEY", "").strip() else "direct"


def _allowing(reader: ReaderSpec, addresses: Sequence[str]) -> ReaderSpec:
    """The reader, allowed to fetch pages at private addresses."""
    if reader.kind == CORPUS:
        raise UsageError(f"--allow-address applies to web pages only, but --visit is {reader.name}")
    try:
        AllowList.parse(addresses)
    except ValueError as error:
        raise UsageError(f"--allow-address: {error}") from None
    return reader.model_copy(update={"allow": reader.allow + tuple(addresses)})


def _documents_used(engine: EngineSpec, reader: ReaderSpec, documents: Path | None) -> Path | None:
    """The file of documents; an entry of cts.toml may name its own."""
    paths = {spec.path or documents for spec in (engine, reader) if spec.kind == CORPUS}
    if None in paths:
        raise UsageError("no documents to search: use --corpus FILE.jsonl")
    if len(paths) > 1:
        raise UsageError(f"--search {engine.name} and --visit {reader.name} name different documents")
    return paths.pop() if paths else None
