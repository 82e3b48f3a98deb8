"""The deep search of a plan, opened with everything that it reaches for and closed again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cts_async.protocol.crew import Crew
from cts_async.protocol.deep_search import DeepSearch
from cts_async.protocol.plan import Plan
from cts_async.search.agent import Agent
from cts_async.search.backends import CorpusBackend


@asynccontextmanager
async def opened_searcher(plan: Plan, crew: Crew) -> AsyncIterator[DeepSearch]:
    """The agent of `plan` with its documents. Raises UsageError where they cannot be opened."""
    backend = CorpusBackend(plan.corpus, snippet_chars=plan.settings.snippet_chars)
    await backend.load()
    agent = Agent(crew.models[plan.roles.agent], backend, plan.corpus_sha256, plan.settings)
    yield DeepSearch(agent, plan.prompts, plan.current_date)
