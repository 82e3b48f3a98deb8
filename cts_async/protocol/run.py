"""Opens what a command needs, and runs the jobs of its plan on one engine.

`open_resources` opens models with their lanes, `open_search` the search tools, `open_budget` what may be spent; models
that share an account share a lane. `execute` serves `cts run`, `gold`, `converse` and `judge`: a command says what its
jobs are with an `open_jobs` function. Jobs go instance by instance, all systems of an instance side by side, so that the
compared systems grow together and an early stop leaves them comparable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import anyio
from yarl import URL

from cts_async.config import BudgetConfig
from cts_async.custom import RoleName
from cts_async.engine.budget import NOTHING, Budget, BudgetLimits, Deadline
from cts_async.engine.events import Cost, Events, Notice
from cts_async.engine.journal import read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.prices import INPUT, OUTPUT, Prices, cost_terms
from cts_async.engine.processes import allow_more_files
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.signals import stoppable
from cts_async.engine.step import step_key
from cts_async.errors import RoleFailed, StepError, UsageError, reason_to_stop
from cts_async.foreign_json import as_count, as_float, as_object, as_text
from cts_async.llm.batches import BatchClient, BatchLane
from cts_async.llm.catalog import BATCH, Catalogue, ModelSpec
from cts_async.llm.http import ConnectionPool
from cts_async.llm.local import serving
from cts_async.llm.model import Client, Model, ServedModels, input_tokens, model_prices
from cts_async.llm.proxies import proxy_for
from cts_async.llm.redact import SECRETS
from cts_async.llm.tokenizer import open_counter
from cts_async.protocol.batching import batch_settings, batch_widths
from cts_async.protocol.conversation import (
    NOBODY,
    Answerer,
    ModelAnswerer,
    ModelTurnClarifier,
    Participants,
    SupportModel,
    TurnClarifier,
)
from cts_async.protocol.custom.calls import CustomPlayer
from cts_async.protocol.custom.players import open_players
from cts_async.protocol.custom.sources import CustomRole
from cts_async.protocol.forecast import forecast, manifest_forecast
from cts_async.protocol.human_answers import HumanAnswerer
from cts_async.protocol.judge import LEXICAL, Judge, LexicalJudge, MatchJudge, ModelJudge
from cts_async.protocol.pipeline import (
    Cast,
    clarify_then_search,
    converse_then_search,
    judge_recorded,
    search_only,
    with_further,
)
from cts_async.protocol.plan import CORPUS, CommandPlan, Plan, SystemsPlan, enough_in_flight
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.roles import (
    Clarifier,
    DeepSearch,
    ModelClarifier,
    ModelRewriter,
    PageVisitor,
    Role,
    Searcher,
)
from cts_async.protocol.run_files import (
    EndedLines,
    RecordedWork,
    RunFiles,
    RunRecord,
    SessionNotes,
    open_run_files,
)
from cts_async.protocol.systems import RoleNames, System, check_prices
from cts_async.records import JUDGING, Instance, JudgeForm, Judgment, Outcome, value
from cts_async.runs.files import STEPS
from cts_async.runs.results import (
    Line,
    conversation_json,
    error_json,
    failure_line,
    judged,
    outcome_line,
    verdict_line,
)
from cts_async.search.agent import Agent, CountTokens
from cts_async.search.backends import PageReader, SearchEngine
from cts_async.search.backends.corpus import CorpusBackend
from cts_async.search.backends.fetch import DirectReader
from cts_async.search.backends.services import HttpEngine, open_reader
from cts_async.search.catalog import EngineSpec, ReaderSpec
from cts_async.search.tools import CHANGE_RECORDS, MAX_PAGE_CHARS, Recorded, Tools

Files = Mapping[System, RunFiles]
Walk = Callable[[Context], Awaitable[Outcome]]
FUNCTIONS_IN_FLIGHT = 64
"""Calls of custom roles that are worth having in progress at once: the most that a command or an endpoint is sent."""
EMBEDDED_OUTAGE_S = 20.0
"""The embedded server is a child process: once it is gone it does not come back, so a long wait is pointless."""


PUBLISHED_PARAMS: Mapping[str, Any] = {"temperature": 0.0}
"""Of every role but the agent, in a run as published (paper, section 5.1: deterministic decoding)."""


LaneOf = Callable[[str, str, LaneLimits], Lane]
"""Makes the lane of an account from the account, its name and its limits."""


@dataclass(slots=True)
class Resources:
    """Models by the name they were asked for, each bound to its account's lane.

    Search tools register their lanes here too, so that one engine drives all of them.
    """

    prompts: PromptSet
    models: Mapping[str, Model]
    environ: Mapping[str, str]
    events: Events
    max_outage_s: float
    accounts: dict[str, Lane] = field(default_factory=dict)
    """Lanes by account."""
    lane_of: LaneOf | None = None
    """Makes lanes that are shared with other processes; None: the lanes are this process's own."""
    custom: Mapping[tuple[str, RoleName], CustomPlayer] = field(default_factory=dict)
    """Roles that code of the user's plays, by label and role."""
    host: ModelHost | None = None
    """What they may use."""
    as_published: bool = False
    """Whether the paper's protocol is played to the letter."""
    judge_form: JudgeForm = "nuggets"
    """What judges are asked."""
    several_answers: bool = False
    """Whether judges are given several answers to each query, one soon after the other."""
    fixed_temperature: bool = True
    """As the plan has it."""
    batches: BatchClient | None = None
    """Asks models by batches; None: nobody is asked so."""

    @property
    def lanes(self) -> Sequence[Lane]:
        return tuple(self.accounts.values())

    def has_calls_under_way(self) -> bool:
        """True while anything but a batch is waited for."""
        for lane in self.accounts.values():
            if not isinstance(lane, BatchLane) and (lane.in_flight or lane.waiting):
                return True
        return False

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of `account`; created with `name` and `limits` at the first request for it."""
        if account not in self.accounts:
            if self.lane_of is None:
                self.accounts[account] = Lane(name, limits, self.events)
            else:
                self.accounts[account] = self.lane_of(account, name, limits)
        return self.accounts[account]

    def role(self, name: str, *, batched: bool = False) -> Role:
        """A role of a model; `batched` if the command may ask it by batches."""
        params = PUBLISHED_PARAMS if self.as_published else {}
        model = self.models[name]
        if batched and self.batches is not None:
            model = self._batched_model(model, self.batches)
        return Role(model, self.prompts.of(name), params)

    def _batched_model(self, model: Model, batches: BatchClient) -> Model:
        """The same model, asked by batches."""
        # Of each model, though several may share an account: one that is gone stops its own batches only.
        account = f"{model.spec.name} batch"
        lane = self.accounts.get(account)
        if lane is None:
            lane = self.accounts[account] = batches.lane(model.spec, model.lane)
        dearest_tier = BATCH
        if batches.asks_live:
            dearest_tier = ""
        # Writing to a cache costs more, and reading from it would be chance: nobody knows when a batch's lines are done.
        spec = replace(model.spec, cache_marks=False)
        return Model(spec, batches, lane, model.served, dearest_tier)

    def fixed_role(self, name: str, *, batched: bool = False) -> Role:
        """A role that the paper plays at temperature 0: the User Answerer, the Rewriter, a judge."""
        role = self.role(name, batched=batched)
        if self.fixed_temperature:
            role = replace(role, defaults=role.model.spec.fixed_role_params)
        return role

    def judge(self, name: str) -> Judge:
        if name == LEXICAL:
            return LexicalJudge(form=self.judge_form)
        if self.judge_form == "match":
            return MatchJudge(name, self.fixed_role(name, batched=True))
        custom = self.custom.get((name, "judge"))
        if custom is not None:
            return custom
        role = self.fixed_role(name, batched=True)
        return ModelJudge(name, role, several_answers=self.several_answers)

    def clarifier(self, name: str) -> Clarifier:
        return self.custom.get((name, "clarifier")) or ModelClarifier(self.role(name))

    def turn_clarifier(self, system: System) -> TurnClarifier:
        custom = self.custom.get((system.clarifier, "clarifier"))
        return custom or ModelTurnClarifier(self.role(system.clarifier), system)

    def participants(self, roles: RoleNames, answerer: Answerer | None = None) -> Participants:
        """Who plays the user and the Rewriter; nobody where no role of this run has that name.

        `answerer` answers in the place of the User Answerer.
        """
        answerer_name, rewriter_name = roles.supporters
        if answerer is None:
            answerer = self._answerer(answerer_name)
        support = NOBODY
        if roles.support in self.models:
            support = SupportModel(self.fixed_role(roles.support))
        rewriter, reformulator = NOBODY, support
        if (rewriter_name, "rewriter") in self.custom:
            # Code of the user's that rewrites sums up a conversation, too.
            rewriter = reformulator = self.custom[rewriter_name, "rewriter"]
        elif rewriter_name in self.models:
            rewriter = ModelRewriter(self.fixed_role(rewriter_name))
        return Participants(answerer, rewriter, reformulator, selector=support)

    def _answerer(self, name: str) -> Answerer:
        """Who plays the User Answerer by this name; nobody where no role of this run has it."""
        custom = self.custom.get((name, "answerer"))
        if custom is not None:
            custom.exact_unknown = self.as_published
            return custom
        answerer: Answerer = NOBODY
        if name in self.models:
            answerer = ModelAnswerer(self.fixed_role(name), self.as_published)
        return answerer


@asynccontextmanager
async def open_resources(
    plan: CommandPlan, environ: Mapping[str, str], events: Events, lane_of: LaneOf | None = None
) -> AsyncIterator[Resources]:
    """Open the HTTP client, start the embedded model's server if it is used, and bind every model to a lane.

    `lane_of` makes the lanes of accounts that other processes use too; an embedded model is this process's own. Custom
    roles may ask every model of the catalogue, which is opened when it is first asked for.
    Raises UsageError where the embedded model is missing or a proxy cannot be used.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(environ))
        served = ServedModels(events)
        batches: BatchClient | None = None
        if plan.config.uses_batches:
            batches = await stack.enter_async_context(
                BatchClient(client, events, batch_settings(plan.config, plan.journals))
            )
        models: dict[str, Model] = {}
        max_outage_s = plan.config.max_outage_s
        resources = Resources(plan.prompts, models, environ, events, max_outage_s, lane_of=lane_of)
        resources.batches = batches
        resources.as_published = isinstance(plan, Plan) and plan.config.as_published
        resources.fixed_temperature = plan.fixed_temperature
        resources.judge_form = plan.judge_form
        resources.several_answers = plan.judges_several_answers

        async def open_model(name: str, spec: ModelSpec) -> Model:
            for opened_name, opened_spec in plan.specs.items():  # the same model with other prompts
                if opened_name in models and replace(opened_spec, name=name) == spec:
                    models[name] = models[opened_name]
                    return models[name]
            limits = lane_limits_of(spec, max_outage_s)
            account = spec.account
            if spec.embedded:
                spec = await stack.enter_async_context(serving(spec, environ))
                # An embedded model is this process's own, also in a worker of a cluster.
                resources.accounts.setdefault(account, Lane(name, limits, events))
            client.check_proxy(spec)  # now, not at the first call
            lane = resources.lane(account, name, limits)
            models[name] = Model(spec, client, lane, served)
            return models[name]

        for name, spec in plan.specs.items():
            await open_model(name, spec)
        catalogue = plan.catalogue
        if plan.custom and catalogue is not None:
            host = ModelHost(resources, catalogue, open_model, plan.config.budget)
            resources.host = host
            # Such code may read the environment, and what it writes is recorded.
            for spec in catalogue.models.values():
                if spec.key_env:
                    SECRETS.add(environ.get(spec.key_env, "").strip())
            roles: list[CustomRole] = []
            for player in plan.custom.values():
                roles += player.values()
            custom = open_players(
                roles,
                host,
                environ,
                events,
                resources.lane,
                models=partial(sorted, catalogue.models),
                max_outage_s=max_outage_s,
            )
            resources.custom = await stack.enter_async_context(custom)
        allow_more_files(sum(lane.limits.max_concurrency for lane in resources.lanes))
        yield resources


