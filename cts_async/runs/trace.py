"""An instance's search and steps, reconstructed from the journal.

The journal holds the replies of the agent's turns and what each query and page brought. The rest follows from these:
which calls were repeated, and which responses were left out of the history for lack of room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from cts_async.errors import CTSError
from cts_async.runs.index import (
    NO_INSTANCE,
    Json,
    Refused,
    file_name,
    line_at,
    opened,
    record_in,
)
from cts_async.runs.open_run import OpenRun
from cts_async.runs.untrusted import as_count, as_float, as_list, as_object, as_text, as_texts
from cts_async.search.agent import MAX_CALLS
from cts_async.search.backends import Page
from cts_async.search.evidence import EvidenceForm
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

EVENTS: Final = 40
"""Events of a page; fewer if reading them takes longer than PAGE_S."""
STEPS: Final = 100
PAGE_S: Final = 0.25
SHOWN_CHARS: Final = 4_000
"""Of a text; the whole text has an address of its own."""
DAMAGED: Final = "this line is damaged"
NO_LINE: Final = "no journal line begins at this offset"
MISSING: Final = "not in the journal"
_TURN: Final = "search/turn/"
_FOREIGN: Final = "search"
"""The step of an agent that is a custom role."""
_MODEL: Final = "search/llm/"
_TOOL: Final = "search/tool/"
_READING: Final = "visit/"
_FAILURES: Final = "search/told/"
_LONG_FIELDS: Final = ("text", "hits", "evidence", "summary")


# --- Lines of the journal


def journal_line(run: OpenRun, at: int) -> bytes:
    """The journal line that begins at an offset. Raises Refused if it is damaged or not there."""
    line = None
    if run.journal is not None:
        with suppress(OSError, OverflowError), opened(run.journal.path) as fd:
            line = line_at(fd, at)
    if line is None or record_in(line) is None:
        raise Refused(404, NO_LINE if line is None else DAMAGED)
    return line


def download(run: OpenRun, id: str) -> tuple[str, Iterator[bytes]]:
    """A file name, and an instance's journal lines. Raises Refused."""
    if run.find(run.results.lines(), id) is None and not n_steps(run, id):
        raise Refused(404, NO_INSTANCE)
    return file_name(f"{run.place.name}-{id}", "jsonl"), _journal_lines(run, id)


def _journal_lines(run: OpenRun, id: str) -> Iterator[bytes]:
    """Each with its newline; none if the journal cannot be read."""
    with suppress(OSError):
        for _, line, _ in _records(*_lines_of(run, id)):
            yield line + b"\n"


def n_steps(run: OpenRun, id: str) -> int | None:
    """The number of an instance's steps; None while the journal is being indexed."""
    return len(_offsets(run, id)) if run.journal_ready else None


def list_steps(run: OpenRun, id: str, after: int) -> Json:
    """The steps behind number `after`, in journal order."""
    path, name, offsets = _lines_of(run, id)
    until = time.monotonic() + PAGE_S
    rows: list[Json] = []
    for at, line, record in _records(path, name, offsets[after : after + STEPS]):
        rows.append(_step_row(after + len(rows) + 1, at, len(line), record))
        if time.monotonic() >= until:
            break
    last = after + len(rows)
    return {
        "steps": rows,
        "next": last if rows and last < len(offsets) else None,
        "total": len(offsets) if run.journal_ready else None,
    }


def _step_row(n: int, at: int, size: int, record: Record) -> Json:
    error, usage = as_object(record.get("error")), as_object(record.get("usage"))
    message = ": ".join(filter(None, (as_text(error.get("kind")), as_text(error.get("message")))))
    return {
        "n": n,
        "at": at,
        "bytes": size,
        "step": as_text(record.get("step")) or "",
        "model": as_text(record.get("model")) or _requested(record, "custom") or "",
        "ok": record.get("ok") is True,
        "latency_s": as_float(record.get("latency_s")),
        "input_tokens": as_count(usage.get("input")),
        "output_tokens": as_count(usage.get("output")),
        "attempts": as_count(record.get("attempts")) or 1,
        "time": as_float(record.get("time")),
        "error": message if record else DAMAGED,
    }


def _offsets(run: OpenRun, id: str) -> list[int]:
    if run.journal is None:
        return []
    found: list[int] = run.journal.offsets(run.journal_name(id)).tolist()
    return found


