"""The agent's tools: every query, every page and every extraction is a durable step of its own.

The pieces of a call run concurrently and are reported in the order asked. A failed piece is never recorded as a
result, while the results of the others are. Recorded is data (hits as rows, a page's text), from which the agent's
text is made each time: a page is fetched once however often it is read. `Recorded` replays such records.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

import anyio.to_thread

from cts_async.engine.journal import placed_records, record_at
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, RetryPolicy, Step, step_key
from cts_async.errors import (
    RateLimited,
    RejectedError,
    StepError,
    TimedOut,
    ToolError,
    TransientError,
    UnusableOutput,
)
from cts_async.records import Source, ToolFailure, ToolUse
from cts_async.search.backends import Hit, Page, PageReader, SearchEngine
from cts_async.search.backends.corpus import canonical_url
from cts_async.search.terms import best_window, extract_for_goal, query_terms
from cts_async.search.turn_format import (
    SEPARATOR,
    SearchCall,
    VisitCall,
    format_failure,
    format_search,
    format_visit,
)

MAX_PAGE_CHARS: Final = 200_000
MAX_REQUEST_CHARS: Final = 100_000
"""Characters of a query or an address. Services take a few thousand; each is written to the journal several times."""
"""Characters of a page that are recorded and read at most."""
PAGE_RETRY: Final = RetryPolicy(max_transient=4, patience_s=0.0)
"""An unreadable page is one of many: no more attempts than it takes to recognise an outage of the reader."""
_THREAD_CHARS: Final = 20_000
"""A longer page is read in a thread: it would block the event loop for too long."""
_TITLE_CHARS: Final = 300
_SNIPPET_CHARS: Final = 1_000
"""Some engines return whole pages as snippets, ten of them for each of three queries."""
_SUMMARY_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Budgets of one search. WebDancer's demo allows 20 model calls and shows 10 results a query."""

    max_turns: int = 20
    max_input_tokens: int | None = None
    """Estimated tokens of the conversation that a model call may have; None for no limit."""
    results_per_query: int = 10
    snippet_chars: int = 240
    page_chars: int = 4000
    """Characters of evidence that a visit returns at most, for all its pages together."""
    think_chars: int = 200
    answer_chars: int = 600
    """Bounds for a constrained model's thoughts and answers; other models have none."""
    urls_offered: int = 6
    """The number of latest links that a constrained model may choose from."""
    repeat_question: bool = False
    """Repeat the question after every tool response: a tiny model has forgotten it by then."""