def _ignore_lane(lane: Lane) -> None:
    """Do nothing: before jobs run there is no engine that has to know of a lane."""


class ModelHost:
    """What custom roles may use of the run: its search tools, and the models of the catalogue."""

    def __init__(
        self,
        resources: Resources,
        catalogue: Catalogue,
        open_model: Callable[[str, ModelSpec], Awaitable[Model]],
        budget: BudgetConfig,
    ) -> None:
        self.tools: Tools | None = None
        self.on_lane: Callable[[Lane], None] = _ignore_lane
        """Called with the lane of a model that is opened while jobs run."""
        self._resources, self._catalogue, self._open_model = resources, catalogue, open_model
        self._budget, self._opening = budget, anyio.Lock()

    async def model(self, name: str) -> Model:
        """A model of the catalogue.

        Raises RoleFailed if it is unknown, lacks its key, cannot be opened, or has no price where dollars are limited.
        """
        # Before the lock: calls side by side would pass it one by one, and no longer share writes and wake-ups.
        if name in self._resources.models:
            return self._resources.models[name]
        async with self._opening:
            if name in self._resources.models:
                return self._resources.models[name]
            accounts_before = set(self._resources.accounts)
            try:
                missing = self._catalogue.missing_variables(name, self._resources.environ)
                if missing:
                    raise UsageError(f"{name}: missing in the environment: {', '.join(missing)}")
                spec = self._catalogue.resolve(name, self._resources.environ)
                if self._budget.max_usd is not None:
                    check_prices([spec])
                model = await self._open_model(name, spec)
            except UsageError as error:
                raise RoleFailed(str(error)) from None
            for account in self._resources.accounts.keys() - accounts_before:
                self.on_lane(self._resources.accounts[account])
            return model


