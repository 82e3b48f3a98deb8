"""What searching and reading pages takes: settings, records in the journal, engine and reader as durable steps.

Recorded is data (hits as rows, a page's text), from which the agent's text is made each time: a page is fetched once
however often it is read. `Recorded` replays such records. The tools that the agent calls are in `toolbox/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from cts_async.engine.journal import placed_records, record_at
from cts_async.engine.lane import Lane
from cts_async.engine.reuse import ReuseRule
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
from cts_async.search.backends import Hit, Page, PageReader, SearchEngine
from cts_async.search.backends.corpus import canonical_url
from cts_async.search.evidence import Extractor

MAX_PAGE_CHARS: Final = 200_000
"""Characters of a page that are recorded and read at most."""
MAX_REQUEST_CHARS: Final = 100_000
"""Characters of a query or an address. Services take a few thousand; each is written to the journal several times."""
PAGE_RETRY: Final = RetryPolicy(max_transient=4, patience_s=0.0)
"""An unreadable page is one of many: no more attempts than it takes to recognise an outage of the reader."""
_TITLE_CHARS: Final = 300
_SNIPPET_CHARS: Final = 1_000
"""Some engines return whole pages as snippets, ten of them for each of three queries."""
_WHOLE_SNIPPET_CHARS: Final = 20_000
"""The limit of `whole_snippets`: no engine's snippet is as long, and no service can fill the journal with one."""


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
    max_minutes: float | None = None
    """Minutes that the calls of one search may take together, its waits for limits apart; None for no limit."""
    tokenizer: str = ""
    """The sha256 of the tokenizer's file that counts `max_input_tokens`; "" if they are estimated."""
    # The switches of the agent mode. Each is off in "strict". The first ones are what WebDancer's published demo does,
    # and are on in "as-published".
    whole_evidence: bool = False
    """Return what a model extracts from a page uncut; else `page_chars` of it."""
    whole_pages: bool = False
    """Give a page whole to the model that extracts from it; else its first 20,000 estimated tokens.

    Whole are the first MAX_PAGE_CHARS, as far as the model's context has room: an unbounded page is a fault.
    """
    free_end: bool = False
    """Demand no answer: a search may use up its turns, or its room, without one."""
    calls_after_thoughts: bool = False
    """Make the calls after the last `</think>` of a turn; else those before its first invented tool response."""
    cut_in_middle: bool = False
    """Make room by cutting tool responses in their middle; else a whole response is replaced by a line."""
    whole_snippets: bool = False
    """Show snippets uncut; else 1,000 characters."""
    blank_before_snippet: bool = False
    """A blank line before each snippet."""
    raw_addresses: bool = False
    """Show addresses of results as they are; else with parentheses and blanks escaped."""
    beijing_date: bool = False
    """The prompt's date is Beijing's; else this machine's."""
    bare_queries: bool = False
    """Send Serper the query alone; else with the number of results."""
    plain_pages: bool = False
    """Ask the Jina reader for its text form, which begins with title and address; else for JSON, which has warnings."""
    # What Tongyi DeepResearch's published program does, and is on in "tongyi" only.
    first_call: bool = False
    """Make the first call of a turn only; else all of them."""
    demand_in_place: bool = False
    """Where the conversation has no more room, put the demand for the answer in the place of its last message."""
    local_results: bool = False
    """Ask Serper for results of the place and language of the query: of China for a Chinese one, else of the USA."""
    shorter_pages: bool = False
    """Give at most 95,000 tokens of a page to the model that extracts from it, and 70 % of that where it fails."""

    @property
    def switches(self) -> dict[str, bool]:
        """The switches that are on, by name."""
        switches = {}
        for name in ALL_SWITCHES:
            if getattr(self, name):
                switches[name] = True
        return switches

    @property
    def mode(self) -> str:
        """The agent mode that has these switches; "mixed" if none has."""
        for mode, switches in AGENT_MODES.items():
            if all(getattr(self, name) == is_on for name, is_on in switches.items()):
                return mode
        return "mixed"

    def as_json(self) -> dict[str, Any]:
        """What a run's identity records: every budget, and the switches that are on."""
        # Runs of versions without switches are those with all of them off, and are resumed as such.
        values = {}
        for setting in fields(self):
            if setting.name not in ALL_SWITCHES:
                values[setting.name] = getattr(self, setting.name)
        if self.max_minutes is None:
            del values["max_minutes"]  # as in runs of versions that had no such limit, and no tokenizer
        if not self.tokenizer:
            del values["tokenizer"]
        return values | self.switches


SWITCHES: Final = (
    "whole_evidence",
    "whole_pages",
    "free_end",
    "calls_after_thoughts",
    "cut_in_middle",
    "whole_snippets",
    "blank_before_snippet",
    "raw_addresses",
    "beijing_date",
    "bare_queries",
    "plain_pages",
)
"""The settings that the mode "as-published" switches together."""
TONGYI_SWITCHES: Final = ("first_call", "demand_in_place", "local_results", "shorter_pages")
"""The settings that are on in the mode "tongyi" only."""
ALL_SWITCHES: Final = SWITCHES + TONGYI_SWITCHES
CHANGE_RECORDS: Final = ("whole_pages", "whole_snippets", "bare_queries", "plain_pages", "local_results")
"""Those of the switches that change what is recorded of a search or a page."""
# Of what the demo does, Tongyi's program takes the first call, wherever it stands, cuts nothing, and has its machine's
# date.
_NOT_TONGYI: Final = ("calls_after_thoughts", "cut_in_middle", "beijing_date")
AGENT_MODES: Final[Mapping[str, Mapping[str, bool]]] = MappingProxyType(
    {
        "strict": dict.fromkeys(ALL_SWITCHES, False),
        "as-published": dict.fromkeys(SWITCHES, True) | dict.fromkeys(TONGYI_SWITCHES, False),
        "tongyi": dict.fromkeys(ALL_SWITCHES, True) | dict.fromkeys(_NOT_TONGYI, False),
    }
)
"""The switches of each agent mode."""


