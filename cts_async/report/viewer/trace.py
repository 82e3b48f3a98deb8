"""The agent's search told again from the journal, event by event, as `search.agent` went through it.

What the journal has of a search are the replies of its turns and what each query and page brought; the rest (which
call was made again, what was left out for want of room) follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cts_async.report.viewer.instance_steps import InstanceSteps, Placed
from cts_async.report.viewer.parts import lexical, links_of, text_of
from cts_async.report.viewer.shapes import Source, TraceTurn
from cts_async.report.viewer.values import as_list, as_object, as_text, as_texts
from cts_async.search.agent import MAX_CALLS
from cts_async.search.tools import AgentSettings
from cts_async.search.turn_format import InvalidCall, SearchCall, ToolCall, VisitCall, parse_turn

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