def instances_in_flight(resources: Resources) -> int:
    """`enough_in_flight` for the lanes of the models; more concurrency of tools does not call for more instances."""
    widths = [model.lane.limits.max_concurrency for model in resources.models.values()]
    if resources.custom:
        widths.append(FUNCTIONS_IN_FLIGHT)
    return enough_in_flight(widths)


def lane_limits_of(spec: ModelSpec, max_outage_s: float) -> LaneLimits:
    """The limits of a model's account."""
    if spec.embedded:
        max_outage_s = min(max_outage_s, EMBEDDED_OUTAGE_S)
    return LaneLimits(
        requests_per_min=spec.requests_per_min,
        tokens_per_min=spec.tokens_per_min,
        max_concurrency=spec.max_concurrency,
        kind=spec.limit,
        window_s=spec.window_s,
        raisable=not spec.limits_fixed,
        max_outage_s=max_outage_s,
    )


# --- Deep search


@asynccontextmanager
async def open_search(plan: Plan, resources: Resources) -> AsyncIterator[Searcher]:
    """The search agent of `plan` with its tools. Raises UsageError where they cannot be opened.

    The tools' lanes join those of `resources`: create the Runner with `resources.lanes` after this.
    """
    async with AsyncExitStack() as stack:
        engine, reader = await _open_tools(plan, resources, stack)
        yield searcher_of(plan, resources, engine, reader)


