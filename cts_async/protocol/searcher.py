"""The deep search of a plan, opened with everything that it reaches for and closed again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
from yarl import URL

from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.step import step_key
from cts_async.llm.exchange import Pool
from cts_async.protocol.crew import Crew
from cts_async.protocol.deep_search import DeepSearch
from cts_async.protocol.plan import Plan
from cts_async.protocol.run_files import STEPS
from cts_async.protocol.search_plan import CORPUS
from cts_async.protocol.visit import PageVisitor
from cts_async.search.agent import Agent
from cts_async.search.backends.base import EngineSpec, PageReader, ReaderSpec, SearchEngine
from cts_async.search.backends.corpus import CorpusBackend
from cts_async.search.backends.fetch import DirectReader
from cts_async.search.catalog import open_engine, open_reader
from cts_async.search.replay import Recorded
from cts_async.search.tools import Toolbox


@asynccontextmanager
async def opened_searcher(plan: Plan, crew: Crew) -> AsyncIterator[DeepSearch]:
    """The agent of `plan` with its tools. Raises UsageError where they cannot be opened.

    The tools' lanes join the crew's: make the Runner with `crew.lanes` after this.
    """
    async with AsyncExitStack() as stack:
        engine, reader = await _opened(plan, crew, stack)
        search, visit = plan.search, plan.roles.visit
        tools = Toolbox(
            engine=engine,
            reader=reader,
            identity=step_key(search.identity, search.corpus_sha256, plan.settings.snippet_chars),
            settings=plan.settings,
            extractor=PageVisitor(crew.role(visit)) if visit else None,
            engine_lane=_lane(search.engine, plan, crew),
            reader_lane=_lane(search.reader, plan, crew),
            keeps_pages=search.web,
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
        connector = Pool(crew.environ)
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