def recorded_settings(identity: Mapping[str, Any]) -> AgentSettings:
    """The settings in a run's identity (`AgentSettings.as_json`); the default for what is missing or of another type."""
    values: dict[str, Any] = {}
    for setting in fields(AgentSettings):
        value = identity.get(setting.name)
        if type(value) is type(setting.default):
            values[setting.name] = value
    return AgentSettings(**values)


# --- Records in the journal


def hit_row(hit: Hit, *, whole_snippet: bool = False) -> list[str]:
    """Return `[url, title, snippet, date, source]`, each cut to its limit, without empty cells at the end."""
    date, source = hit.date[:_TITLE_CHARS], hit.source[:_TITLE_CHARS]
    snippet_chars = _SNIPPET_CHARS
    if whole_snippet:
        snippet_chars = _WHOLE_SNIPPET_CHARS
    row = [hit.url, hit.title[:_TITLE_CHARS], hit.snippet[:snippet_chars], date, source]
    # Most engines give neither a date nor a source, and a journal has hundreds of rows an instance.
    while len(row) > 1 and not row[-1]:
        row.pop()
    return row


def read_hits(response: Any) -> list[Hit]:
    """Read the hits of a recorded search, best first; UnusableOutput for anything else."""
    hits: list[Hit] = []
    try:
        for row in response["hits"]:
            cells = [str(cell) for cell in row]
            # A row of more cells than these fails to unpack: it was not written by `hit_row`.
            cells += [""] * (5 - len(cells))
            url, title, snippet, date, source = cells
            hits.append(Hit(url, url, title, snippet, 0.0, date, source))
    except (KeyError, TypeError, ValueError):
        raise UnusableOutput("no search results") from None
    return hits


def read_page(response: Any) -> Page:
    """Read a recorded page; UnusableOutput for anything else."""
    url, title, text = recorded_texts(response, ("url", "title", "text"), "page")
    return Page(url, url, title, text)


def recorded_texts(response: Any, names: Iterable[str], subject: str) -> list[str]:
    """Return the fields of a recorded `subject`; UnusableOutput if one is missing."""
    try:
        return [str(response[name]) for name in names]
    except (KeyError, TypeError):
        raise UnusableOutput(f"no {subject}") from None


# --- Failures


def reason_of(error: StepError) -> str:
    """Return a short stable word for statistics: a ToolError's own, else "timeout", "http 503", "connection" ..."""
    if isinstance(error, ToolError):
        return error.reason
    if isinstance(error, TimedOut):
        return "timeout"
    if isinstance(error, RateLimited):
        return "rate limited"
    if isinstance(error, TransientError | RejectedError):
        if error.status:
            return f"http {error.status}"
        return "connection"
    return error.kind


def host_of(url: str) -> str:
    """Return the host of an address, "" if it has none."""
    # Without a scheme, as models write some addresses, urlsplit takes the host for a path.
    if "//" not in url:
        url = f"//{url}"
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


# --- The engine and the reader


def _check_length(subject: str, text: str) -> None:
    """Raise ToolError for a query or an address that nobody could answer, before it is recorded."""
    if len(text) > MAX_REQUEST_CHARS:
        problem = f"the {subject} has {len(text):,} characters; at most {MAX_REQUEST_CHARS:,} are sent"
        raise ToolError(problem, reason="too large")


def _reuse_of(lane: Lane | None) -> ReuseRule:
    """Whose searches and visits may be taken: documents are the same at any time, the web is not."""
    if lane is None:
        return ReuseRule.FIXED
    return ReuseRule.DATED


@dataclass(frozen=True, slots=True)
class Tools:
    """Where searches and visits go, and within which limits: what the tools of an agent have of the run.

    `identity` is a digest of everything that determines their results; it is part of every step's key. A tool that
    needs something else of the run finds it in a further field here, which `protocol.run.open_search` fills.
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

    async def hits(self, ctx: Context, step: str, query: str) -> tuple[list[Hit], str]:
        """Search as a durable step: the hits, best first, and the step's key. Raises StepError."""
        _check_length("query", query)
        limit = self.settings.results_per_query
        key = step_key("query", ctx.job.id, self.identity, limit, query)

        async def execute(_: UnusableOutput | None) -> Executed:
            hits = await self.engine.search(query, limit)
            rows = [hit_row(hit, whole_snippet=self.settings.whole_snippets) for hit in hits[:limit]]
            return Executed({"hits": rows})

        hits = await ctx.step(
            Step(
                name=step,
                key=key,
                execute=execute,
                decode=read_hits,
                request={"query": query},
                lane=self.engine_lane,
                reuse=_reuse_of(self.engine_lane),
            )
        )
        return hits, key

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
                reuse=_reuse_of(self.reader_lane),
            )
        )
        return page, key


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
        for record in self._records(_query_name(query)):
            return read_hits(record["response"])[:limit]
        raise _not_recorded(self.name)

    async def fetch(self, url: str) -> Page:
        """Return the page recorded at `url`, in any spelling of it. Raises ToolError if there is none."""
        similar: Page | None = None
        for record in self._records(_page_name(url)):
            page = read_page(record["response"])
            # Addresses that differ in scheme or fragment mostly show one page; where they do not, both were recorded.
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
        # Journals of other versions and programs: whatever is not of this form answers nothing.
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
