"""What the agent reads after a tool call: WebDancer's texts of search results and visited pages."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from cts_async.errors import CTSError, ToolError
from cts_async.search.backends import Backend, Hit, Page
from cts_async.search.backends.passages import Span, best_window, sentence_spans
from cts_async.search.backends.tokens import present, query_terms
from cts_async.search.tags import SearchCall, VisitCall

SEPARATOR: Final = "\n=======\n"
_SENTENCE_CHARS: Final = 400
_SUMMARY_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's text for the agent; `failures` are the parts that failed, which the text tells too."""

    text: str
    failures: tuple[str, ...] = ()


async def run_search(backend: Backend, call: SearchCall, limit: int) -> ToolResult:
    """Search all queries of `call` at once and give their results in the order asked.

    Raises `ToolError` if every query failed; any other error of the backend passes, for a retry.
    """

    async def one(query: str) -> str:
        return format_search(query, await backend.search(query, limit), backend.engine)

    told = [f"The search for '{_line(query)}' failed" for query in call.queries]
    return await _each(one, call.queries, told)


async def run_visit(backend: Backend, call: VisitCall, max_chars: int) -> ToolResult:
    """Read all pages of `call` at once and give, in the order asked, what they say about its goal.

    The evidence of all pages together has at most `max_chars` characters. Raises `ToolError` if no
    page could be read; any other error of the backend passes, for a retry.
    """
    share = max_chars // max(1, len(call.urls))

    async def one(url: str) -> str:
        page = await backend.fetch(url)
        evidence = extract_for_goal(page.text, call.goal, share)
        return format_visit(url, call.goal, evidence, summary_of(page, call.goal))

    told = [f"The page {_line(url)} could not be read" for url in call.urls]
    return await _each(one, call.urls, told)


async def _each(
    ask: Callable[[str], Awaitable[str]], requests: Sequence[str], told: Sequence[str]
) -> ToolResult:
    outcomes: list[str | CTSError] = [""] * len(requests)

    async def run(row: int) -> None:
        try:
            outcomes[row] = await ask(requests[row])
        except CTSError as error:
            outcomes[row] = error

    async with anyio.create_task_group() as group:
        for row in range(len(requests)):
            group.start_soon(run, row)
    return _joined(outcomes, told)


def _joined(outcomes: Sequence[str | CTSError], told: Sequence[str]) -> ToolResult:
    for outcome in outcomes:
        if isinstance(outcome, CTSError) and not isinstance(outcome, ToolError):
            raise outcome
    texts = [
        f"{failure}: {outcome}." if isinstance(outcome, ToolError) else str(outcome)
        for outcome, failure in zip(outcomes, told, strict=True)
    ]
    failures = tuple(
        text for text, outcome in zip(texts, outcomes, strict=True) if isinstance(outcome, ToolError)
    )
    if len(failures) == len(texts):
        raise ToolError(" ".join(failures))
    return ToolResult(SEPARATOR.join(texts), failures)


def format_search(query: str, hits: Sequence[Hit], engine: str = "") -> str:
    """Give the results of one query; `engine` is the search engine's name, empty for a plain search."""
    if not hits:
        return f"No results found for '{_line(query)}'. Try a more general query."
    kind = f"A {engine} search" if engine else "A search"
    head = f"{kind} for '{_line(query)}' found {len(hits)} results:\n\n## Web Results\n"
    return head + "\n\n".join(_entry(number, hit) for number, hit in enumerate(hits, 1))


def _entry(number: int, hit: Hit) -> str:
    url = hit.url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    lines = [f"{number}. [{_line(hit.title)}]({url})"]
    lines += [f"Date published: {_line(hit.date)}"] if hit.date else []
    lines += [f"Source: {_line(hit.source)}"] if hit.source else []
    lines += [_line(hit.snippet)] if hit.snippet else []
    return "\n".join(lines)


def format_visit(url: str, goal: str, evidence: str, summary: str) -> str:
    """Give what one page says about the goal."""
    return (
        f"The useful information in {_line(url)} for user goal {_line(goal)} as follows:\n\n"
        f"Evidence in page:\n{evidence}\n\nSummary:\n{summary}\n"
    )


def summary_of(page: Page, goal: str) -> str:
    """Give the page's title and the passage nearest to the goal."""
    weights = dict.fromkeys(query_terms(goal), 1.0)
    passage = best_window(page.text, weights, _SUMMARY_CHARS)
    return f"{_line(page.title)}: {passage}" if page.title.strip() else passage


def extract_for_goal(text: str, goal: str, max_chars: int) -> str:
    """Give the sentences of a page that share most with `goal`, in page order, within `max_chars`.

    A page that fits is given whole. Terms that are rare on the page weigh more; among equals, and where
    nothing matches, what comes first is taken first.
    """
    text = text.strip()
    if len(text) <= max_chars:
        return text
    spans = sentence_spans(text, min(_SENTENCE_CHARS, max_chars))
    order = _ranked([present(text[start:end], query_terms(goal)) for start, end in spans])
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


def _line(text: str) -> str:
    return " ".join(text.split())