# --- What a page says about a goal


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a page says about a goal, and a summary of it."""

    evidence: str
    summary: str

    def within(self, max_chars: int) -> Evidence:
        """Cut the evidence to `max_chars`, and the summary to half of it."""
        return Evidence(self.evidence[:max_chars], self.summary[: max(_SUMMARY_CHARS, max_chars // 2)])


class Extractor(Protocol):
    """A model that reads pages for a goal."""

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        """Read `page` as a durable step called `step`. Raises StepError if that fails."""


def read_lexically(page: Page, goal: str, max_chars: int) -> Evidence:
    """Find evidence without a model: deterministic and free.

    The sentences that share most with the goal, at most `max_chars`; as the summary, the title and the passage
    nearest to the goal.
    """
    passage = best_window(page.text, dict.fromkeys(query_terms(goal), 1.0), _SUMMARY_CHARS)
    summary = f"{' '.join(page.title.split())}: {passage}" if page.title.strip() else passage
    return Evidence(extract_for_goal(page.text, goal, max_chars), summary)


# --- Records in the journal


def hit_row(hit: Hit) -> list[str]:
    """Return `[url, title, snippet, date, source]`, each cut to its limit, without empty cells at the end."""
    date, source = hit.date[:_TITLE_CHARS], hit.source[:_TITLE_CHARS]
    row = [hit.url, hit.title[:_TITLE_CHARS], hit.snippet[:_SNIPPET_CHARS], date, source]
    while len(row) > 1 and not row[-1]:
        row.pop()
    return row


def read_hits(response: Any) -> list[Hit]:
    """Read the hits of a recorded search, best first; UnusableOutput for anything else."""
    try:
        rows = [[str(cell) for cell in row] + [""] * (5 - len(row)) for row in response["hits"]]
        return [
            Hit(url, url, title, snippet, 0.0, date, source) for url, title, snippet, date, source in rows
        ]
    except (KeyError, TypeError, ValueError):
        raise UnusableOutput("no search results") from None


def read_page(response: Any) -> Page:
    """Read a recorded page; UnusableOutput for anything else."""
    url, title, text = _texts(response, ("url", "title", "text"), "page")
    return Page(url, url, title, text)


def read_evidence(response: Any) -> tuple[str, Evidence]:
    """Read the title of a page and its recorded evidence; UnusableOutput for anything else."""
    title, evidence, summary = _texts(response, ("title", "evidence", "summary"), "evidence")
    return title, Evidence(evidence, summary)


def _texts(response: Any, names: Iterable[str], what: str) -> list[str]:
    try:
        return [str(response[name]) for name in names]
    except (KeyError, TypeError):
        raise UnusableOutput(f"no {what}") from None


# --- Failures

Unrecorded = Mapping[str, str]
"""Why a piece has no recorded result: `error`, `reason` and `host`, or `lexical` (why no model read a page)."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call, or of one piece of it: the text for the agent, and the same as data.

    `unrecorded` is by piece ("query/1", "page/2", "extract/2").
    """

    text: str
    sources: tuple[Source, ...] = ()
    use: ToolUse = field(default_factory=ToolUse)
    unrecorded: Mapping[str, Unrecorded] = field(default_factory=dict)


def total_use(uses: Iterable[ToolUse]) -> ToolUse:
    """Add up what was asked of the tools."""
    uses = list(uses)
    return ToolUse(
        sum(use.searches for use in uses),
        sum(use.visits for use in uses),
        tuple(failure for use in uses for failure in use.failures),
        sum(use.lexical for use in uses),
        sum(use.empty for use in uses),
    )


def _joined(pieces: Sequence[ToolResult]) -> ToolResult:
    return ToolResult(
        SEPARATOR.join(piece.text for piece in pieces),
        tuple(source for piece in pieces for source in piece.sources),
        total_use(piece.use for piece in pieces),
        {name: why for piece in pieces for name, why in piece.unrecorded.items()},
    )


async def _attempt(
    tool: Literal["search", "visit"],
    piece: str,
    what: str,
    host: str,
    before: Mapping[str, Unrecorded],
    work: Callable[[], Awaitable[ToolResult]],
) -> ToolResult:
    """Return the result of `work`, or its failure; a failure from `before` is repeated. RunStopped passes."""
    why = before.get(piece)
    if why is None:
        try:
            return await work()
        except StepError as error:
            host = getattr(error, "host", "") or host
            why = {"error": str(error), "reason": reason_of(error), "host": host}
    failures = (ToolFailure(tool, why["host"], why["reason"]),)
    use = ToolUse(int(tool == "search"), int(tool == "visit"), failures)
    return ToolResult(format_failure(what, why["error"]), (), use, {piece: why})


def reason_of(error: StepError) -> str:
    """Return a short stable word for statistics: a ToolError's own, else "timeout", "http 503", "connection" ..."""
    if isinstance(error, ToolError):
        return error.reason
    if isinstance(error, TimedOut):
        return "timeout"
    if isinstance(error, RateLimited):
        return "rate limited"
    if isinstance(error, TransientError | RejectedError):
        return f"http {error.status}" if error.status else "connection"
    return error.kind


def host_of(url: str) -> str:
    """Return the host of an address, "" if it has none."""
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""


# --- The tools


@dataclass(frozen=True, slots=True)
class _Visit:
    """Page number `i` of the call `call` ("3.1"), to be read for a goal within `max_chars`."""

    ctx: Context
    call: str
    i: int
    url: str
    goal: str
    max_chars: int

    @property
    def step(self) -> str:
        return f"search/tool/{self.call}/page/{self.i}"


def _check_length(what: str, text: str) -> None:
    """Raise ToolError for a query or an address that nobody could answer, before it is recorded."""
    if len(text) > MAX_REQUEST_CHARS:
        problem = f"the {what} has {len(text):,} characters; at most {MAX_REQUEST_CHARS:,} are sent"
        raise ToolError(problem, reason="too large")