def _lines_of(run: OpenRun, id: str) -> tuple[Path | None, str, list[int]]:
    """The path of the journal, the name of an instance there, and the offsets of its lines."""
    return run.journal.path if run.journal else None, run.journal_name(id), _offsets(run, id)


def journal_bytes(run: OpenRun, id: str) -> int:
    """Bytes of an instance's lines in the journal."""
    return sum(len(line) for _, line, _ in _records(*_lines_of(run, id)))


def _records(path: Path | None, name: str, offsets: Sequence[int]) -> Iterator[tuple[int, bytes, Record]]:
    """Offset, bytes and record of each line of an instance; the records of damaged lines have no fields."""
    if path is None or not offsets:
        return
    with opened(path) as fd:
        for at in offsets:
            line = line_at(fd, at)
            record = record_in(line)
            if record is None or record.get("instance") == name:
                yield at, line or b"", record or {}


# --- Texts of a record


def _response(record: Record) -> Record:
    return as_object(record.get("response"))


def _reply(record: Record) -> str:
    return as_text(_response(record).get("text")) or ""


def _hits(record: Record) -> str:
    return format_search(_requested(record, "query") or "", read_hits(_response(record)))


def _evidence(record: Record) -> str:
    return _evidence_text(read_evidence(_response(record))[1])


def _reading(record: Record) -> str:
    return _evidence_text(EvidenceForm().parse(_reply(record)))


def _lexical(record: Record, goal: str, chars: int) -> str:
    page = _response(record)
    url, title = as_text(page.get("url")) or "", as_text(page.get("title")) or ""
    return _evidence_text(read_lexically(Page(url, url, title, _reply(record)), goal, chars))


def _evidence_text(read: Evidence) -> str:
    return "\n\n".join(filter(None, (read.evidence.strip(), read.summary.strip())))


def _requested(record: Record, name: str) -> str | None:
    return as_text(as_object(record.get("request")).get(name))


def _links(record: Record) -> list[Json]:
    """The results of a search, or the address of a page."""
    response = _response(record)
    hits = [as_texts(hit) for hit in as_list(response.get("hits"))]
    if hits:
        return [{"url": hit[0], "title": hit[1] if len(hit) > 1 else ""} for hit in hits if hit]
    url = as_text(response.get("url")) or _requested(record, "url")
    return [{"url": url, "title": as_text(response.get("title")) or ""}] if url else []


# --- Events of a search


