"""The agent's tools: every query, every page and every extraction is a durable step of its own.

Two rules. The pieces of a call run side by side and are told in the order asked, and a failure of one is never
remembered while the results of the others are. And what is remembered is data (hits as rows, a page's text),
from which the agent's text is made anew each time: a page is fetched once however often it is read.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import anyio.to_thread

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
from cts_async.search.backends.base import Hit, Page, PageReader, SearchEngine
from cts_async.search.terms import Span, best_window, present, query_terms, sentence_spans
from cts_async.search.turn_format import (
    SEPARATOR,
    SearchCall,
    VisitCall,
    format_failure,
    format_search,
    format_visit,
)

# --- Settings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Budgets of one search. WebDancer's demo allows 20 model calls and shows 10 results a query."""

    max_turns: int = 20
    max_input_tokens: int | None = None
    """Tokens of the conversation (as estimated) that a model call may have; None where nothing limits it."""
    results_per_query: int = 10
    snippet_chars: int = 240
    page_chars: int = 4000
    """Characters of a page that a visit gives back at most."""
    think_chars: int = 200
    answer_chars: int = 600
    """Bounds for a constrained model's thoughts and answers; free models have none."""
    urls_offered: int = 6
    """How many of the latest links a constrained model may choose from."""
    repeat_question: bool = False
    """Repeat the question after every tool response: a tiny model has lost it by then."""


# --- Failures


T = TypeVar("T")

Lost = Mapping[str, str]
"""What a step that was not remembered came to: `error`, `reason` and `host`, or `lexical` (why no model read)."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A piece of a call that came to nothing."""

    lost: Lost

    def as_failure(self, tool: Literal["search", "visit"]) -> ToolFailure:
        """The same for statistics."""
        return ToolFailure(tool, self.lost["host"], self.lost["reason"])


async def attempted(work: Callable[[], Awaitable[T]], before: Lost | None, host: str) -> T | Failed:
    """The result of `work`, or how it failed; a failure from `before` stays one. RunStopped passes."""
    if before is not None:
        return Failed(before)
    try:
        return await work()
    except StepError as error:
        asked = getattr(error, "host", "") or host
        return Failed({"error": str(error), "reason": reason_of(error), "host": asked})


def reason_of(error: StepError) -> str:
    """A short stable word for statistics: a ToolError's own, else "timeout", "http 503", "connection" ..."""
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
    """The host of an address, "" where it has none."""
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""


# --- Evidence


_SENTENCE_CHARS: Final = 400
_SUMMARY_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a page says about a goal, and what that comes to."""

    evidence: str
    summary: str

    def within(self, max_chars: int) -> Evidence:
        """At most so much evidence, and half as much summary."""
        return Evidence(self.evidence[:max_chars], self.summary[: max(_SUMMARY_CHARS, max_chars // 2)])


class Extractor(Protocol):
    """A model that reads pages for a goal."""

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        """Read `page` as a durable step called `step`. Raises StepError where that cannot be done."""


def read_lexically(page: Page, goal: str, max_chars: int) -> Evidence:
    """The sentences that share most with the goal, at most `max_chars`, and the passage nearest to it."""
    return Evidence(extract_for_goal(page.text, goal, max_chars), summary_of(page, goal))


def summary_of(page: Page, goal: str) -> str:
    """Give the page's title and the passage nearest to the goal."""
    weights = dict.fromkeys(query_terms(goal), 1.0)
    passage = best_window(page.text, weights, _SUMMARY_CHARS)
    return f"{' '.join(page.title.split())}: {passage}" if page.title.strip() else passage


def extract_for_goal(text: str, goal: str, max_chars: int) -> str:
    """Give the sentences of a page that share most with `goal`, in page order, within `max_chars`.

    A page that fits is given whole. Terms that are rare on the page weigh more; among equals, and where
    nothing matches, what comes first is taken first.
    """
    text = text.strip()
    if len(text) <= max_chars:
        return text
    spans = sentence_spans(text, min(_SENTENCE_CHARS, max_chars))
    terms = query_terms(goal)
    order = _ranked([present(text[start:end], terms) for start, end in spans])
    return _assembled(text, _fitting(spans, order, max_chars))


def _ranked(found: Sequence[set[str]]) -> list[int]:
    """Give the rows with the heaviest terms first, equal ones in order."""
    holders: dict[str, int] = {}
    for terms in found:
        for term in terms:
            holders[term] = holders.get(term, 0) + 1
    weights = {term: math.log1p(len(found) / count) for term, count in holders.items()}
    scores = [math.fsum(weights[term] for term in terms) for terms in found]
    return sorted(range(len(found)), key=lambda row: -scores[row])


def _fitting(spans: Sequence[Span], order: Sequence[int], max_chars: int) -> list[Span]:
    """Take spans in `order` as long as they fit, each with one character between it and the next."""
    chosen: list[Span] = []
    room = max_chars + 1
    for row in order:
        start, end = spans[row]
        if end - start + 1 <= room:
            chosen.append(spans[row])
            room -= end - start + 1
    return sorted(chosen)


