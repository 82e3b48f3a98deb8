"""A small world to build gold in: queries, documents, and a search whose turns carry their sources."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cts_async.engine.runner import Context
from cts_async.protocol.crew import Crew
from cts_async.protocol.deep_search import DeepSearch
from cts_async.protocol.plan import Plan
from cts_async.protocol.searcher import opened_searcher
from cts_async.protocol.views import SearchView
from cts_async.records import Source, Trace, Turn
from cts_async.search.backends import CorpusBackend

DOCUMENTS = (
    ("ferry", "The winter ferry leaves North Quay at 07:20. The crossing takes 50 minutes."),
    ("fares", "A single ferry ticket costs 9 crowns in winter. Bicycles travel free."),
    ("museum", "The Tidewheel Museum opened in 1997. Seniors pay 4 crowns."),
    ("tram", "The harbour tram runs every 12 minutes until midnight."),
)
QUERIES = (
    ("q1", "winter ferry times", "ferry"),
    ("q2", "museum ticket prices for seniors", "museum"),
    ("q3", "winter  ferry times", "boats"),  # the same intent as q1
    ("q4", "harbour tram hours", "tram"),
)


def write_world(
    folder: Path,
    queries: tuple[tuple[str, str, str], ...] = QUERIES,
    documents: tuple[tuple[str, str], ...] = DOCUMENTS,
) -> tuple[Path, Path]:
    """The queries file and the documents file."""
    data, corpus = folder / "world.jsonl", folder / "documents.jsonl"
    rows = [{"id": id, "fused_query": star, "blurred_query": q} for id, star, q in queries]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pages = [
        {"id": name, "url": f"https://{name}.example/", "title": name.title(), "text": text}
        for name, text in documents
    ]
    corpus.write_text("".join(json.dumps(page) + "\n" for page in pages))
    return data, corpus


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class SourcedSearch:
    """A search that tells its sources as data, also where the agent itself does not."""

    inner: DeepSearch
    backend: CorpusBackend

    async def search(self, ctx: Context, view: SearchView) -> Trace:
        trace = await self.inner.search(ctx, view)
        if any(turn.sources for turn in trace.turns):
            return trace
        return replace(trace, turns=tuple([await self._sourced(turn) for turn in trace.turns]))

    async def _sourced(self, turn: Turn) -> Turn:
        if turn.kind != "search":
            return turn
        hits = await self.backend.search(turn.request, 3)
        found = tuple(Source(hit.url, hit.title, hit.snippet, "snippet") for hit in hits)
        return replace(turn, sources=found)


@asynccontextmanager
async def sourced_searcher(plan: Plan, crew: Crew) -> AsyncIterator[SourcedSearch]:
    """`opened_searcher` of a plan over documents, with sources."""
    backend = CorpusBackend(plan.corpus, snippet_chars=plan.settings.snippet_chars)
    await backend.load()
    async with opened_searcher(plan, crew) as searcher:
        yield SourcedSearch(searcher, backend)
