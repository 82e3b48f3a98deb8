"""An instance's steps and its search, read from the journal.

The journal holds the replies of the agent's turns, what each query and page brought, and what the agent notes of its
calls: which were made, repeated, or could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from cts_async.errors import CTSError
from cts_async.foreign_json import as_count, as_list, as_object, as_text, as_texts
from cts_async.runs.index import line_at, opened, record_in
from cts_async.runs.open_run import OpenRun
from cts_async.search.agent import MAX_TIMES, TOLD_STEP, TURN_STEP, CallTimes, answered_calls, invalid_event
from cts_async.search.asking import ASK_STEP
from cts_async.search.toolbox import MISSING, TOOL_STEP, CallEvent, every_tool
from cts_async.search.toolbox.ask import AskCall
from cts_async.search.toolbox.visit import READING_STEP
from cts_async.search.tools import AgentSettings, recorded_settings
from cts_async.search.turn_format import InvalidCall, ParsedTurn, final_answer, parse_turn

Record = Mapping[str, Any]

QUESTION: Final = "clarification_question"
"""The field of the prompt with a question to the user."""

_CUSTOM_AGENT: Final = "search"
"""The step of an agent that is a custom role."""
_CUSTOM_MODEL: Final = "search/llm/"
_LONG_FIELDS: Final = ("text", "hits", "evidence", "summary")


# --- Steps


class JournalLine(NamedTuple):
    """A line of an instance: its offset, its bytes, and its record, which has no fields if the line is damaged."""

    at: int
    line: bytes
    record: Record


def n_steps(run: OpenRun, id: str) -> int | None:
    """The number of an instance's steps; None while the journal is being indexed."""
    if not run.journal_ready:
        return None
    return n_indexed_steps(run, id)


def n_indexed_steps(run: OpenRun, id: str) -> int:
    """The number of an instance's steps, as far as the journal is indexed."""
    return len(_offsets(run, id))


def journal_lines(run: OpenRun, id: str, part: slice = slice(None)) -> Iterator[JournalLine]:
    """The lines of an instance in journal order, as far as it is indexed, or only `part` of them. Raises OSError."""
    if run.journal is None:
        return iter(())
    return _lines_at(run.journal.path, run.journal_name(id), _offsets(run, id)[part])


def instance_records(run: OpenRun, id: str) -> Iterator[Record]:
    """The records of an instance's steps in journal order, as far as it is indexed."""
    return (line.record for line in journal_lines(run, id))


def journal_bytes(run: OpenRun, id: str) -> int:
    """Bytes of an instance's lines in the journal."""
    return sum(len(line.line) for line in journal_lines(run, id))


def whole_record(run: OpenRun, at: int) -> Record:
    """The record of the line that begins at an offset; without fields if it is damaged. Raises OSError."""
    if run.journal is None:
        return {}
    with opened(run.journal.path) as fd:
        return record_in(line_at(fd, at)) or {}


def _offsets(run: OpenRun, id: str) -> list[int]:
    if run.journal is None:
        return []
    offsets: list[int] = run.journal.offsets(run.journal_name(id)).tolist()
    return offsets


def _lines_at(path: Path, name: str, offsets: Sequence[int]) -> Iterator[JournalLine]:
    if not offsets:
        return
    with opened(path) as fd:
        for at in offsets:
            line = line_at(fd, at)
            record = record_in(line)
            # The index goes by a hash of the name: another instance's may be the same.
            if record is None or record.get("instance") == name:
                yield JournalLine(at, line or b"", record or {})


def requested(record: Record, name: str) -> str | None:
    """A text of what a step requested."""
    return as_text(as_object(record.get("request")).get(name))


def question_of(record: Record) -> str:
    """The question that a step put to the user; "" for another step."""
    request = as_object(record.get("request"))
    # A model is asked with the fields of its prompt, code of the user's with a view.
    fields = as_object(request.get("fields")) or as_object(request.get("view"))
    return as_text(fields.get(QUESTION)) or as_text(fields.get("question")) or ""


def _response(record: Record) -> Record:
    return as_object(record.get("response"))


def _reply(record: Record) -> str:
    return as_text(_response(record).get("text")) or ""


# --- Events of a search