def _assembled(text: str, spans: Sequence[Span]) -> str:
    """Join sentences that are neighbours by a space, if one stood there, and others by a line break."""
    parts: list[str] = []
    before = 0
    for start, end in spans:
        gap = text[before:start]
        parts.append("" if not gap else " " if gap == " " else "\n")
        parts.append(text[start:end])
        before = end
    return "".join(parts).strip()


# --- Kept


TITLE_CHARS: Final = 300
SNIPPET_CHARS: Final = 1_000
"""Some engines give whole pages for snippets, ten of them for each of three queries; pages are for visits."""


def hit_row(hit: Hit) -> list[str]:
    """`[url, title, snippet, date, source]`, each no longer than needed; what is empty at the end is left out."""
    date, source = hit.date[:TITLE_CHARS], hit.source[:TITLE_CHARS]
    row = [hit.url, hit.title[:TITLE_CHARS], hit.snippet[:SNIPPET_CHARS], date, source]
    while len(row) > 1 and not row[-1]:
        row.pop()
    return row


def read_hits(response: Any) -> list[Hit]:
    """The hits of a remembered search, best first. Raises UnusableOutput for anything else."""
    try:
        rows = [[str(cell) for cell in row] + [""] * (5 - len(row)) for row in response["hits"]]
        return [
            Hit(url, url, title, snippet, 0.0, date, source) for url, title, snippet, date, source in rows
        ]
    except (KeyError, TypeError, ValueError):
        raise UnusableOutput("no search results") from None


def read_page(response: Any) -> Page:
    """A remembered page. Raises UnusableOutput for anything else."""
    try:
        url, title, text = (str(response[name]) for name in ("url", "title", "text"))
    except (KeyError, TypeError):
        raise UnusableOutput("no page") from None
    return Page(url, url, title, text)


def read_evidence(response: Any) -> tuple[str, Evidence]:
    """The title of a page, and what was read of it. Raises UnusableOutput for anything else."""
    try:
        title, evidence, summary = (str(response[name]) for name in ("title", "evidence", "summary"))
    except (KeyError, TypeError):
        raise UnusableOutput("no evidence") from None
    return title, Evidence(evidence, summary)


# --- Toolbox


