"""An instance's search and steps, reconstructed from the journal."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from cts_async.errors import CTSError
from cts_async.protocol.visit import EvidenceForm
from cts_async.report.viewer.api_types import Source, StepList, StepRow, TracePage, TraceTurn
from cts_async.report.viewer.files import (
    as_float,
    as_int,
    as_list,
    as_object,
    as_text,
    as_texts,
    line_at,
    opened,
    record_in,
)
from cts_async.report.viewer.guard import Refused
from cts_async.report.viewer.run import OpenRun
from cts_async.search.agent import MAX_CALLS
from cts_async.search.backends.base import Page
from cts_async.search.tools import AgentSettings, Evidence, read_evidence, read_hits, read_lexically
from cts_async.search.turn_format import (
    InvalidCall,
    SearchCall,
    ToolCall,
    VisitCall,
    final_answer,
    format_search,
    parse_turn,
)

Record = Mapping[str, Any]

LEXICAL: Final = "lexical"
MAX_SHARE: Final = 1_000_000


def text_of(record: Record, part: str) -> str | None:
    """One text of a record; None where it has none of that name."""
    name, _, more = part.partition("/")
    try:
        read = _READERS.get(name)
        return None if read is None else read(record, more)
    except (CTSError, ValueError):
        return None


def lexical(share: int, goal: str) -> str:
    """The name of what a page says about a goal by its words alone, in `share` characters at most."""
    return f"{LEXICAL}/{share}/{goal}"


def in_words(read: Evidence) -> str:
    """What was read of a page: the evidence, and what that comes to."""
    return "\n\n".join(filter(None, (read.evidence.strip(), read.summary.strip())))


def _response(record: Record) -> Mapping[str, Any]:
    return as_object(record.get("response"))


def _said(record: Record, more: str) -> str | None:
    return as_text(_response(record).get("text"))


def _reasoning(record: Record, more: str) -> str | None:
    return as_text(_response(record).get("reasoning"))


def _thought(record: Record, number: str) -> str | None:
    thoughts = parse_turn(_said(record, "") or "").thoughts
    place = int(number) if number.isdecimal() else 0
    return thoughts[place - 1] if 0 < place <= len(thoughts) else None


def _made_up(record: Record, more: str) -> str | None:
    return parse_turn(_said(record, "") or "").made_up or None


def _answer(record: Record, more: str) -> str | None:
    said = _said(record, "")
    return None if said is None else final_answer(said)[0]


def _demand(record: Record, more: str) -> str | None:
    return as_text(as_object(record.get("request")).get("demand"))


def _hits(record: Record, more: str) -> str | None:
    query = as_text(as_object(record.get("request")).get("query")) or ""
    return format_search(query, read_hits(_response(record)))


def _evidence(record: Record, more: str) -> str | None:
    return in_words(read_evidence(_response(record))[1])


def _reading(record: Record, more: str) -> str | None:
    said = _said(record, "")
    return None if said is None else in_words(EvidenceForm().parse(said))


def _lexical(record: Record, more: str) -> str | None:
    share, _, goal = more.partition("/")
    page, text = _response(record), _said(record, "")
    if text is None or not share.isdecimal() or len(share) > 9:
        return None
    url, title = as_text(page.get("url")) or "", as_text(page.get("title")) or ""
    return in_words(read_lexically(Page(url, url, title, text), goal, min(int(share), MAX_SHARE)))


def links_of(record: Record) -> list[tuple[str, str]]:
    """The addresses and titles that a search or a page brought."""
    response = _response(record)
    rows = [[text for text in as_list(row) if isinstance(text, str)] for row in as_list(response.get("hits"))]
    if rows:
        return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row]
    url = as_text(response.get("url")) or as_text(as_object(record.get("request")).get("url"))
    return [(url, as_text(response.get("title")) or "")] if url else []


def tokens_of(record: Record) -> tuple[int, int]:
    """Tokens of prompt and reply that a step was charged."""
    usage = as_object(record.get("usage"))
    return as_int(usage.get("input")), as_int(usage.get("output"))


_READERS: Final[Mapping[str, Callable[[Record, str], str | None]]] = {
    "text": _said,
    "reasoning": _reasoning,
    "thought": _thought,
    "made_up": _made_up,
    "answer": _answer,
    "demand": _demand,
    "hits": _hits,
    "evidence": _evidence,
    "reading": _reading,
    LEXICAL: _lexical,
}


_TURN: Final = "search/turn/"
_TOOL: Final = "search/tool/"
_READING: Final = "visit/"
_TOLD: Final = "search/told/"
_LONG: Final = ("text", "hits", "evidence", "summary")


class Placed(NamedTuple):
    """A record, and where its line begins. What a tool or a reader brought is not held: it is read there."""

    at: int
    record: Mapping[str, Any]


@dataclass(slots=True)
class InstanceSteps:
    """The steps of a search, the latest of each; a query or page is there once, whichever turn asked first."""

    turns: dict[int, Placed] = field(default_factory=dict)
    tools: dict[str, Placed] = field(default_factory=dict)
    """By the name of the call: "3.1/query/2"; a call that was remembered whole, as older versions did, "3.1"."""
    readings: dict[str, Placed] = field(default_factory=dict)
    told: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """By turn, what the agent was told had failed, by piece ("1/query/2")."""
    calls: dict[ToolCall, Placed] = field(default_factory=dict)
    """Calls that were remembered whole; the same one made again was no step of its own."""
    queries: dict[str, Placed] = field(default_factory=dict)
    pages: dict[str, Placed] = field(default_factory=dict)

    def whole(self, name: str, call: ToolCall) -> Placed | None:
        """A call that was remembered whole, perhaps when it was made before."""
        return self.tools.get(name) or self.calls.get(call)

    def query(self, name: str, query: str) -> Placed | None:
        """The hits of a query: those recorded under its name, if they are its own, else its earlier ones."""
        found = self.tools.get(name)
        return found if found and _asked(found, "query") == query else self.queries.get(query)

    def page(self, name: str, url: str) -> Placed | None:
        """A page that was fetched, likewise."""
        found = self.tools.get(name)
        return found if found and _asked(found, "url") == url else self.pages.get(url)


def steps_of(placed: Iterable[Placed]) -> InstanceSteps:
    """Sort an instance's records, in the order of the journal; failed ones, and those of other roles, are left out."""
    steps = InstanceSteps()
    for one in placed:
        name = as_text(one.record.get("step")) or ""
        if one.record.get("ok") is not True:
            continue
        if name.startswith(_TURN):
            steps.turns[_number(name.removeprefix(_TURN))] = one
        elif name.startswith(_TOOL):
            _add_tool(steps, name.removeprefix(_TOOL), one)
        elif name.startswith(_READING):
            steps.readings[name.removeprefix(_READING)] = one
        elif name.startswith(_TOLD):
            steps.told[_number(name.removeprefix(_TOLD))] = as_object(one.record.get("response"))
    return steps


