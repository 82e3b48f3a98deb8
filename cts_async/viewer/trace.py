"""An instance's search and steps, page by page, as the viewer shows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from cts_async.foreign_json import as_count, as_float, as_list, as_object, as_text, as_texts
from cts_async.runs.index import (
    NO_INSTANCE,
    Json,
    Refused,
    display_name,
    file_name,
    line_at,
    opened,
    record_in,
)
from cts_async.runs.open_run import OpenRun
from cts_async.runs.trace import (
    Event,
    JournalLine,
    Record,
    journal_lines,
    n_indexed_steps,
    n_steps,
    requested,
    search_events,
    whole_record,
)

EVENTS: Final = 40
"""Events of a page; fewer if reading them takes longer than PAGE_S."""
STEPS: Final = 100
PAGE_S: Final = 0.25
SHOWN_CHARS: Final = 4_000
"""Of a text; the whole text has an address of its own."""
DAMAGED: Final = "this line is damaged"
NO_LINE: Final = "no journal line begins at this offset"


# --- Steps


def journal_line(run: OpenRun, at: int) -> bytes:
    """The journal line that begins at an offset. Raises Refused if it is damaged or not there."""
    line: bytes | None = None
    if run.journal is not None:
        # OverflowError: an offset of more than 63 bits is no offset of a file.
        with suppress(OSError, OverflowError), opened(run.journal.path) as fd:
            line = line_at(fd, at)
    if line is None:
        raise Refused(404, NO_LINE)
    if record_in(line) is None:
        raise Refused(404, DAMAGED)
    return line


def download(run: OpenRun, id: str) -> tuple[str, Iterator[bytes]]:
    """A file name, and an instance's journal lines. Raises Refused."""
    # An instance that is not finished has steps and no result; one that was judged only, a result and no steps.
    if run.find(run.results.lines(), id) is None and not n_steps(run, id):
        raise Refused(404, NO_INSTANCE)
    return file_name(f"{run.place.name}-{id}", "jsonl"), _downloaded_lines(run, id)


def _downloaded_lines(run: OpenRun, id: str) -> Iterator[bytes]:
    """Each with its newline; none if the journal cannot be read."""
    with suppress(OSError):
        for line in journal_lines(run, id):
            yield line.line + b"\n"


def list_steps(run: OpenRun, id: str, after: int) -> Json:
    """The steps behind number `after`, in journal order."""
    until = time.monotonic() + PAGE_S
    rows: list[Json] = []
    for line in journal_lines(run, id, slice(after, after + STEPS)):
        rows.append(_step_row(after + len(rows) + 1, line))
        # At least one row, however long it took: a page without any would be asked for again and again.
        if time.monotonic() >= until:
            break
    return _page("steps", rows, after, n_indexed_steps(run, id), run.journal_ready)


def _page(name: str, rows: list[Json], after: int, total: int, ready: bool) -> Json:
    """A page of a list: its rows, the number behind which the next one begins, and the total once it is known."""
    end = after + len(rows)
    page: Json = {name: rows, "next": None, "total": None}
    if rows and end < total:
        page["next"] = end
    if ready:
        page["total"] = total
    return page


def _step_row(n: int, line: JournalLine) -> Json:
    record = line.record
    usage = as_object(record.get("usage"))
    # A damaged line has a record without fields.
    message = DAMAGED
    if record:
        error = as_object(record.get("error"))
        message = ": ".join(filter(None, (as_text(error.get("kind")), as_text(error.get("message")))))
    return {
        "n": n,
        "at": line.at,
        "bytes": len(line.line),
        "step": as_text(record.get("step")) or "",
        "model": as_text(record.get("model")) or requested(record, "custom") or "",
        "ok": record.get("ok") is True,
        "latency_s": as_float(record.get("latency_s")),
        "input_tokens": as_count(usage.get("input")),
        "output_tokens": as_count(usage.get("output")),
        "attempts": as_count(record.get("attempts")) or 1,
        "time": as_float(record.get("time")),
        "error": message,
        # The run that executed it; "" for this one.
        "reused": display_name(as_text(record.get("reused")) or ""),
    }


# --- Events of a search


def list_events(run: OpenRun, id: str, after: int) -> Json:
    """The events of an instance's search behind number `after`."""
    ready, events = run.journal_ready, search_events(run, id)
    until = time.monotonic() + PAGE_S
    rows: list[Json] = []
    for n, event in enumerate(events[after : after + EVENTS], after + 1):
        rows.append(_event_row(n, event, _whole_record(run, event)))
        if time.monotonic() >= until:
            break
    return _page("turns", rows, after, len(events), ready)


def event_text(run: OpenRun, id: str, n: int) -> str:
    """The whole text of event number `n`. Raises Refused."""
    events = search_events(run, id)
    if not 0 < n <= len(events):
        raise Refused(404, "this search has no such event")
    event = events[n - 1]
    return event.text_in(_whole_record(run, event))


def _whole_record(run: OpenRun, event: Event) -> Record:
    """The record that an event's text is read from; without fields where the event has its text."""
    if event.read is None or event.step is None:
        return {}
    return whole_record(run, event.step.at)


def _event_row(n: int, event: Event, record: Record) -> Json:
    text = event.text_in(record)
    offset: int | None = None
    reused = ""
    if event.step is not None:
        offset = event.step.at
        reused = as_text(event.step.record.get("reused")) or ""
    return {
        "n": n,
        "kind": event.kind,
        "request": event.request[:SHOWN_CHARS],
        "text": text[:SHOWN_CHARS],
        # The page compares this length with that of the text it got: JavaScript counts UTF-16 units.
        "length": len(text.encode("utf-16-le", "replace")) // 2,
        "at": offset,
        "failed": event.failed,
        "reused": display_name(reused),
        "sources": _links(record),
    }


def _links(record: Record) -> list[Json]:
    """The results of a search, or the address of a page."""
    response = as_object(record.get("response"))
    links: list[Json] = []
    for hit in as_list(response.get("hits")):
        # Address, title and text; in files of others any part may be missing.
        parts = as_texts(hit)
        if parts:
            links.append({"url": parts[0], "title": "".join(parts[1:2])})
    url = as_text(response.get("url")) or requested(record, "url")
    if url and not links:
        links.append({"url": url, "title": as_text(response.get("title")) or ""})
    return links
