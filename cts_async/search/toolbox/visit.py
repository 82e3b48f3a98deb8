"""The tool `visit`: pages read for a goal, as WebDancer has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import anyio.to_thread

from cts_async.engine.reuse import ReuseRule
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import StepError, UnusableOutput
from cts_async.records import Source, ToolUse
from cts_async.search.backends import Page
from cts_async.search.evidence import Evidence, EvidenceForm, Extractor, read_lexically
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
    Unrecorded,
    Wording,
    failure_text,
)
from cts_async.search.tools import MAX_PAGE_CHARS, AgentSettings, host_of, recorded_texts
from cts_async.search.turn_format import distinct_texts, first_value, json_literal, without_breaks

MAX_URLS: Final = 10
MAX_GOAL_CHARS: Final = 500
READING_STEP: Final = "visit/"
"""The steps in which a model reads a page are named visit/TURN.CALL/PAGE."""
_URL_KEYS: Final = ("url", "urls", "link", "links")
_GOAL_KEYS: Final = ("goal", "purpose", "objective")
_EVIDENCE_CHARS: Final = 300
"""Characters of syntax around a page's evidence."""
_WHOLE_EVIDENCE_CHARS: Final = 2_000
"""Characters of a page's evidence, uncut: of 26 visits recorded with the demo 876 in the median, 5,519 at the 90th
percentile."""
_THREAD_CHARS: Final = 20_000
"""A longer page is read in a thread: it would block the event loop for too long."""
_WHY_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class VisitCall(ToolCall):
    """One to ten distinct URLs to read for a goal, which may be empty."""

    tool: ClassVar[str] = "visit"
    urls: tuple[str, ...]
    goal: str

    @property
    def request(self) -> str:
        return " ".join(self.urls)

    @property
    def pages(self) -> list[str]:
        """The addresses without fragments: two parts of a page are one page."""
        return list(dict.fromkeys(url.partition("#")[0] for url in self.urls))

    async def execute(self, work: ToolWork) -> ToolResult:
        """Read all pages for the goal; each is fetched in a step, and read in another."""
        pages = self.pages
        # One limit a call, whatever the number of its pages. `whole_evidence` lifts it for what a model extracts: by
        # words alone, whole evidence would be the whole page.
        share = work.tools.settings.page_chars // len(pages)
        visits = [_Visit(work, number, url, self.goal, share) for number, url in enumerate(pages, 1)]
        return await work.gather([visit.result for visit in visits])

    def replayed(self, records: CallRecords) -> Iterator[CallEvent]:
        pages = self.pages
        share = records.page_chars // len(pages)
        for number, url in enumerate(pages, 1):
            request = _shown(url, self.goal)
            failure = records.failure(f"page/{number}")
            if failure is not None:
                yield CallEvent(self.tool, request, failed=failure_text(failure))
                continue
            page, reading = records.record(f"page/{number}", "url", url), records.reading(number)
            # Of a document on disk the evidence was recorded, of a page of the web its text.
            if "evidence" in records.response(page):
                yield CallEvent(self.tool, request, page)
                continue
            if page:
                yield CallEvent(_PAGE, url, page)
            unread = records.failure(f"extract/{number}")
            if reading and unread is None:
                yield CallEvent(self.tool, request, reading)
            elif page:
                yield _read_by_words(request, page, share, unread)
            else:
                yield CallEvent(self.tool, request, failed=failure_text(None))


_PAGE: Final = "page"
"""The kind of event of a page that was fetched to be read."""


def _shown(url: str, goal: str) -> str:
    if not goal:
        return url
    return f"{url}\n{goal}"


def _read_by_words(request: str, page: str, limit: int, unread: Unrecorded | None) -> CallEvent:
    """The event of a page whose passages were chosen by their words, as no model reads pages, or could read this one."""
    failed = ""
    if unread is not None:
        failed = f"no model could read it: {failure_text(unread, 'lexical')}"
    return CallEvent(VisitCall.tool, request, page, failed, limit)