def searcher_of(plan: Plan, resources: Resources, engine: SearchEngine, reader: PageReader) -> Searcher:
    """The search agent of `plan` with this engine and this reader; their lanes join those of `resources`."""
    search, visitor = plan.search, None
    if plan.roles.visit is not None:
        # The reader is one of the agent's tools: it samples as the catalogue says, also in a run as published.
        role = replace(resources.role(plan.roles.visit), params={})
        settings = plan.settings
        visitor = PageVisitor(role, whole_pages=settings.whole_pages, shorter_pages=settings.shorter_pages)
    determining: list[Any] = [search.identity, search.corpus_sha256, plan.settings.snippet_chars]
    # What changes records of searches and pages; keys without it are those of earlier versions.
    recording = [name for name in CHANGE_RECORDS if name in plan.settings.switches]
    if recording:
        determining.append(recording)
    tools = Tools(
        engine=engine,
        reader=reader,
        identity=step_key(*determining),
        settings=plan.settings,
        extractor=visitor,
        engine_lane=_tool_lane(search.engine, plan, resources),
        reader_lane=_tool_lane(search.reader, plan, resources),
        records_pages=search.web,
    )
    if resources.host:
        resources.host.tools = tools
    custom_agent = resources.custom.get((plan.roles.agent, "agent"))
    if custom_agent is not None:
        return custom_agent
    model = resources.models[plan.roles.agent]
    count_tokens: CountTokens = input_tokens
    if plan.settings.tokenizer:
        count_tokens = open_counter(Path(model.spec.agent["tokenizer"])).count
    agent = Agent(
        model,
        tools,
        plan.settings,
        takes_empty=plan.config.empty_answers == "zero",
        toolbox=plan.toolbox,
        count_tokens=count_tokens,
        asks_confidence=plan.asks_confidence,
    )
    return DeepSearch(agent, plan.prompts.of(plan.roles.agent), plan.current_date, plan.agent_prompt)