class RecordedStep(NamedTuple):
    """A record without its long texts, and the offset where those are read."""

    at: int
    record: Record


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a search. Its text may be long: then `read` takes it from the whole record of `step`."""

    kind: str
    request: str = ""
    step: RecordedStep | None = None
    text: str = ""
    read: Callable[[Record], str] | None = None
    failed: str = ""

    def whole_text(self) -> str:
        """Its text, for an event whose step has its whole record; "" if the record is damaged."""
        if self.read is None or self.step is None:
            return self.text
        with suppress(CTSError, ValueError):
            return self.read(self.step.record)
        return ""


class _Search:
    """Goes through a search as `search.agent` did. `page_chars` is the agent's limit for the text of a page."""

    def __init__(self, steps: Iterable[RecordedStep], page_chars: int) -> None:
        self._page_chars = page_chars
        self._steps: dict[str, RecordedStep] = {}
        """Successful steps by name, the latest of each."""
        self._contents: dict[tuple[str, str], RecordedStep] = {}
        """A query or page is recorded once, under the name of the turn that asked for it first."""
        self._calls: dict[ToolCall, list[str]] = {}
        """By call, the turns that made it."""
        self._dropped: set[str] = set()
        """Turns whose responses were left out of the history."""
        self._asked: list[RecordedStep] = []
        """What a custom agent asked of models and tools."""
        for step in steps:
            if step.record.get("ok") is True:
                name = as_text(step.record.get("step")) or ""
                self._steps[name] = step
                if name.startswith((_MODEL, _TOOL)):
                    self._asked.append(step)
                for field in ("query", "url") if name.startswith(_TOOL) else ():
                    self._contents[field, _requested(step.record, field) or ""] = step

    def events(self) -> Iterator[Event]:
        """All events in order; none if there was no search."""
        if f"{_TURN}1" not in self._steps:
            yield from self._foreign()
        for number in count(1):
            turn = self._steps.get(f"{_TURN}{number}")
            if turn is None:
                return
            request, response = as_object(turn.record.get("request")), _response(turn.record)
            for name in as_texts(request.get("dropped")):
                self._dropped.add(name)
                yield Event("dropped", request=name)
            if forced := as_text(request.get("demand")):
                yield Event("forced", step=turn, text=forced)
            reply = _reply(turn.record)
            parsed = parse_turn(reply)
            for thought in filter(None, (as_text(response.get("reasoning")), *parsed.thoughts)):
                yield Event("think", step=turn, text=thought)
            if parsed.made_up:
                yield Event("made_up", step=turn, text=parsed.made_up)
            if not parsed.calls or forced:
                yield Event("answer", step=turn, text=final_answer(reply)[0])
                return
            for i, call in enumerate(parsed.calls[: MAX_CALLS + 1], 1):
                yield from self._call(call, number, i)

    def _foreign(self) -> Iterator[Event]:
        """What a custom agent asked, then what it reported of its own search."""
        for step in self._asked:
            if (query := _requested(step.record, "query")) is not None:
                yield Event("search", query, step, read=_hits)
            elif (url := _requested(step.record, "url")) is not None:
                yield Event("page", url, step, read=_reply)
            else:
                yield Event("model", as_text(step.record.get("model")) or "", step, read=_reply)
        if (ended := self._steps.get(_FOREIGN)) is None:
            return
        response = _response(ended.record)
        for one in map(as_object, as_list(response.get("trace"))):
            about = ": ".join(filter(None, (as_text(one.get("kind")), as_text(one.get("request")))))
            yield Event("reported", about, ended, as_text(one.get("text")) or "")
        for one in map(as_object, as_list(response.get("sources"))):
            about = "\n".join(filter(None, (as_text(one.get("url")), as_text(one.get("title")))))
            yield Event("source", about, ended, as_text(one.get("text")) or "")
        yield Event("answer", step=ended, text=_reply(ended.record))

    def _call(self, call: ToolCall, number: int, i: int) -> Iterator[Event]:
        if i > MAX_CALLS:
            yield Event("invalid", failed=f"more than {MAX_CALLS} calls in a turn")
        elif isinstance(call, InvalidCall):
            yield Event("invalid", request=call.raw, failed=call.reason)
        elif self._times(call, f"{_TURN}{number}") > 2:
            pieces = call.queries if isinstance(call, SearchCall) else call.urls
            yield Event("repeated", request=" | ".join(pieces))
        elif isinstance(call, SearchCall):
            for j, query in enumerate(call.queries, 1):
                failure, found = self._failure(number, f"{i}/query/{j}"), None
                if failure is None:
                    found = self._found(f"{number}.{i}/query/{j}", "query", query)
                failed = "" if found else _reason(failure)
                yield Event("search", query, found, read=_hits, failed=failed)
        else:
            yield from self._visits(call, number, i)

    def _times(self, call: ToolCall, turn: str) -> int:
        """How often the agent made this call so far with a response that it can still read (`agent.Repeats`)."""
        readable = [one for one in self._calls.get(call, []) if one == turn or one not in self._dropped]
        self._calls[call] = [*readable, turn]
        return len(self._calls[call])

    def _visits(self, call: VisitCall, number: int, i: int) -> Iterator[Event]:
        urls = list(dict.fromkeys(url.partition("#")[0] for url in call.urls))
        for j, url in enumerate(urls, 1):
            request = f"{url}\n{call.goal}" if call.goal else url
            failure = self._failure(number, f"{i}/page/{j}")
            page = self._found(f"{number}.{i}/page/{j}", "url", url)
            reading = self._steps.get(f"{_READING}{number}.{i}/{j}")
            unread = self._failure(number, f"{i}/extract/{j}")
            if failure is None and page is not None and "evidence" in _response(page.record):
                yield Event("visit", request, page, read=_evidence)
                continue
            if failure is None and page is not None:
                yield Event("page", url, page, read=_reply)
            if failure is None and reading is not None and unread is None:
                yield Event("visit", request, reading, read=_reading)
            elif failure is None and page is not None:
                read = partial(_lexical, goal=call.goal, chars=self._page_chars // len(urls))
                failed = f"no model could read it: {_reason(unread, 'lexical')}" if unread else ""
                yield Event("visit", request, page, read=read, failed=failed)
            else:
                yield Event("visit", request, failed=_reason(failure))

    def _failure(self, number: int, piece: str) -> Record | None:
        """The failure of a piece of a turn ("1/query/2") that was reported to the agent."""
        step = self._steps.get(f"{_FAILURES}{number}")
        failures = _response(step.record) if step else {}
        return as_object(failures[piece]) if piece in failures else None

    def _found(self, name: str, field: str, value: str) -> RecordedStep | None:
        """The result of a query, or a page: recorded under its name, else by an earlier call."""
        found = self._steps.get(f"{_TOOL}{name}")
        if found and _requested(found.record, field) == value:
            return found
        return self._contents.get((field, value))


def _reason(failure: Record | None, name: str = "error") -> str:
    return MISSING if failure is None else as_text(failure.get(name)) or "failed"


def _without_texts(record: Record) -> Record:
    """A record of a tool, reader or custom agent's model without its long texts, which may be megabytes."""
    if (as_text(record.get("step")) or "").startswith(_MODEL):
        return {name: record.get(name) for name in ("ok", "step", "model")}
    if not (as_text(record.get("step")) or "").startswith((_TOOL, _READING)):
        return record
    response = {name: None if name in _LONG_FIELDS else of for name, of in _response(record).items()}
    return {**record, "response": response}


def search_events(run: OpenRun, id: str) -> list[Event]:
    """All events of an instance's search, as far as the journal is indexed."""
    inode = run.journal.tail.inode if run.journal else 0
    path, name, offsets = _lines_of(run, id)
    return _events(path, name, tuple(offsets), inode, _page_chars(run))


def instance_records(run: OpenRun, id: str) -> Iterator[Record]:
    """The records of an instance's steps in journal order, as far as it is indexed."""
    return (record for _, _, record in _records(*_lines_of(run, id)))


def whole_events(run: OpenRun, id: str) -> list[Event]:
    """The same with the whole records of their steps, which may be megabytes: for one instance after the other."""
    records = _records(*_lines_of(run, id))
    return list(_Search((RecordedStep(at, of) for at, _, of in records), _page_chars(run)).events())


def _page_chars(run: OpenRun) -> int:
    chars = run.manifest.identity.agent.get("page_chars")
    return chars if isinstance(chars, int) and chars > 0 else AgentSettings().page_chars


@lru_cache(maxsize=8)  # a search is read page by page, and may have 20 MB
def _events(
    path: Path | None, name: str, offsets: tuple[int, ...], inode: int, page_chars: int
) -> list[Event]:
    """The events of a search; `inode` distinguishes a journal from its successor under the same name."""
    steps = (RecordedStep(at, _without_texts(record)) for at, _, record in _records(path, name, offsets))
    return list(_Search(steps, page_chars).events())


def list_events(run: OpenRun, id: str, after: int) -> Json:
    """The events of an instance's search behind number `after`."""
    ready, events = run.journal_ready, search_events(run, id)
    until = time.monotonic() + PAGE_S
    turns: list[Json] = []
    for n, event in enumerate(events[after : after + EVENTS], after + 1):
        turns.append(_shown(n, event, *_text_and_links(run, event)))
        if time.monotonic() >= until:
            break
    last = after + len(turns)
    return {
        "turns": turns,
        "next": last if last < len(events) else None,
        "total": len(events) if ready else None,
    }


def event_text(run: OpenRun, id: str, n: int) -> str:
    """The whole text of event number `n`. Raises Refused."""
    events = search_events(run, id)
    if not 0 < n <= len(events):
        raise Refused(404, "this search has no such event")
    return _text_and_links(run, events[n - 1])[0]


def _text_and_links(run: OpenRun, event: Event) -> tuple[str, list[Json]]:
    if event.read is None or event.step is None or run.journal is None:
        return event.text, []
    with opened(run.journal.path) as fd:
        record = record_in(line_at(fd, event.step.at)) or {}
    with suppress(CTSError, ValueError):
        return event.read(record), _links(record)
    return "", _links(record)


def _shown(n: int, event: Event, text: str, links: list[Json]) -> Json:
    return {
        "n": n,
        "kind": event.kind,
        "request": event.request[:SHOWN_CHARS],
        "text": text[:SHOWN_CHARS],
        # The page compares this length with that of the text it got: JavaScript counts UTF-16 units.
        "length": len(text.encode("utf-16-le", "replace")) // 2,
        "at": event.step.at if event.step else None,
        "failed": event.failed,
        "sources": links,
    }
