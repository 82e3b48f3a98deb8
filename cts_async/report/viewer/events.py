"""Server-sent events: a run's row whenever its files change. The folder is only watched while a page listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import orjson

from cts_async.report.viewer.files import Json
from cts_async.report.viewer.guard import Refused
from cts_async.report.viewer.library import Library, State, state_of
from cts_async.report.viewer.run import Place

EVERY_S: Final = 1.0
HEARTBEAT_S: Final = 15.0
"""A listener receives something at least this often, so that it notices a server that is gone."""
MAX_LISTENERS: Final = 32
MAX_QUEUED: Final = 1_000
"""Events that a listener has not read; further ones are dropped until its connection ends."""
HEARTBEAT: Final = b": here\n\n"

Event = tuple[str, bytes]
"""The name of the run, and the bytes to send."""
RunInThread = Callable[[Callable[[], list[Event]]], Awaitable[list[Event]]]


@dataclass(eq=False, slots=True)
class _Listener:
    """A page that shows one run, or all (""). None in its queue ends the stream."""

    run: str
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED))


class Watcher:
    """Looks at the folder once a second for all listeners together."""

    def __init__(self, library: Library, in_thread: RunInThread, wake_indexer: Callable[[], None]) -> None:
        self._library, self._in_thread, self._wake_indexer = library, in_thread, wake_indexer
        self._listeners: set[_Listener] = set()
        self._sent: dict[str, tuple[State, float]] = {}
        """By run, the state of its files and the share indexed when its row was last sent."""
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        """Events are sent in the order in which the changes were seen."""

    @asynccontextmanager
    async def listening(self, run: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """A stream for one page: current rows first, then changes until the page or the server closes it.

        Raises Refused if too many pages listen.
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise Refused(503, "too many pages are open: close one")
        listener = _Listener(run)
        self._listeners.add(listener)
        try:
            async with self._looking:
                before = dict(self._sent)
                current = await self._in_thread(partial(self._rows, {run}))
                for name, event in current:
                    # `_rows` marks these rows as sent. The other listeners must not miss what is new in them.
                    if self._sent[name] != before.get(name):
                        self._send(name, event, exclude=listener)
            if self._task is None:
                self._task = asyncio.create_task(self._watch())
            yield _stream(listener, b"".join(event for _, event in current))
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def close(self) -> None:
        """End all streams."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        for listener in self._listeners:
            while listener.queue.full():
                listener.queue.get_nowait()
            listener.queue.put_nowait(None)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                async with self._looking:
                    for name, event in await self._in_thread(self._changes):
                        self._send(name, event)
            except Exception:  # a bug, or a folder removed at this moment: the next look may succeed
                logging.getLogger(__name__).exception("looking for changes failed")
            self._wake_indexer()

    def _send(self, name: str, event: bytes, exclude: _Listener | None = None) -> None:
        for listener in self._listeners:
            if listener.run in ("", name) and listener is not exclude and not listener.queue.full():
                listener.queue.put_nowait(event)

    def _rows(self, wanted: Collection[str]) -> list[Event]:
        """The current rows of these runs ("" for all), which are marked as sent. Runs in a worker thread."""
        events = []
        for name, (place, _) in self._library.find().runs.items():
            if "" in wanted or name in wanted:
                state, row = state_of(place), self._library.row(name)
                if row is not None:
                    self._sent[name] = (state, row["ready"])
                    events.append((name, _event("changed", row)))
        return events

    def _changes(self) -> list[Event]:
        """Everything new since the last look. Runs in a worker thread."""
        wanted = {listener.run for listener in list(self._listeners)}
        runs = self._library.find().runs
        gone = [name for name in list(self._sent) if name not in runs]
        for name in gone:
            self._sent.pop(name, None)
        changed = {
            name
            for name, (place, _) in runs.items()
            if ("" in wanted or name in wanted) and self._has_changed(name, place)
        }
        events = self._rows(changed) if changed else []
        return [*events, *((name, _event("gone", {"name": name})) for name in gone)]

    def _has_changed(self, name: str, place: Place) -> bool:
        sent = self._sent.get(name)
        # A row that was sent while its results were being indexed is sent again.
        return sent is None or sent[1] < 1 or sent[0] != state_of(place)


def _event(kind: str, data: Json) -> bytes:
    # JSON contains no line breaks, so that the data of an event is one line.
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


async def _stream(listener: _Listener, current: bytes) -> AsyncIterator[bytes]:
    yield HEARTBEAT + current
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                event = await listener.queue.get()
        except TimeoutError:
            yield HEARTBEAT
            continue
        if event is None:
            return
        yield event
