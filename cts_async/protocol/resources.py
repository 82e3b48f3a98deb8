"""Everything a run talks to, opened together and closed together: models, lanes, tools, prompts.

Models that share an account share a lane. An embedded model's server runs only while a crew is open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from cts_async.config import BudgetConfig
from cts_async.engine.budget import NOTHING, Budget, Deadline, Lines
from cts_async.engine.events import Cost, Events, Usage
from cts_async.engine.journal import read_jsonl
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.processes import allow_more_files
from cts_async.engine.step import Prices, step_key
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.client import Client
from cts_async.llm.http import ConnectionPool
from cts_async.llm.local import serving
from cts_async.llm.model import Model, ServedModels, prices_of
from cts_async.protocol.judge import JUDGING, LEXICAL, Judge, LexicalJudge, ModelJudge
from cts_async.protocol.plan import CORPUS, Plan
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.roles import DeepSearch, Role
from cts_async.protocol.run_files import STEPS
from cts_async.protocol.systems import check_prices
from cts_async.protocol.visit import PageVisitor
from cts_async.search.agent import Agent
from cts_async.search.backends.base import EngineSpec, PageReader, ReaderSpec, SearchEngine
from cts_async.search.backends.corpus import CorpusBackend
from cts_async.search.backends.fetch import DirectReader
from cts_async.search.catalog import open_engine, open_reader
from cts_async.search.replay import Recorded
from cts_async.search.tools import Tools

EMBEDDED_OUTAGE_S = 20.0
"""A server of our own that is gone does not come back: no use waiting long for it."""


LaneOf = Callable[[str, str, LaneLimits], Lane]
"""Makes the lane of an account, by account, name and limits."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Models by the name they were asked for, each bound to its account's lane.

    Others that send something over a network get their lanes here too, so that one engine drives them all.
    """

    prompts: PromptSet
    models: Mapping[str, Model]
    environ: Mapping[str, str]
    events: Events
    max_outage_s: float
    accounts: dict[str, Lane] = field(default_factory=dict)
    """Lanes by account."""
    lane_of: LaneOf | None = None
    """Who makes lanes; None: each account is this process's alone."""

    @property
    def lanes(self) -> Sequence[Lane]:
        return tuple(self.accounts.values())

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of `account`, made with `name` and `limits` if there is none yet."""
        if account not in self.accounts:
            shared = self.lane_of and self.lane_of(account, name, limits)
            self.accounts[account] = shared or Lane(name, limits, self.events)
        return self.accounts[account]

    def role(self, name: str) -> Role:
        return Role(self.models[name], self.prompts)

    def judge(self, name: str) -> Judge:
        return LexicalJudge() if name == LEXICAL else ModelJudge(name, self.role(name))


@asynccontextmanager
async def opened(
    specs: Mapping[str, ModelSpec],
    prompts: PromptSet,
    environ: Mapping[str, str],
    events: Events,
    *,
    max_outage_s: float,
    lane_of: LaneOf | None = None,
) -> AsyncIterator[Crew]:
    """Start what has to be started and give the crew. Raises UsageError where the embedded model is missing or a
    proxy cannot be used.

    `lane_of` makes the lanes of accounts that other processes use, too; an embedded model is this process's own.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(environ))
        served = ServedModels(events)
        models: dict[str, Model] = {}
        crew = Crew(prompts, models, environ, events, max_outage_s, lane_of=lane_of)
        for name, spec in specs.items():
            ready = await stack.enter_async_context(serving(spec, environ)) if spec.embedded else spec
            client.proxy(ready)  # one that cannot be used is an error now, not at the first call
            limits = _limits(spec, max_outage_s)
            if spec.embedded:
                crew.accounts.setdefault(spec.account, Lane(name, limits, events))
            lane = crew.lane(spec.account, name, limits)
            models[name] = Model(ready, client, lane, served)
        allow_more_files(sum(lane.limits.max_concurrency for lane in crew.lanes))
        yield crew


