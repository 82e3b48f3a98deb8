"""The tool `search`: up to three queries at once, as WebDancer has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from cts_async.records import Source, ToolUse
from cts_async.search.backends import Hit
from cts_async.search.toolbox import (
    TOOL_STEP,
    CallEvent,
    CallRecords,
    InvalidArguments,
    Piece,
    Tool,
    ToolCall,
    ToolResult,
    ToolWork,
    TraceLabel,
    Wording,
    failure_text,
)
from cts_async.search.tools import AgentSettings, read_hits
from cts_async.search.turn_format import distinct_texts, first_value, without_breaks

# WebDancer searches the first three; of 222 recorded calls 153 have three queries, and 18 have more.
MAX_QUERIES: Final = 3
MAX_QUERY_CHARS: Final = 500
_QUERY_KEYS: Final = ("query", "queries", "q")
STRICT: Final = AgentSettings()
_LINK_CHARS: Final = 80
"""Characters of syntax around a result's snippet."""


@dataclass(frozen=True, slots=True)
class SearchCall(ToolCall):
    """One to three distinct queries, none empty, none longer than 500 characters."""

    tool: ClassVar[str] = "search"
    queries: tuple[str, ...]

    @property
    def request(self) -> str:
        return " | ".join(self.queries)

    async def execute(self, work: ToolWork) -> ToolResult:
        """Search for all queries; each is a step."""
        pieces = [partial(_search, work, number, query) for number, query in enumerate(self.queries, 1)]
        return await work.gather(pieces)

    def replayed(self, records: CallRecords) -> Iterator[CallEvent]:
        for number, query in enumerate(self.queries, 1):
            failure, record = records.failure(f"query/{number}"), ""
            if failure is None:
                record = records.record(f"query/{number}", "query", query)
            if record:
                yield CallEvent(self.tool, query, record)
            else:
                yield CallEvent(self.tool, query, failed=failure_text(failure))


async def _search(work: ToolWork, number: int, query: str) -> ToolResult:
    engine = work.tools.engine
    piece = Piece(f"query/{number}", SearchCall.tool, query, f"the search for '{query}'", engine.name)

    async def search() -> ToolResult:
        hits, key = await work.tools.hits(work.ctx, f"{TOOL_STEP}{work.name}/{piece.name}", query)
        return ToolResult(
            format_search(query, hits, engine.engine, work.tools.settings),
            tuple(Source(hit.url, hit.title, hit.snippet, "snippet") for hit in hits),
            ToolUse({SearchCall.tool: 1}, empty=int(not hits)),
            events=(CallEvent(SearchCall.tool, query, key),),
        )

    return await work.attempt(piece, search)


def format_search(query: str, hits: Sequence[Hit], engine: str = "", settings: AgentSettings = STRICT) -> str:
    """Format the results of one query; `engine` is the search engine's name, "" for a plain search."""
    # The words and the order are those that WebDancer was trained to read.
    query = without_breaks(query)
    if not hits:
        return f"No results found for '{query}'. Try a more general query."
    search = "A search"
    if engine:
        search = f"A {engine} search"
    head = f"{search} for '{query}' found {len(hits)} results:\n\n## Web Results\n"
    return head + "\n\n".join(_entry(number, hit, settings) for number, hit in enumerate(hits, 1))


def _entry(number: int, hit: Hit, settings: AgentSettings) -> str:
    url = hit.url
    if not settings.raw_addresses:
        # A bracket or a blank in the address would end the Markdown link, which visits are chosen by.
        url = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    lines = [f"{number}. [{without_breaks(hit.title)}]({url})"]
    if hit.date:
        lines.append(f"Date published: {without_breaks(hit.date)}")
    if hit.source:
        lines.append(f"Source: {without_breaks(hit.source)}")
    if hit.snippet:
        if settings.blank_before_snippet:
            lines.append("")
        lines.append(without_breaks(hit.snippet))
    return "\n".join(lines)


class SearchTool(Tool):
    """Searches the web, or the documents of a dataset."""

    name = SearchCall.tool
    aliases = ("web_search", "google_search", "google")
    requests = "searches"
    service = "search"
    labels: ClassVar[Mapping[str, TraceLabel]] = {"search": TraceLabel("⌕", "Search", "搜索")}
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "query": {"type": "array", "items": {"type": "string"}}
    }
    wording: ClassVar[Mapping[str, Wording]] = {
        "en": Wording(
            "Search the web with several queries at once; gives the best results of each with title, link and snippet.",
            {"query": "Up to three complementary queries."},
        ),
        "native": Wording(
            "Search the web with several queries at once; returns the best results for each: title, link and snippet.",
            {"query": "Up to three complementary queries."},
        ),
        "zh": Wording(
            "一次用多个查询搜索网络，返回每个查询的最佳结果，含标题、链接和摘要。",
            {"query": "至多三个互补的查询。"},
        ),
    }
    example: ClassVar[Mapping[str, Any]] = {"query": ["words"]}

    def read(self, arguments: Mapping[str, Any]) -> SearchCall:
        # Cut, not refused: the demo searches the first three, too.
        queries = distinct_texts(first_value(arguments, _QUERY_KEYS), MAX_QUERY_CHARS)[:MAX_QUERIES]
        if not queries:
            raise InvalidArguments("search needs a query")
        return SearchCall(queries)

    def grammar(self, links: Sequence[str]) -> str:
        return r'search ::= "{\"name\": \"search\", \"arguments\": {\"query\": [" string (", " string){0,2} "]}}"'

    def response_chars(self, settings: AgentSettings) -> float:
        """Those of one query."""
        return settings.results_per_query * (settings.snippet_chars + _LINK_CHARS)

    def text_of(self, event: CallEvent, record: Mapping[str, Any]) -> str:
        return format_search(event.request, read_hits(record.get("response")))


TOOL: Final = SearchTool()