@dataclass(frozen=True, slots=True)
class Tools:
    """Where searches and visits go, and within which limits.

    `identity` is a digest of everything that determines their results; it is part of every step's key.
    """

    engine: SearchEngine
    reader: PageReader
    identity: str
    settings: AgentSettings
    extractor: Extractor | None = None
    """Reads pages for the goal; None: they are read lexically."""
    engine_lane: Lane | None = None
    reader_lane: Lane | None = None
    records_pages: bool = True
    """Record fetched pages; False for documents on this machine's disk."""
    page_retry: RetryPolicy = PAGE_RETRY

    async def use(
        self, ctx: Context, call: SearchCall | VisitCall, name: str, before: Mapping[str, Unrecorded]
    ) -> ToolResult:
        """Execute `call`, the agent's call number `name` ("3.1"). Raises RunStopped only.

        `before`: failures, by piece, that the agent saw in an earlier session and continued from. They are
        repeated, not tried again.
        """
        pieces: list[Callable[[], Awaitable[ToolResult]]]
        if isinstance(call, SearchCall):
            pieces = [
                partial(self._search, ctx, name, i, query, before) for i, query in enumerate(call.queries, 1)
            ]
        else:
            urls = list(dict.fromkeys(url.partition("#")[0] for url in call.urls))
            share = self.settings.page_chars // len(urls)
            visits = [_Visit(ctx, name, i, url, call.goal, share) for i, url in enumerate(urls, 1)]
            pieces = [partial(self._visit, visit, before) for visit in visits]
        return _joined(await ctx.gather(pieces))

    # --- Searching

    async def _search(
        self, ctx: Context, name: str, i: int, query: str, before: Mapping[str, Unrecorded]
    ) -> ToolResult:
        piece = f"query/{i}"

        async def work() -> ToolResult:
            hits, _ = await self.hits(ctx, f"search/tool/{name}/{piece}", query)
            sources = tuple(Source(hit.url, hit.title, hit.snippet, "snippet") for hit in hits)
            use = ToolUse(searches=1, empty=int(not hits))
            return ToolResult(format_search(query, hits, self.engine.engine), sources, use)

        return await _attempt("search", piece, f"the search for '{query}'", self.engine.name, before, work)

    async def hits(self, ctx: Context, step: str, query: str) -> tuple[list[Hit], str]:
        """Search as a durable step: the hits, best first, and the step's key. Raises StepError."""
        _check_length("query", query)
        limit = self.settings.results_per_query
        key = step_key("query", ctx.job.id, self.identity, limit, query)

        async def execute(_: UnusableOutput | None) -> Executed:
            hits = await self.engine.search(query, limit)
            return Executed({"hits": [hit_row(hit) for hit in hits[:limit]]})

        hits = await ctx.step(
            Step(
                name=step,
                key=key,
                execute=execute,
                decode=read_hits,
                request={"query": query},
                lane=self.engine_lane,
            )
        )
        return hits, key

    # --- Visiting

    async def _visit(self, visit: _Visit, before: Mapping[str, Unrecorded]) -> ToolResult:
        """Fetch and read one page."""

        async def work() -> ToolResult:
            title, read, why = await self._read(visit, before)
            text = format_visit(visit.url, visit.goal, read.evidence, read.summary)
            if why is not None:
                text += f"\n(Chosen by its words: no model could read this page for the goal. {why})\n"
            source = Source(visit.url, title, f"{read.evidence}\n\n{read.summary}".strip(), "page")
            unrecorded = {} if why is None else {f"extract/{visit.i}": {"lexical": why}}
            return ToolResult(text, (source,), ToolUse(visits=1, lexical=why is not None), unrecorded)

        what, host = f"the visit to {visit.url}", host_of(visit.url)
        return await _attempt("visit", f"page/{visit.i}", what, host, before, work)

    async def _read(
        self, visit: _Visit, before: Mapping[str, Unrecorded]
    ) -> tuple[str, Evidence, str | None]:
        """Return a page's title, its evidence, and why no model read it although one should have."""
        if self.extractor is None and not self.records_pages:
            title, read = await self._local_evidence(visit)
            return title, read, None
        if self.records_pages:
            page, _ = await self.page(visit.ctx, visit.step, visit.url)
        else:
            page = await self.reader.fetch(visit.url)
        page = Page(page.id, page.url, page.title, page.text[:MAX_PAGE_CHARS])
        if self.extractor is None:
            return page.title, await _read_lexically(page, visit), None
        earlier = before.get(f"extract/{visit.i}")
        if earlier is not None:
            return page.title, await _read_lexically(page, visit), earlier["lexical"]
        try:
            step = f"visit/{visit.call}/{visit.i}"
            read = await self.extractor.extract(visit.ctx, step, page, visit.goal)
        except StepError as error:
            # Refused by the model, or it loses the form of the reply over this page: its text is still there.
            return page.title, await _read_lexically(page, visit), f"{error.kind}: {error}"[:120]
        return page.title, read.within(visit.max_chars), None

    async def page(self, ctx: Context, step: str, url: str) -> tuple[Page, str]:
        """Fetch a page as a durable step: the page, and the step's key. Raises StepError."""
        _check_length("address", url)
        key = step_key("page", ctx.job.id, self.identity, url)

        async def execute(_: UnusableOutput | None) -> Executed:
            page = await self.reader.fetch(url)
            return Executed({"url": page.url, "title": page.title, "text": page.text[:MAX_PAGE_CHARS]})

        page = await ctx.step(
            Step(
                name=step,
                key=key,
                execute=execute,
                decode=read_page,
                request={"url": url},
                lane=self.reader_lane,
                policy=self.page_retry,
            )
        )
        return page, key

    async def _local_evidence(self, visit: _Visit) -> tuple[str, Evidence]:
        """Read a document of this machine's disk; only what the agent reads of it is recorded."""

        async def execute(_: UnusableOutput | None) -> Executed:
            page = await self.reader.fetch(visit.url)
            read = await _read_lexically(page, visit)
            return Executed({"title": page.title, "evidence": read.evidence, "summary": read.summary})

        job = visit.ctx.job.id
        return await visit.ctx.step(
            Step(
                name=visit.step,
                key=step_key("evidence", job, self.identity, visit.url, visit.goal, visit.max_chars),
                execute=execute,
                decode=read_evidence,
                request={"url": visit.url},
            )
        )


