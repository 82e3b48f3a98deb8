"""Pages of an instance's search and of its steps, read from the journal where its index says that they stand."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from cts_async.report.viewer.files import line_at, opened, record_in
from cts_async.report.viewer.instance_steps import Placed, steps_of, without_text
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.parts import text_of, tokens_of
from cts_async.report.viewer.refusal import Refused
from cts_async.report.viewer.shapes import StepList, StepRow, TracePage
from cts_async.report.viewer.trace import Event, page_chars_of, shown, told
from cts_async.report.viewer.values import as_float, as_int, as_object, as_text

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