@dataclass(frozen=True, slots=True)
class _Visit:
    """Page `number` of a call, to be read for a goal within `max_chars`."""

    work: ToolWork
    number: int
    url: str
    goal: str
    max_chars: int

    @property
    def step(self) -> str:
        return f"{TOOL_STEP}{self.work.name}/page/{self.number}"

    async def result(self) -> ToolResult:
        """Fetch and read the page."""
        piece = Piece(
            f"page/{self.number}",
            VisitCall.tool,
            _shown(self.url, self.goal),
            f"the visit to {self.url}",
            host_of(self.url),
        )
        return await self.work.attempt(piece, self._read)

    async def _read(self) -> ToolResult:
        tools = self.work.tools
        if tools.extractor is None and not tools.records_pages:
            title, evidence, key = await self._local_evidence()
            return self._result_of_reading(title, evidence, [CallEvent(VisitCall.tool, self._request, key)])
        key = ""
        if tools.records_pages:
            page, key = await tools.page(self.work.ctx, self.step, self.url)
        else:
            page = await tools.reader.fetch(self.url)
        # As a recorded page is cut: a resumed search reads the same.
        page = Page(page.id, page.url, page.title, page.text[:MAX_PAGE_CHARS])
        fetched: list[CallEvent] = []
        if key:
            fetched.append(CallEvent(_PAGE, self.url, key))
        if tools.extractor is None:
            event = _read_by_words(self._request, key, self.max_chars, None)
            return self._result_of_reading(page.title, await self._by_words(page), fetched + [event])
        return await self._extracted(tools.extractor, page, key, fetched)

    async def _extracted(
        self, extractor: Extractor, page: Page, key: str, fetched: list[CallEvent]
    ) -> ToolResult:
        """Let a model read the page; by its words where that fails, or failed in an earlier session."""
        piece = f"extract/{self.number}"
        unread = self.work.earlier.get(piece)
        if unread is None:
            step = f"{READING_STEP}{self.work.name}/{self.number}"
            try:
                evidence = await extractor.extract(self.work.ctx, step, page, self.goal)
            except StepError as error:
                # Refused by the model, or it loses the form of the reply over this page: its text is still there.
                unread = {"lexical": f"{error.kind}: {error}"[:_WHY_CHARS]}
            else:
                event = CallEvent(VisitCall.tool, self._request, step)
                if not self.work.tools.settings.whole_evidence:
                    evidence = evidence.within(self.max_chars)
                return self._result_of_reading(page.title, evidence, fetched + [event])
        evidence = await self._by_words(page)
        event = _read_by_words(self._request, key, self.max_chars, unread)
        return self._result_of_reading(page.title, evidence, fetched + [event], {piece: unread})

    def _result_of_reading(
        self,
        title: str,
        evidence: Evidence,
        events: list[CallEvent],
        unread: Mapping[str, Unrecorded] | None = None,
    ) -> ToolResult:
        """What was read of the page; `unread` says, by piece, why no model read it although one should have."""
        text = format_visit(self.url, self.goal, evidence.evidence, evidence.summary)
        for why in (unread or {}).values():
            text += f"\n(Chosen by its words: no model could read this page for the goal. {why['lexical']})\n"
        source = Source(self.url, title, f"{evidence.evidence}\n\n{evidence.summary}".strip(), "page")
        use = ToolUse({VisitCall.tool: 1}, lexical=int(bool(unread)))
        return ToolResult(text, (source,), use, unread or {}, tuple(events))

    @property
    def _request(self) -> str:
        return _shown(self.url, self.goal)

    async def _local_evidence(self) -> tuple[str, Evidence, str]:
        """Read a document of this machine's disk; only what the agent reads of it is recorded.

        Returns its title, the evidence, and the step's key.
        """
        tools, ctx = self.work.tools, self.work.ctx

        async def execute(_: UnusableOutput | None) -> Executed:
            page = await tools.reader.fetch(self.url)
            evidence = await self._by_words(page)
            return Executed({"title": page.title, "evidence": evidence.evidence, "summary": evidence.summary})

        key = step_key("evidence", ctx.job.id, tools.identity, self.url, self.goal, self.max_chars)
        title, evidence = await ctx.step(
            Step(
                name=self.step,
                key=key,
                execute=execute,
                decode=read_evidence,
                request={"url": self.url},
                reuse=ReuseRule.FIXED,
            )
        )
        return title, evidence, key

    async def _by_words(self, page: Page) -> Evidence:
        read = partial(read_lexically, page, self.goal, self.max_chars)
        if len(page.text) < _THREAD_CHARS:
            return read()
        return await anyio.to_thread.run_sync(read)