async def _read_lexically(page: Page, visit: _Visit) -> Evidence:
    read = partial(read_lexically, page, visit.goal, visit.max_chars)
    if len(page.text) < _THREAD_CHARS:
        return read()
    return await anyio.to_thread.run_sync(read)


# --- A frozen web: searches and visits answered from the journals of earlier runs, and from nothing else

NOT_RECORDED: Final = "not recorded"


class Recorded:
    """A search engine and a page reader in one. `engine` is the name that the agent reads above results.

    A query is found by its text and a page by its address, whichever instance asked for it; the earliest record
    counts. Only names and positions are kept in memory; the records are read from their files.
    """

    name: Final = "replay"

    def __init__(self, journals: Sequence[Path], engine: str = "") -> None:
        """Index the finished searches and visits of the journals. Raises OSError if one cannot be read."""
        self.engine = engine
        self._places: dict[str, list[tuple[Path, int]]] = {}
        for path in journals:
            for offset, record in placed_records(path):
                for name in _names(record):
                    self._places.setdefault(name, []).append((path, offset))

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return the hits recorded for `query`, at most `limit`. Raises ToolError if there are none."""
        record = next(self._records(_query_name(query)), None)
        if record is None:
            raise _not_recorded(self.name)
        return read_hits(record["response"])[:limit]

    async def fetch(self, url: str) -> Page:
        """Return the page recorded at `url`, in any spelling of it. Raises ToolError if there is none."""
        similar: Page | None = None
        for record in self._records(_page_name(url)):
            page = read_page(record["response"])
            if url in (page.url, record["request"]["url"]):
                return page
            similar = similar or page
        if similar is None:
            raise _not_recorded(canonical_url(url).partition("/")[0])
        return similar

    def _records(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the records called `name`, the earliest first; the files may have changed since they were indexed."""
        for path, offset in self._places.get(name, ()):
            record = record_at(path, offset)
            if name in _names(record):
                yield record


def _not_recorded(host: str) -> ToolError:
    return ToolError(f"{NOT_RECORDED} in the replayed runs", reason=NOT_RECORDED, host=host)


def _names(record: Any) -> list[str]:
    """Return the names of a record: a page has those of its requested and of its final address."""
    try:
        if not record["ok"] or not record["step"].startswith("search/tool/"):
            return []
        request, response = record["request"], record["response"]
        if "hits" in response:
            return [_query_name(request["query"])]
        if "text" in response:
            return list(dict.fromkeys((_page_name(request["url"]), _page_name(response["url"]))))
    except (KeyError, TypeError, AttributeError):
        pass
    return []


def _query_name(text: str) -> str:
    return f"query {' '.join(text.split())}"


def _page_name(url: str) -> str:
    return f"page {canonical_url(url)}"