class RecordedStep(NamedTuple):
    """A record without its long texts, and the offset where those are read."""

    at: int
    record: Record


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a search. Its text may be long: then `read` takes it from the whole record of `step`.

    `kind` is one of `records.Turn`, of a tool's `labels`, or of a custom agent: "model", "reported", "source".
    """

    kind: str
    request: str = ""
    step: RecordedStep | None = None
    text: str = ""
    read: Callable[[Record], str] | None = None
    failed: str = ""

    def text_in(self, record: Record) -> str:
        """Its text, from the whole record of its step; "" if that is damaged."""
        if self.read is None:
            return self.text
        with suppress(CTSError, ValueError):
            return self.read(record)
        return ""

    def whole_text(self) -> str:
        """Its text, for an event whose step has its whole record."""
        if self.step is None:
            return self.text
        return self.text_in(self.step.record)


class _Search:
    """The records of a search by name and by key, the latest of each, and what they tell of it."""

    def __init__(self, steps: Iterable[RecordedStep], settings: AgentSettings) -> None:
        self._toolbox = every_tool()
        self.steps: dict[str, RecordedStep] = {}
        """Successful ones."""
        self.contents: dict[tuple[str, str], str] = {}
        """A query or page is recorded once, under the name of the turn that asked for it first."""
        self._notes: dict[str, list[CallEvent]] = {}
        """What became of the calls before a turn, by that turn's name; a turn that failed has noted it, too."""
        self._asked: list[RecordedStep] = []
        """What a custom agent asked of models and tools."""
        for step in steps:
            self._add(step)
        self._settings = settings
        self._replay = _Replay(self, settings)

    def _add(self, step: RecordedStep) -> None:
        name = as_text(step.record.get("step")) or ""
        if name.startswith(TURN_STEP):
            calls = as_list(as_object(step.record.get("notes")).get("calls"))
            self._notes[name] = [_noted_event(as_object(call)) for call in calls]
        if step.record.get("ok") is not True:
            return
        self.steps[name] = step
        key = as_text(step.record.get("key"))
        # The events of calls name most steps by their key.
        if key:
            self.steps[key] = step
        if name.startswith((_CUSTOM_MODEL, TOOL_STEP, ASK_STEP)):
            self._asked.append(step)
        if name.startswith(ASK_STEP):
            self.contents[QUESTION, question_of(step.record)] = name
        if name.startswith(TOOL_STEP):
            for field in ("query", "url"):
                self.contents[field, requested(step.record, field) or ""] = name

    def events(self) -> Iterator[Event]:
        """All events in order; none if there was no search."""
        if f"{TURN_STEP}1" not in self.steps:
            yield from self._custom_events()
        for number in count(1):
            turn = self.steps.get(f"{TURN_STEP}{number}")
            if turn is None:
                return
            request = as_object(turn.record.get("request"))
            dropped = as_texts(request.get("dropped"))
            for name in dropped:
                yield Event("dropped", request=name)
            for name in as_texts(request.get("cut")):
                yield Event("cut", request=name)
            injected = as_text(request.get("injected"))
            if injected:
                yield Event("injected", step=turn, text=injected)
            demand = as_text(request.get("demand"))
            if demand:
                yield Event("forced", step=turn, text=demand)
            reply = _reply(turn.record)
            after_thoughts = self._settings.calls_after_thoughts
            parsed = parse_turn(reply, after_thoughts=after_thoughts)
            reasoning = as_text(_response(turn.record).get("reasoning"))
            # Servers that parse thoughts themselves return them apart from the text.
            if reasoning:
                yield Event("think", step=turn, text=reasoning)
            for thought in parsed.thoughts:
                yield Event("think", step=turn, text=thought)
            if parsed.made_up:
                # As published, what the model invented before its last thought stays in the conversation.
                kind = "invented" if after_thoughts else "made_up"
                yield Event(kind, step=turn, text=parsed.made_up)
            noted = self._notes.get(f"{TURN_STEP}{number + 1}")
            is_early = not parsed.calls and bool(noted)
            if demand or not (parsed.calls or is_early):
                answer = final_answer(reply, after_thoughts=after_thoughts)[0]
                yield Event("answer", step=turn, text=answer)
                return
            if self._settings.free_end and number == self._settings.max_turns:
                yield Event("unanswered", step=turn)
                return
            # Also where the agent has noted it: a later turn without notes needs the number of times.
            replayed = self._replay.calls(parsed, number, dropped)
            for event in noted or replayed:
                yield self._event_of_call(event)

    def _event_of_call(self, event: CallEvent) -> Event:
        step = self.steps.get(event.record)
        failed = event.failed
        if event.record and step is None:
            failed = failed or MISSING
        read: Callable[[Record], str] = _reply
        tool = self._toolbox.tool_of(event.kind)
        if tool is not None:
            read = partial(tool.text_of, event)
        if step is None:
            return Event(event.kind, event.request, failed=failed)
        return Event(event.kind, event.request, step, read=read, failed=failed)

    def _custom_events(self) -> Iterator[Event]:
        """What a custom agent asked, then what it reported of its own search."""
        for step in self._asked:
            name = as_text(step.record.get("step")) or ""
            query, url = requested(step.record, "query"), requested(step.record, "url")
            if name.startswith(ASK_STEP):
                yield self._event_of_call(CallEvent(AskCall.tool, question_of(step.record), name))
            elif query is not None:
                yield self._event_of_call(CallEvent("search", query, name))
            elif url is not None:
                yield self._event_of_call(CallEvent("page", url, name))
            else:
                yield Event("model", as_text(step.record.get("model")) or "", step, read=_reply)
        ended = self.steps.get(_CUSTOM_AGENT)
        if ended is None:
            return
        response = _response(ended.record)
        for turn in map(as_object, as_list(response.get("trace"))):
            request = ": ".join(filter(None, (as_text(turn.get("kind")), as_text(turn.get("request")))))
            yield Event("reported", request, ended, as_text(turn.get("text")) or "")
        for source in map(as_object, as_list(response.get("sources"))):
            request = "\n".join(filter(None, (as_text(source.get("url")), as_text(source.get("title")))))
            yield Event("source", request, ended, as_text(source.get("text")) or "")
        yield Event("answer", step=ended, text=_reply(ended.record))