def read_evidence(response: Any) -> tuple[str, Evidence]:
    """Read the title of a page and its recorded evidence; UnusableOutput for anything else."""
    title, evidence, summary = recorded_texts(response, ("title", "evidence", "summary"), "evidence")
    return title, Evidence(evidence, summary)


def format_visit(url: str, goal: str, evidence: str, summary: str) -> str:
    """Format what one page says about the goal."""
    return (
        f"The useful information in {without_breaks(url)} for user goal {without_breaks(goal)} as follows:\n\n"
        f"Evidence in page:\n{evidence}\n\nSummary:\n{summary}\n"
    )


class VisitTool(Tool):
    """Reads pages of the web, or documents of a dataset."""

    name = VisitCall.tool
    aliases = ("visit_page", "browse", "open", "fetch")
    requests = "visits"
    service = "visit"
    labels: ClassVar[Mapping[str, TraceLabel]] = {
        "visit": TraceLabel("↗", "Visit", "访问网页"),
        _PAGE: TraceLabel("▤", "Page", "网页"),
    }
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "url": {"type": ["string", "array"], "items": {"type": "string"}},
        "goal": {"type": "string"},
    }
    wording: ClassVar[Mapping[str, Wording]] = {
        "en": Wording(
            "Read web pages and give what they hold for a goal.",
            {"url": "One URL, or several.", "goal": "What you want to learn from the pages."},
        ),
        "native": Wording(
            "Read web pages and return what is useful in them for a goal.",
            {"url": "One URL, or several.", "goal": "What you want to learn from the pages."},
        ),
        "zh": Wording(
            "阅读网页，返回其中与目标有关的内容。",
            {"url": "一个或多个网址。", "goal": "希望从网页中了解什么。"},
        ),
    }
    example: ClassVar[Mapping[str, Any]] = {"url": "link", "goal": "what to learn"}

    def read(self, arguments: Mapping[str, Any]) -> VisitCall:
        urls = distinct_texts(first_value(arguments, _URL_KEYS))[:MAX_URLS]
        if not urls:
            raise InvalidArguments("visit needs a url")
        goals = distinct_texts(first_value(arguments, _GOAL_KEYS), MAX_GOAL_CHARS)
        return VisitCall(urls, " ".join(goals))

    def grammar(self, links: Sequence[str]) -> str:
        """A visit to one of the links; none without links."""
        if not links:
            return ""
        # A tiny model makes addresses up: it may choose from those that tools have shown.
        addresses = dict.fromkeys(json_literal(link) for link in links)
        call = r'visit ::= "{\"name\": \"visit\", \"arguments\": {\"url\": " url ", \"goal\": " string "}}"'
        return f"{call}\nurl ::= {' | '.join(addresses)}"

    def response_chars(self, settings: AgentSettings) -> float:
        if settings.whole_evidence:
            return _WHOLE_EVIDENCE_CHARS + _EVIDENCE_CHARS
        return settings.page_chars + _EVIDENCE_CHARS

    def text_of(self, event: CallEvent, record: Mapping[str, Any]) -> str:
        response = record.get("response")
        if event.kind == _PAGE:
            return recorded_texts(response, ("text",), "page")[0]
        step = record.get("step")
        if isinstance(step, str) and step.startswith(READING_STEP):
            return _evidence_text(EvidenceForm().parse(recorded_texts(response, ("text",), "reading")[0]))
        if isinstance(response, dict) and "evidence" in response:
            return _evidence_text(read_evidence(response)[1])
        url, title, text = recorded_texts(response, ("url", "title", "text"), "page")
        goal = event.request.partition("\n")[2]
        return _evidence_text(read_lexically(Page(url, url, title, text), goal, event.limit))


def _evidence_text(evidence: Evidence) -> str:
    return "\n\n".join(filter(None, (evidence.evidence.strip(), evidence.summary.strip())))


TOOL: Final = VisitTool()