async def _open_tools(
    plan: Plan, resources: Resources, stack: AsyncExitStack
) -> tuple[SearchEngine, PageReader]:
    """The search engine and the page reader: a recorded run, the documents, or services on the network."""
    search = plan.search
    if not plan.toolbox.tools:
        # Nobody asks for anything: an empty recording stands for both.
        nothing = Recorded(())
        return nothing, nothing
    documents: CorpusBackend | None = None
    if search.corpus is not None:
        documents = CorpusBackend(search.corpus, snippet_chars=plan.settings.snippet_chars)
        await documents.load()
    if search.replayed:
        recorded = Recorded([run / STEPS for run in search.replayed], search.engine.engine)
        # The documents are at hand: a page of them is read there, also one that the recorded run did not visit.
        if documents is not None and search.reader.kind == CORPUS:
            return recorded, documents
        return recorded, recorded
    session: aiohttp.ClientSession | None = None
    if search.opened:
        connector = ConnectionPool(resources.environ)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        for spec in search.opened:
            # An unusable proxy is an error now, not at the first call.
            proxy_for(URL(spec.url), resources.environ)
    engine: SearchEngine | None = documents if search.engine.kind == CORPUS else None
    reader: PageReader | None = documents if search.reader.kind == CORPUS else None
    if session is not None and engine is None:
        engine = HttpEngine(_engine_spec(plan), resources.environ, session)
    if session is not None and reader is None:
        reader = open_reader(
            _reader_spec(plan), resources.environ, session, plain_pages=plan.settings.plain_pages
        )
    if isinstance(reader, DirectReader):
        stack.callback(reader.close)
    if engine is None or reader is None:
        raise AssertionError("a tool that is not the corpus has been opened")
    return engine, reader


def _engine_spec(plan: Plan) -> EngineSpec:
    """The search engine, asked as the agent's mode has it."""
    spec = plan.search.engine
    if spec.kind != "serper":
        return spec
    if plan.settings.bare_queries and isinstance(spec.body, Mapping):
        body = {name: value for name, value in spec.body.items() if name != "num"}
        spec = spec.model_copy(update={"body": body})
    if plan.settings.local_results:
        # What cts.toml says goes before it.
        params = _USA | spec.params
        spec = spec.model_copy(update={"params": params, "zh_params": _CHINA | spec.params | spec.zh_params})
    return spec


_USA: Final = {"location": "United States", "gl": "us", "hl": "en"}
_CHINA: Final = {"location": "China", "gl": "cn", "hl": "zh-cn"}
"""Serper's place, country and language, as Tongyi DeepResearch asks for them (`local_results`)."""


def _reader_spec(plan: Plan) -> ReaderSpec:
    """The page reader, whose pages are as long as the agent's mode has them."""
    spec = plan.search.reader
    if plan.settings.whole_pages:
        return spec.model_copy(update={"max_chars": max(spec.max_chars, MAX_PAGE_CHARS)})
    return spec


def _tool_lane(spec: EngineSpec | ReaderSpec, plan: Plan, resources: Resources) -> Lane | None:
    """The lane of a tool's account; None for tools that use no network."""
    if spec not in plan.search.opened:
        return None
    limits = LaneLimits(
        requests_per_min=spec.requests_per_min,
        max_concurrency=spec.max_concurrency,
        max_outage_s=resources.max_outage_s,
        raisable=False,
    )
    return resources.lane(spec.account, spec.name, limits)


# --- The budget: what a command may spend in all its sessions together
#
# Only the steps of the command itself count: verdicts that another command added to the same run do not. What was in
# flight when a process was killed is in no journal, and is the only spending that is not counted.