def _noted_event(call: Record) -> CallEvent:
    return CallEvent(
        as_text(call.get("kind")) or "",
        as_text(call.get("request")) or "",
        as_text(call.get("record")) or "",
        as_text(call.get("failed")) or "",
        as_count(call.get("limit")),
    )


# --- Searches whose agent noted nothing: of runs up to 0.12, and the last turn of one under way


class _Replay:
    """Goes through the calls of a search as `search.agent` did."""

    def __init__(self, search: _Search, settings: AgentSettings) -> None:
        self._search, self._page_chars = search, settings.page_chars
        self._first_call = settings.first_call
        self._toolbox = every_tool()
        self._times = CallTimes()
        self._dropped: set[str] = set()
        """Turns whose responses were left out of the history."""

    def calls(self, turn: ParsedTurn, number: int, dropped: Iterable[str]) -> list[CallEvent]:
        """What became of the calls of turn `number`; `dropped` are the responses that were left out before it."""
        # A call whose response was left out may be made again: it counts anew.
        self._dropped.update(dropped)
        events: list[CallEvent] = []
        for i, call_text in enumerate(answered_calls(turn, first_call=self._first_call), 1):
            call = self._toolbox.read(call_text)
            if isinstance(call, InvalidCall):
                events.append(invalid_event(call))
            elif self._times.count(call, f"{TURN_STEP}{number}", self._dropped) > MAX_TIMES:
                events.append(CallEvent("repeated", call.request))
            else:
                events += call.replayed(_RecordsOfCall(self._search, number, i, self._page_chars))
        return events


@dataclass(frozen=True, slots=True)
class _RecordsOfCall:
    """The records of call `i` of turn `number`, as `toolbox.CallRecords`."""

    search: _Search
    number: int
    i: int
    page_chars: int

    def failure(self, piece: str) -> Record | None:
        step = self.search.steps.get(f"{TOLD_STEP}{self.number}")
        if step is None:
            return None
        failures = _response(step.record)
        if f"{self.i}/{piece}" not in failures:
            return None
        return as_object(failures[f"{self.i}/{piece}"])

    def record(self, piece: str, name: str = "", value: str = "") -> str:
        step = f"{TOOL_STEP}{self.number}.{self.i}"
        if piece:
            step += f"/{piece}"
        recorded = self.search.steps.get(step)
        # With --retry-failed a search may become another one: a step of this name may have another request.
        if recorded is not None and (not name or requested(recorded.record, name) == value):
            return step
        return self.search.contents.get((name, value), "")

    def response(self, record: str) -> Record:
        step = self.search.steps.get(record)
        if step is None:
            return {}
        return _response(step.record)

    def reading(self, number: int) -> str:
        step = f"{READING_STEP}{self.number}.{self.i}/{number}"
        if step not in self.search.steps:
            return ""
        return step


# --- The events of an instance


def search_events(run: OpenRun, id: str) -> list[Event]:
    """All events of an instance's search, as far as the journal is indexed."""
    if run.journal is None:
        return []
    name, offsets = run.journal_name(id), tuple(_offsets(run, id))
    return _cached_events(run.journal.path, name, offsets, run.journal.tail.inode, _settings(run))


def whole_events(run: OpenRun, id: str) -> list[Event]:
    """The same with the whole records of their steps, which may be megabytes: for one instance after the other."""
    steps = (RecordedStep(line.at, line.record) for line in journal_lines(run, id))
    return list(_Search(steps, _settings(run)).events())


@lru_cache(maxsize=8)  # a search is read page by page, and may have 20 MB
def _cached_events(
    path: Path, name: str, offsets: tuple[int, ...], inode: int, settings: AgentSettings
) -> list[Event]:
    """The events of a search; `inode` distinguishes a journal from its successor under the same name."""
    steps = (RecordedStep(line.at, _without_texts(line.record)) for line in _lines_at(path, name, offsets))
    return list(_Search(steps, settings).events())


def _without_texts(record: Record) -> Record:
    """A record of a tool, reader or custom agent's model without its long texts, which may be megabytes."""
    step = as_text(record.get("step")) or ""
    if step.startswith(_CUSTOM_MODEL):
        # Its request repeats the whole conversation with each call.
        return {name: record.get(name) for name in ("ok", "step", "model", "reused")}
    if not step.startswith((TOOL_STEP, READING_STEP)):
        return record
    response: dict[str, Any] = {}
    for name, value in _response(record).items():
        # Named all the same: which fields a response has tells of what kind it is.
        if name in _LONG_FIELDS:
            value = None
        response[name] = value
    return dict(record) | {"response": response}


def _settings(run: OpenRun) -> AgentSettings:
    """The agent's settings; a limit that makes no sense is the usual one."""
    settings = recorded_settings(run.manifest.identity.agent)
    if settings.page_chars <= 0:
        return replace(settings, page_chars=AgentSettings().page_chars)
    return settings