def without_text(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record of a tool's or a reader's without its long texts, which may come to megabytes; others as they are."""
    if not (as_text(record.get("step")) or "").startswith((_TOOL, _READING)):
        return record
    response = as_object(record.get("response"))
    return {**record, "response": {name: None if name in _LONG else of for name, of in response.items()}}


def _add_tool(steps: InstanceSteps, name: str, one: Placed) -> None:
    steps.tools[name] = one
    request = as_object(one.record.get("request"))
    if isinstance(request.get("query"), list):
        steps.calls[SearchCall(tuple(as_texts(request["query"])))] = one
    elif isinstance(request.get("url"), list):
        steps.calls[VisitCall(tuple(as_texts(request["url"])), as_text(request.get("goal")) or "")] = one
    query, url = _asked(one, "query"), _asked(one, "url")
    if query is not None:
        steps.queries[query] = one
    elif url is not None:
        steps.pages[url] = one


def _asked(one: Placed, name: str) -> str | None:
    return as_text(as_object(one.record.get("request")).get(name))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


SHOWN_CHARS: Final = 4_000
"""Of a text; the whole of it is to be had under its place and part."""
MISSING: Final = "not in the journal"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened; `part` of the record at `of` says it."""

    kind: str
    request: str = ""
    of: Placed | None = None
    part: str = ""
    failed: str = ""


@dataclass(slots=True)
class _Memory:
    """What the agent can still read."""

    calls: dict[ToolCall, list[str]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    def times(self, call: ToolCall, turn: str) -> int:
        """How often a call was made by now whose response can be read (see `search.repeats`)."""
        shown = [one for one in self.calls.get(call, []) if one == turn or one not in self.dropped]
        self.calls[call] = [*shown, turn]
        return len(self.calls[call])


def told(steps: InstanceSteps, page_chars: int) -> list[Event]:
    """All events of a search; none where there was no search. `page_chars` is the run's setting."""
    return list(_events(steps, page_chars))


def page_chars_of(manifest: Mapping[str, Any]) -> int:
    """How much of a page the agent was given, by the run's manifest."""
    settings = as_object(as_object(manifest.get("identity")).get("agent"))
    chars = settings.get("page_chars")
    return chars if isinstance(chars, int) and chars > 0 else AgentSettings().page_chars


def shown(n: int, event: Event, read: Callable[[int], Mapping[str, Any]]) -> TraceTurn:
    """Event number `n` with its text; `read` gives the record whose line begins at an offset."""
    record = read(event.of.at) if event.of else {}
    text = text_of(record, event.part) or ""
    sources: list[Source] = []
    if event.kind in ("search", "visit", "page"):
        sources = [{"url": url, "title": title} for url, title in links_of(record)]
    return {
        "n": n,
        "kind": event.kind,
        "request": event.request[:SHOWN_CHARS],
        "text": text[:SHOWN_CHARS],
        "length": _utf16(text),
        "at": event.of.at if event.of else None,
        "part": event.part,
        "failed": event.failed,
        "sources": sources,
    }


def _utf16(text: str) -> int:
    """How long a browser finds it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2


def _events(steps: InstanceSteps, page_chars: int) -> Iterator[Event]:
    memory = _Memory()
    number = 1
    while (turn := steps.turns.get(number)) is not None:
        request, response = as_object(turn.record.get("request")), as_object(turn.record.get("response"))
        yield from _before(turn, request, memory)
        parsed = parse_turn(as_text(response.get("text")) or "")
        if as_text(response.get("reasoning")):
            yield Event("think", of=turn, part="reasoning")
        for n in range(1, len(parsed.thoughts) + 1):
            yield Event("think", of=turn, part=f"thought/{n}")
        if parsed.made_up:
            yield Event("made_up", of=turn, part="made_up")
        if not parsed.calls or as_text(request.get("demand")):
            yield Event("answer", of=turn, part="answer")
            return
        for i, call in enumerate(parsed.calls[: MAX_CALLS + 1], 1):
            yield from _call(steps, memory, call, number, i, page_chars)
        number += 1


def _before(turn: Placed, request: Mapping[str, Any], memory: _Memory) -> Iterator[Event]:
    """What came before a turn: responses left out for want of room, the demand to answer now."""
    for name in as_texts(request.get("dropped")):
        memory.dropped.add(name)
        yield Event("dropped", request=name)
    if as_text(request.get("demand")):
        yield Event("forced", of=turn, part="demand")


def _call(
    steps: InstanceSteps, memory: _Memory, call: ToolCall, number: int, i: int, page_chars: int
) -> Iterator[Event]:
    if i > MAX_CALLS:
        yield Event("invalid", failed=f"one of more than {MAX_CALLS} calls in a turn")
        return
    if isinstance(call, InvalidCall):
        yield Event("invalid", request=call.raw, failed=call.reason)
        return
    name = f"{number}.{i}"
    whole = steps.whole(name, call)
    if whole is not None:
        yield from _whole(call, whole)
        return
    if memory.times(call, f"search/turn/{number}") > 2:
        asked = call.queries if isinstance(call, SearchCall) else call.urls
        yield Event("repeated", request=" | ".join(asked))
        return
    lost = {
        piece.partition("/")[2]: as_object(of)
        for piece, of in steps.told.get(number, {}).items()
        if piece.startswith(f"{i}/")
    }
    if isinstance(call, SearchCall):
        yield from _searched(steps, call, name, lost)
    else:
        yield from _visited(steps, call, name, lost, page_chars)


def _whole(call: SearchCall | VisitCall, one: Placed) -> Iterator[Event]:
    """A call that was remembered as one text (before 0.3)."""
    searching = isinstance(call, SearchCall)
    asked = " | ".join(call.queries) if isinstance(call, SearchCall) else " ".join(call.urls)
    failures = as_list(as_object(one.record.get("response")).get("failures"))
    failed = "; ".join(as_texts([as_object(failure).get("reason") for failure in failures]))
    yield Event("search" if searching else "visit", request=asked, of=one, part="text", failed=failed)


def _searched(
    steps: InstanceSteps, call: SearchCall, name: str, lost: Mapping[str, Mapping[str, Any]]
) -> Iterator[Event]:
    for j, query in enumerate(call.queries, 1):
        failure, found = lost.get(f"query/{j}"), steps.query(f"{name}/query/{j}", query)
        if failure is not None or found is None:
            yield Event("search", request=query, failed=_why(failure))
        else:
            yield Event("search", request=query, of=found, part="hits")


def _visited(
    steps: InstanceSteps, call: VisitCall, name: str, lost: Mapping[str, Mapping[str, Any]], page_chars: int
) -> Iterator[Event]:
    urls = list(dict.fromkeys(url.partition("#")[0] for url in call.urls))
    for j, url in enumerate(urls, 1):
        asked = f"{url}\n{call.goal}" if call.goal else url
        failure, page = lost.get(f"page/{j}"), steps.page(f"{name}/page/{j}", url)
        if failure is not None:
            yield Event("visit", request=asked, failed=_why(failure))
            continue
        reading = steps.readings.get(f"{name}/{j}")
        if page is not None and "evidence" in as_object(page.record.get("response")):
            yield Event("visit", request=asked, of=page, part="evidence")
            continue
        if page is not None:
            yield Event("page", request=url, of=page, part="text")
        by_words = lost.get(f"extract/{j}")
        if reading is not None and by_words is None:
            yield Event("visit", request=asked, of=reading, part="reading")
        elif page is not None:
            part = lexical(page_chars // len(urls), call.goal)
            failed = f"no model could read it: {_why(by_words, 'lexical')}" if by_words else ""
            yield Event("visit", request=asked, of=page, part=part, failed=failed)
        else:
            yield Event("visit", request=asked, failed=MISSING)


def _why(failure: Mapping[str, Any] | None, name: str = "error") -> str:
    return MISSING if failure is None else as_text(failure.get(name)) or "failed"


EVENTS: Final = 40
"""Events of a page, fewer where they take long to read."""
STEPS: Final = 100
PAGE_S: Final = 0.25
REMEMBERED: Final = 8
"""Searches whose events are held, without their texts."""
DAMAGED: Final = "this line is damaged"
NO_LINE: Final = "no line of the journal begins there"


_Search: TypeAlias = tuple[str, str, int, tuple[int, ...]]
"""Run, instance, and where its steps stand in which file: a run may be made anew under its name."""


class Telling:
    """Searches that were asked for lately are remembered, since a page turns over one of them many times."""

    def __init__(self) -> None:
        self._events: OrderedDict[_Search, list[Event]] = OrderedDict()
        self._lock = threading.Lock()

    def trace(self, run: OpenRun, id: str, after: int) -> TracePage:
        """The events behind number `after`."""
        ready = run.journal_ready
        events = self.events(run, id)
        if not events or run.journal is None:
            return {"turns": [], "next": None, "total": len(events) if ready else None}
        until = time.monotonic() + PAGE_S
        turns = []
        with opened(run.journal.path) as fd:
            for n in range(after + 1, min(after + EVENTS, len(events)) + 1):
                turns.append(shown(n, events[n - 1], lambda at: record_in(line_at(fd, at)) or {}))
                if time.monotonic() >= until:
                    break
        last = after + len(turns)
        more = last < len(events)
        return {"turns": turns, "next": last if more else None, "total": len(events) if ready else None}

    def events(self, run: OpenRun, id: str) -> list[Event]:
        """Everything that happened in an instance's search, as far as the journal is indexed."""
        offsets = _offsets(run, id)
        key = (run.place.name, id, run.journal.tail.inode if run.journal else 0, tuple(offsets))
        with self._lock:
            known = self._events.get(key)
        if known is None:
            records = (Placed(at, without_text(record)) for at, _, record in _records(run, id, offsets))
            known = told(steps_of(records), page_chars_of(run.about.manifest))
        with self._lock:
            self._events[key] = known
            self._events.move_to_end(key)
            while len(self._events) > REMEMBERED:
                self._events.popitem(last=False)
        return known


def count_steps(run: OpenRun, id: str) -> int | None:
    """How many steps an instance has; None while the journal is not indexed."""
    return len(_offsets(run, id)) if run.journal_ready else None


def list_steps(run: OpenRun, id: str, after: int) -> StepList:
    """The steps behind number `after`, in the order of the journal."""
    offsets = _offsets(run, id)
    until = time.monotonic() + PAGE_S
    rows: list[StepRow] = []
    for at, size, record in _records(run, id, offsets[after : after + STEPS], damaged=True):
        rows.append(_row(after + len(rows) + 1, at, size, record))
        if time.monotonic() >= until:
            break
    last = after + len(rows)
    more = last < len(offsets)
    return {
        "steps": rows,
        "next": last if more and rows else None,
        "total": len(offsets) if run.journal_ready else None,
    }


def line_of(run: OpenRun, at: int) -> bytes:
    """The journal's line that begins at an offset, as it stands there. Raises Refused where none does."""
    return _read(run, lambda fd: line_at(fd, at))


def text_at(run: OpenRun, at: int, part: str) -> str:
    """A part of the record at an offset, whole. Raises Refused."""
    record = record_in(line_of(run, at))
    text = None if record is None else text_of(record, part)
    if text is None:
        raise Refused(404, "that line has no such text")
    return text


def lines_of(run: OpenRun, id: str) -> Iterator[bytes]:
    """An instance's lines of the journal, each with its newline, one after the other; none where it cannot be read."""
    if run.journal is None:
        return
    with suppress(OSError), opened(run.journal.path) as fd:
        for at in _offsets(run, id):
            line = line_at(fd, at)
            record = record_in(line)
            if line is not None and (record is None or _is_of(record, run, id)):
                yield line + b"\n"


def _read(run: OpenRun, read: Callable[[int], bytes | None]) -> bytes:
    try:
        if run.journal is None:
            raise FileNotFoundError
        with opened(run.journal.path) as fd:
            line = read(fd)
    except (OSError, OverflowError):
        line = None
    if line is None:
        raise Refused(404, NO_LINE)
    return line


def _offsets(run: OpenRun, id: str) -> list[int]:
    found = [] if run.journal is None else run.journal.offsets(run.about.known_as(id)).tolist()
    return [int(at) for at in found]


def _records(
    run: OpenRun, id: str, offsets: list[int], *, damaged: bool = False
) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Offset, bytes and record of each line; a damaged one has no fields, or is left out."""
    if run.journal is None or not offsets:
        return
    with opened(run.journal.path) as fd:
        for at in offsets:
            line = line_at(fd, at)
            record = record_in(line)
            if record is not None and _is_of(record, run, id):
                yield at, len(line or b""), record
            elif damaged and record is None:
                yield at, len(line or b""), {}


def _is_of(record: Mapping[str, Any], run: OpenRun, id: str) -> bool:
    return record.get("instance") == run.about.known_as(id)


def _row(n: int, at: int, size: int, record: Mapping[str, Any]) -> StepRow:
    error = as_object(record.get("error"))
    told_error = ": ".join(filter(None, (as_text(error.get("kind")), as_text(error.get("message")))))
    tokens = tokens_of(record)
    return {
        "n": n,
        "at": at,
        "bytes": size,
        "step": as_text(record.get("step")) or "",
        "model": as_text(record.get("model")) or "",
        "ok": record.get("ok") is True,
        "latency_s": as_float(record.get("latency_s")),
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "attempts": as_int(record.get("attempts")) or 1,
        "time": as_float(record.get("time")),
        "error": told_error if record else DAMAGED,
    }