def open_budget(plan: CommandPlan, events: Events) -> Budget | None:
    """The budget less what the plan's journals show as spent; None without limits. Needs a running event loop."""
    config = plan.config.budget
    if not config.is_limited:
        return None
    judging_steps = tuple(f"{JUDGING}{judge}" for judge in plan.judges)
    # What custom judges ask of models.
    steps_within = tuple(f"{step}/" for step in judging_steps)

    def counts(step: str) -> bool:
        if not step.startswith(JUDGING):
            return not plan.only_judges
        return step in judging_steps or step.startswith(steps_within)

    limits = BudgetLimits(config.max_calls, config.max_tokens, config.max_usd)
    spent = NOTHING
    if limits != BudgetLimits():
        prices = {model: model_prices(spec) for model, spec in plan.specs_by_model.items()}
        spent = spent_before(plan.journals, prices, counts)
    return Budget(limits, spent, deadline=deadline_at(config.deadline), events=events)


def deadline_at(stamp: float | None) -> Deadline | None:
    """The deadline at the wall-clock time `stamp`, in seconds since 1970; None without one."""
    if stamp is None:
        return None
    text = datetime.fromtimestamp(stamp).isoformat(sep=" ", timespec="seconds")
    return Deadline(asyncio.get_running_loop().time() + stamp - time.time(), text)


def spent_before(
    journals: Iterable[Path], prices: Mapping[str, Prices | None], counts: Callable[[str], bool]
) -> Cost:
    """The total of the journals' records (a journal may not exist yet); `prices` by model id."""
    total = NOTHING
    for path in journals:
        for record in read_records(path):
            model = as_text(record.get("model"))
            if "reused" in record:  # paid by another run
                continue
            if model is not None and counts(str(as_text(record.get("step")))):
                total += _cost(record, prices.get(model))
    return total


def _cost(record: Mapping[str, Any], price: Prices | None) -> Cost:
    """What a record says that its step cost. Never less than nothing: a journal may be anybody's."""
    charged, assumed = as_object(record.get("usage")), as_object(record.get("assumed"))
    used = {kind: as_count(n_tokens) for kind, n_tokens in charged.items()}
    # Of attempts whose reply never came, only an assumption is known.
    tokens = max(0.0, as_float(assumed.get("tokens")) or 0.0)
    usd = max(0.0, as_float(assumed.get("usd")) or 0.0)
    if price is not None:
        usd += sum(cost_terms(used, price.by_kind))
    attempts = 1
    if "attempts" in record:
        attempts = as_count(record["attempts"])
    return Cost(attempts, used.get(INPUT, 0) + used.get(OUTPUT, 0) + tokens, usd)


# --- Jobs


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
    config, jobs_began = plan.config, False
    try:
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
            jobs_began = True
            batches = resources.batches
            if batches is not None:
                batches.is_busy = resources.has_calls_under_way
                if config.submit:
                    batches.on_submitted = runner.stop
            await runner.run(*jobs.streams, in_flight=jobs.in_flight)
            if batches is not None:
                await batches.close_ended()
    except Exception as error:
        # Files may fail when they are closed, too. Once something was paid for, that is no usage error any more.
        reason = reason_to_stop(error)
        if not jobs_began or reason is None or reason is error:
            raise
        raise reason from None


@contextmanager
def open_system_files(
    plan: SystemsPlan,
    events: Events,
    session_notes: SessionNotes = dict,
    more_notes: Callable[[System], Mapping[str, Any]] | None = None,
    judges: Sequence[str] = (),
) -> Iterator[Files]:
    """The files of every system, in order; emits what was found in them. Raises UsageError, StorageFull.

    `judges` have to judge every answer, the scoring one first; none where nothing is judged.
    """
    with ExitStack() as stack:
        files = {}
        origins = plan.reuse.origins(plan.directories(), events)
        for system, directory in plan.systems.items():
            version = plan.versions[system]
            if version.announcement:
                events.emit(Notice(version.announcement))
            notes = plan.notes(system)
            if more_notes is not None:
                notes |= more_notes(system)
            prompts = {prompt.name: prompt.text for prompt in plan.prompts_of(system)}
            record = RunRecord(plan.identity(system), notes, prompts, sources=plan.sources_of(system))
            source = None
            if version.reuses:
                source = plan.source_of(system, origins)
            run_files = open_run_files(
                directory, record, sync=plan.config.sync, source=source, session_notes=session_notes
            )
            files[system] = stack.enter_context(run_files)
        retry_failed = plan.config.retry_failed
        for system, run in files.items():
            n_unjudged = 0
            if judges:
                n_unjudged = run.n_unjudged(plan.instances, judges, retry_failed=retry_failed)
            run.report_found(
                events, plan.n_expected(system), retry_failed=retry_failed, n_unjudged=n_unjudged
            )
        yield files