MAX_PAGE_CHARS: Final = 200_000
"""More of a page is neither remembered nor read."""
PAGE_PATIENCE: Final = RetryPolicy(max_transient=4, patience_s=0.0)
"""A page that a reader cannot bring is one of many; as many attempts as it takes to tell an outage."""
_LONG_PAGE_CHARS: Final = 20_000
"""Looking through more takes so long that it is done in a thread."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one call brought: the text for the agent, the same as data, and what no step remembers of it.

    `lost` is by piece ("query/1", "page/2", "extract/2").
    """

    text: str
    sources: tuple[Source, ...] = ()
    use: ToolUse = field(default_factory=ToolUse)
    lost: Mapping[str, Lost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Where searches and visits go, and within which limits.

    `identity` is a digest of all that determines what they bring: it is part of every step's key.
    """

    engine: SearchEngine
    reader: PageReader
    identity: str
    settings: AgentSettings
    extractor: Extractor | None = None
    """None: pages are read by their words."""
    engine_lane: Lane | None = None
    reader_lane: Lane | None = None
    records_pages: bool = True
    """Whether fetched pages are remembered; not those that lie on this machine's disk."""
    page_retry: RetryPolicy = PAGE_PATIENCE

    async def use(
        self, ctx: Context, call: SearchCall | VisitCall, name: str, lost: Mapping[str, Lost]
    ) -> Told:
        """Do what `call`, the agent's call number `name` ("3.1"), asks for.

        `lost` is what earlier sessions told the agent of pieces that failed, and it went on from: they
        are not tried again. Raises RunStopped only.
        """
        if isinstance(call, SearchCall):
            return await self._search(ctx, call, name, lost)
        return await self._visit(ctx, call, name, lost)

    # --- Searching

    async def _search(self, ctx: Context, call: SearchCall, name: str, lost: Mapping[str, Lost]) -> Told:
        pieces = await ctx.gather(
            [
                partial(
                    attempted,
                    partial(self._query, ctx, f"search/tool/{name}/query/{i}", query),
                    lost.get(f"query/{i}"),
                    self.engine.name,
                )
                for i, query in enumerate(call.queries, 1)
            ]
        )
        texts, sources, new, failures = [], [], {}, []
        for i, (query, found) in enumerate(zip(call.queries, pieces, strict=True), 1):
            if isinstance(found, Failed):
                texts.append(format_failure(f"the search for '{query}'", found.lost["error"]))
                new[f"query/{i}"] = found.lost
                failures.append(found.as_failure("search"))
                continue
            texts.append(format_search(query, found, self.engine.engine))
            sources += [Source(hit.url, hit.title, hit.snippet, "snippet") for hit in found]
        use = ToolUse(searches=len(pieces), failures=tuple(failures))
        return Told(SEPARATOR.join(texts), tuple(sources), use, new)

    async def _query(self, ctx: Context, step: str, query: str) -> list[Hit]:
        limit = self.settings.results_per_query

        async def execute(_: UnusableOutput | None) -> Executed:
            hits = await self.engine.search(query, limit)
            return Executed({"hits": [hit_row(hit) for hit in hits[:limit]]})

        return await ctx.step(
            Step(
                name=step,
                key=step_key("query", ctx.job.id, self.identity, limit, query),
                execute=execute,
                decode=read_hits,
                request={"query": query},
                lane=self.engine_lane,
            )
        )

    # --- Visiting

    async def _visit(self, ctx: Context, call: VisitCall, name: str, lost: Mapping[str, Lost]) -> Told:
        urls = tuple(dict.fromkeys(url.partition("#")[0] for url in call.urls))
        share = self.settings.page_chars // len(urls)
        visits = await ctx.gather(
            [
                partial(self._page_for_goal, _Visit(ctx, name, i, url, call.goal, share), lost)
                for i, url in enumerate(urls, 1)
            ]
        )
        return Told(
            SEPARATOR.join(told.text for told in visits),
            tuple(source for told in visits for source in told.sources),
            ToolUse(
                visits=len(urls),
                failures=tuple(failure for told in visits for failure in told.use.failures),
                lexical=sum(told.use.lexical for told in visits),
            ),
            {piece: of for told in visits for piece, of in told.lost.items()},
        )

    async def _page_for_goal(self, visit: _Visit, lost: Mapping[str, Lost]) -> Told:
        """One page, fetched and read."""
        piece = f"page/{visit.i}"
        found = await attempted(partial(self._read_page, visit, lost), lost.get(piece), host_of(visit.url))
        if isinstance(found, Failed):
            text = format_failure(f"the visit to {visit.url}", found.lost["error"])
            use = ToolUse(failures=(found.as_failure("visit"),))
            return Told(text, (), use, {piece: found.lost})
        title, read, why = found
        text = format_visit(visit.url, visit.goal, read.evidence, read.summary)
        if why is not None:
            text += f"\n(Chosen by its words: no model could read this page for the goal. {why})\n"
        source = Source(visit.url, title, f"{read.evidence}\n\n{read.summary}".strip(), "page")
        new = {} if why is None else {f"extract/{visit.i}": {"lexical": why}}
        return Told(text, (source,), ToolUse(lexical=why is not None), new)

    async def _read_page(self, visit: _Visit, lost: Mapping[str, Lost]) -> tuple[str, Evidence, str | None]:
        """A page's title, what it says about the goal, and why no model read it, if one should have."""
        if self.extractor is None and not self.records_pages:
            title, read = await self._evidence(visit)
            return title, read, None
        page = await (self._kept_page(visit) if self.records_pages else self.reader.fetch(visit.url))
        page = Page(page.id, page.url, page.title, page.text[:MAX_PAGE_CHARS])
        if self.extractor is None:
            return page.title, await _lexically(page, visit), None
        before = lost.get(f"extract/{visit.i}")
        if before is not None:
            return page.title, await _lexically(page, visit), before["lexical"]
        try:
            step = f"visit/{visit.call}/{visit.i}"
            read = await self.extractor.extract(visit.ctx, step, page, visit.goal)
        except StepError as error:
            # A page that no model can read (it is refused, or drives the model out of its form) is still a page.
            return page.title, await _lexically(page, visit), f"{error.kind}: {error}"[:120]
        return page.title, read.within(visit.max_chars), None

    async def _kept_page(self, visit: _Visit) -> Page:
        async def execute(_: UnusableOutput | None) -> Executed:
            page = await self.reader.fetch(visit.url)
            return Executed({"url": page.url, "title": page.title, "text": page.text[:MAX_PAGE_CHARS]})

        return await visit.ctx.step(
            Step(
                name=f"search/tool/{visit.call}/page/{visit.i}",
                key=step_key("page", visit.ctx.job.id, self.identity, visit.url),
                execute=execute,
                decode=read_page,
                request={"url": visit.url},
                lane=self.reader_lane,
                policy=self.page_retry,
            )
        )

    async def _evidence(self, visit: _Visit) -> tuple[str, Evidence]:
        """A page that lies on the disk: only what the agent reads of it is remembered."""

        async def execute(_: UnusableOutput | None) -> Executed:
            page = await self.reader.fetch(visit.url)
            read = await _lexically(page, visit)
            return Executed({"title": page.title, "evidence": read.evidence, "summary": read.summary})

        return await visit.ctx.step(
            Step(
                name=f"search/tool/{visit.call}/page/{visit.i}",
                key=step_key(
                    "evidence", visit.ctx.job.id, self.identity, visit.url, visit.goal, visit.max_chars
                ),
                execute=execute,
                decode=read_evidence,
                request={"url": visit.url},
            )
        )


@dataclass(frozen=True, slots=True)
class _Visit:
    """Page number `i` of a call, to be read for its goal within `max_chars`."""

    ctx: Context
    call: str
    i: int
    url: str
    goal: str
    max_chars: int


async def _lexically(page: Page, visit: _Visit) -> Evidence:
    read = partial(read_lexically, page, visit.goal, visit.max_chars)
    if len(page.text) < _LONG_PAGE_CHARS:
        return read()
    return await anyio.to_thread.run_sync(read)