def enough_in_flight(widths: Iterable[int]) -> int:
    """Instances that keep lanes of these widths busy while others of theirs wait, few enough to finish steadily."""
    widest = max(widths, default=1)
    return max(4, min(1024, widest + widest // 2))


def instances_in_flight(crew: Crew) -> int:
    """Enough for the lanes of the crew's models; what tools allow makes no more instances useful."""
    return enough_in_flight(model.lane.limits.max_concurrency for model in crew.models.values())


def manifest_prices(specs: Iterable[ModelSpec]) -> dict[str, dict[str, float | None]]:
    """Dollars per million tokens, by model id, as a manifest records them."""
    return {
        spec.model: {"input": spec.input_usd_per_mtok, "output": spec.output_usd_per_mtok} for spec in specs
    }


def _limits(spec: ModelSpec, max_outage_s: float) -> LaneLimits:
    return LaneLimits(
        requests_per_min=spec.requests_per_min,
        tokens_per_min=spec.tokens_per_min,
        max_concurrency=spec.max_concurrency,
        kind=spec.limit,
        window_s=spec.window_s,
        raisable=not spec.limits_fixed,
        max_outage_s=min(max_outage_s, EMBEDDED_OUTAGE_S) if spec.embedded else max_outage_s,
    )


# --- The deep search of a plan, opened with everything that it reaches for and closed again.


@asynccontextmanager
async def opened_searcher(plan: Plan, crew: Crew) -> AsyncIterator[DeepSearch]:
    """The agent of `plan` with its tools. Raises UsageError where they cannot be opened.

    The tools' lanes join the crew's: make the Runner with `crew.lanes` after this.
    """
    async with AsyncExitStack() as stack:
        engine, reader = await _opened(plan, crew, stack)
        search, visit = plan.search, plan.roles.visit
        tools = Tools(
            engine=engine,
            reader=reader,
            identity=step_key(search.identity, search.corpus_sha256, plan.settings.snippet_chars),
            settings=plan.settings,
            extractor=PageVisitor(crew.role(visit)) if visit else None,
            engine_lane=_lane(search.engine, plan, crew),
            reader_lane=_lane(search.reader, plan, crew),
            records_pages=search.web,
        )
        takes_empty = plan.config.empty_answers == "zero"
        agent = Agent(crew.models[plan.roles.agent], tools, plan.settings, takes_empty)
        yield DeepSearch(agent, plan.prompts, plan.current_date, plan.agent_prompt)


async def _opened(plan: Plan, crew: Crew, stack: AsyncExitStack) -> tuple[SearchEngine, PageReader]:
    """Who searches and who fetches: a recording, the documents, or what is asked over a network."""
    search = plan.search
    documents: CorpusBackend | None = None
    if search.corpus is not None:
        documents = CorpusBackend(search.corpus, snippet_chars=plan.settings.snippet_chars)
        await documents.load()
    if search.replayed:
        recorded = Recorded([run / STEPS for run in search.replayed], search.engine.engine)
        return recorded, documents if documents and search.reader.kind == CORPUS else recorded
    session: aiohttp.ClientSession | None = None
    if search.opened:
        connector = ConnectionPool(crew.environ)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        for spec in search.opened:
            connector.proxies.of(
                URL(spec.url)
            )  # one that cannot be used is an error now, not at the first call
    engine: SearchEngine | None = documents if search.engine.kind == CORPUS else None
    reader: PageReader | None = documents if search.reader.kind == CORPUS else None
    if session is not None:
        engine = engine or open_engine(search.engine, crew.environ, session)
        reader = reader or open_reader(search.reader, crew.environ, session)
    if isinstance(reader, DirectReader):
        stack.callback(reader.close)
    if engine is None or reader is None:
        raise AssertionError("what is no corpus is opened")
    return engine, reader


def _lane(spec: EngineSpec | ReaderSpec, plan: Plan, crew: Crew) -> Lane | None:
    """Its account's lane; none for what is on this machine already."""
    if spec not in plan.search.opened:
        return None
    limits = LaneLimits(
        requests_per_min=spec.requests_per_min,
        max_concurrency=spec.max_concurrency,
        max_outage_s=crew.max_outage_s,
        raisable=False,
    )
    return crew.lane(spec.account, spec.name, limits)


# --- The budget of a command: what it may spend in all its sessions, and what its journals say it has spent.
#
# Only the steps of the command itself count: verdicts that another command added to the same run do not. What was
# in flight when a process was killed stands in no journal, and is the one thing that is not counted.


def open_budget(
    asked: BudgetConfig,
    specs: Iterable[ModelSpec],
    journals: Iterable[Path],
    judges: Iterable[str],
    events: Events,
    *,
    only_judging: bool = False,
) -> Budget | None:
    """The budget with what was spent before, None where none is asked for; needs a running loop.

    Counted are, in all journals, the steps of `judges`, and all that judge nothing unless `only_judging`.
    Raises UsageError if dollars are limited and a price is unknown.
    """
    if not asked.given:
        return None
    specs = tuple(specs)
    if asked.max_usd is not None:
        check_prices(specs)
    names = tuple(f"{JUDGING}{judge}" for judge in judges)

    def counts(step: str) -> bool:
        return step in names if step.startswith(JUDGING) else not only_judging

    lines = Lines(asked.max_calls, asked.max_tokens, asked.max_usd)
    spent = NOTHING
    if lines != Lines():
        spent = spent_before(journals, {spec.model: prices_of(spec) for spec in specs}, counts)
    deadline = None if asked.deadline is None else deadline_in(asked.deadline - time.time(), asked.deadline)
    return Budget(lines, spent, deadline=deadline, events=events)


def deadline_in(seconds: float, stamp: float) -> Deadline:
    """A deadline so many seconds from now, which a person knows as the wall-clock time `stamp`."""
    said = datetime.fromtimestamp(stamp).isoformat(sep=" ", timespec="seconds")
    return Deadline(asyncio.get_running_loop().time() + seconds, said)


def spent_before(
    journals: Iterable[Path], prices: Mapping[str, Prices | None], counts: Callable[[str], bool]
) -> Cost:
    """What the records of `journals` (which may not exist yet) add up to; `prices` by model id."""
    total = NOTHING
    for path in journals:
        for record in read_jsonl(path):
            if "model" in record and counts(str(record.get("step"))):
                total += _cost(record, prices.get(record["model"]))
    return total


def _cost(record: Mapping[str, Any], price: Prices | None) -> Cost:
    used, assumed = record.get("usage") or {}, record.get("assumed") or {}
    usage = Usage(int(used.get("input", 0)), int(used.get("output", 0)))
    return Cost(
        int(record.get("attempts", 1)),
        usage.total + float(assumed.get("tokens", 0.0)),
        (price.usd(usage) if price else 0.0) + float(assumed.get("usd", 0.0)),
    )