# --- cts run


async def run_plan(plan: Plan, environ: Mapping[str, str], events: Events) -> None:
    """Run or resume every system. Raises RunStopped when it ends early."""
    await execute(plan, environ, events, _open_jobs)


@asynccontextmanager
async def _open_jobs(plan: Plan, resources: Resources, events: Events) -> AsyncIterator[Jobs]:
    async with open_cast(plan, resources) as cast:
        with open_runs(plan, events) as files:
            in_flight = batch_widths(plan.config, plan.n_instances * len(plan.systems))
            yield Jobs([_jobs(plan, resources, cast, files)], in_flight=in_flight)


def open_runs(
    plan: Plan, events: Events, session_notes: SessionNotes = dict
) -> AbstractContextManager[Files]:
    """`open_system_files` with the forecast in each manifest, to be compared with what the run really takes."""
    planned = forecast(plan)

    def forecast_note(system: System) -> Mapping[str, Any]:
        return {"forecast": manifest_forecast(plan, planned, system)}

    judges = judges_to_complete(plan)
    return open_system_files(plan, events, session_notes, more_notes=forecast_note, judges=judges)


@asynccontextmanager
async def open_cast(plan: Plan, resources: Resources) -> AsyncIterator[Cast]:
    """Open the players of all roles but the Clarifiers'. Raises UsageError where something is missing."""
    search: AbstractAsyncContextManager[Searcher] = nullcontext(NOBODY)
    if plan.searches:
        search = open_search(plan, resources)
    async with search as searcher:
        yield cast_of(plan, resources, searcher)


def cast_of(plan: Plan, resources: Resources, searcher: Searcher) -> Cast:
    """The players of all roles but the Clarifiers', with this agent."""
    answerer = None
    if plan.human_answers is not None:
        answerer = HumanAnswerer(plan.human_answers)
    user = resources.participants(plan.roles, answerer)
    judges = tuple(resources.judge(name) for name in judge_names(plan))
    return Cast(
        user,
        searcher,
        _asking_searcher(plan, searcher),
        judges,
        plan.given,
        plan.config.stop_after,
        asks_confidence=plan.asks_confidence,
    )


def _asking_searcher(plan: Plan, searcher: Searcher) -> Searcher:
    """The agent where it may ask the user: with the tool `ask`, which its prompt describes."""
    if plan.asking_prompts is None or not isinstance(searcher, DeepSearch):
        return searcher
    agent = replace(searcher.agent, toolbox=plan.asking_toolbox)
    return replace(searcher, agent=agent, prompts=plan.asking_prompts.of(plan.roles.agent))


@value
class Remaining:
    """What is left to do for one instance: all of it, or of a recorded answer some judges' verdicts."""

    instance: Instance
    line: Line | None = None
    """The recorded line with the answer; None: everything is left."""
    judges: tuple[str, ...] = ()
    """The judges that are left then."""


def walk_of(resources: Resources, cast: Cast, system: System, remaining: Remaining) -> Walk:
    """The remaining steps of one instance in one system, to be called with the Context of its job."""
    return partial(with_further, walk=_steps_of(resources, cast, system, remaining))


def _steps_of(resources: Resources, cast: Cast, system: System, remaining: Remaining) -> Walk:
    instance = remaining.instance
    if remaining.line is not None:
        judges = tuple(judge for judge in cast.judges if judge.name in remaining.judges)
        answer = str(remaining.line["answer"])
        return partial(
            judge_recorded, judges=judges, scoring=cast.scoring, instance=instance, answer_text=answer
        )
    if system.kind != "clarify":
        return partial(search_only, cast=cast, instance=instance, system=system)
    if system.converses:
        turn_clarifier = resources.turn_clarifier(system)
        return partial(
            converse_then_search, cast=cast, clarifier=turn_clarifier, instance=instance, system=system
        )
    clarifier = cast.given.get(system.clarifier) or resources.clarifier(system.clarifier)
    return partial(clarify_then_search, cast=cast, clarifier=clarifier, instance=instance, system=system)


def work_left(plan: Plan, recorded: Mapping[System, RecordedWork]) -> Iterator[tuple[Remaining, System]]:
    """What is left to do, each with the system that lacks it, instance by instance."""
    judges = judges_to_complete(plan)
    for instance in plan.instances():
        for system, run in recorded.items():
            remaining = _remaining(run, instance, judges, retry_failed=plan.config.retry_failed)
            if remaining is not None:
                yield remaining, system


def _remaining(
    run: RecordedWork, instance: Instance, judges: Sequence[str], *, retry_failed: bool
) -> Remaining | None:
    """What an instance lacks in one run; None for nothing. An answer that is recorded is not searched again."""
    if judges and run.finished.answered(instance.id):
        missing = run.judges_left(instance, judges, retry_failed=retry_failed)
        line = run.finished.line(instance.id) if missing else None
        return Remaining(instance, line, missing) if line else None
    if run.needs_work(instance.id, retry_failed=retry_failed):
        return Remaining(instance)
    return None


def lines_of(system: System, remaining: Remaining, ended: Outcome | StepError, *, scoring: str) -> EndedLines:
    """What is recorded of an instance that has ended: further judges' lines, and last its result.

    A judge whose provider is gone has no line: the same command makes it later.
    """
    instance = remaining.instance
    outcome: Outcome | None = ended.reached if isinstance(ended, StepError) else ended
    verdicts = outcome.verdicts if outcome else {}
    lines: list[tuple[str | None, Line]] = []
    for judge, verdict in verdicts.items():
        if judge != scoring and verdict is not None:
            lines.append((judge, verdict_line(instance, judge, verdict)))
    if remaining.line is None:
        lines.append((None, _result_line(system, instance, ended)))
    elif verdicts.get(scoring) is not None:
        lines.append((None, _with_score(remaining.line, instance, scoring, verdicts[scoring])))
    return lines


def _result_line(system: System, instance: Instance, ended: Outcome | StepError) -> Line:
    """The result of an instance; of a failed one what was asked, answered and found before."""
    if isinstance(ended, Outcome):
        return outcome_line(system.label, ended) | conversation_json(system.scheme, system.mode, ended.turns)
    reached: Outcome | None = ended.reached
    if reached is None or not (reached.questions or reached.turns or reached.trace):
        return failure_line(system.label, instance, ended)
    line = outcome_line(system.label, reached) | conversation_json(system.scheme, system.mode, reached.turns)
    line["error"] = error_json(ended)
    return line


def _with_score(line: Line, instance: Instance, scoring: str, verdict: Judgment | StepError | None) -> Line:
    """A recorded line with the scoring judge's new verdict in the place of its failure, or of none."""
    fields: Line = {"judge": scoring}
    if not isinstance(verdict, StepError):
        fields = judged(instance.nuggets, verdict)
    updated: Line = {}
    for name in line:
        if name == "judge":  # the fields' order is that of a line that was judged at once
            updated |= fields
        elif name not in ("nuggets", "restore_score_100", "error"):
            updated[name] = line[name]
    if isinstance(verdict, StepError):
        updated["error"] = error_json(verdict)
    return updated


def judge_names(plan: Plan) -> tuple[str, ...]:
    """The judges of every answer, the scoring one first: those of the configuration, and always the lexical one."""
    if plan.config.no_judge or not plan.searches:
        return ()
    return tuple(dict.fromkeys(plan.roles.judges + (LEXICAL,)))


def judges_to_complete(plan: Plan) -> tuple[str, ...]:
    """The judges whose verdicts a recorded answer can lack: the lexical one has no provider that could be gone."""
    names = judge_names(plan)
    # The scoring judge may be the lexical one: its labels stand in the results.
    return names[:1] + tuple(judge for judge in names[1:] if judge != LEXICAL)


def _jobs(plan: Plan, resources: Resources, cast: Cast, files: Files) -> Iterator[Job]:
    for remaining, system in work_left(plan, files):
        walk = walk_of(resources, cast, system, remaining)
        lines = partial(lines_of, system, remaining, scoring=cast.scoring)
        yield files[system].job(remaining.instance.id, walk, lines)
