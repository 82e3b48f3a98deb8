"""Server-sent events: a run's row whenever its files change. Files are looked at only while somebody listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import orjson

from cts_async.report.viewer.api_types import RunRow
from cts_async.report.viewer.guard import Refused
from cts_async.report.viewer.library import Library, State, state_of
from cts_async.report.viewer.run import Place

EVERY_S: Final = 1.0
HEARTBEAT_S: Final = 15.0
"""Whoever listens hears at least this often that the server is there."""
MAX_LISTENERS: Final = 32
MAX_WAITING: Final = 1_000
"""Events that a listener has not taken; one that takes none for so long is let go."""
HELLO: Final = b": here\n\n"

Event = tuple[str, bytes]
"""The run that it is about, and what is sent."""
Work = Callable[[Callable[[], list[Event]]], Awaitable[list[Event]]]
"""Runs a function in a worker thread."""


@dataclass(eq=False, slots=True)
class Listener:
    """Somebody who wants to hear of one run, or of all (""). None in its queue is the end."""

    run: str
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))


class Watching:
    """One look a second for all listeners together."""

    def __init__(self, library: Library, work: Work, wake: Callable[[], None]) -> None:
        self._library, self._work, self._wake = library, work, wake
        self._listeners: set[Listener] = set()
        self._known: dict[str, tuple[State, float]] = {}
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        """What was seen first is told first."""

    @asynccontextmanager
    async def listening(self, run: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """What is to be sent to somebody who listens, first how things are, until they or the server go.

        Raises Refused.
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise Refused(503, "too many pages listen: close one")
        listener = Listener(run)
        self._listeners.add(listener)
        try:
            async with self._looking:
                known = dict(self._known)
                now = await self._work(partial(self._rows, {run}))
                for name, event in now:
                    if self._known[name] != known.get(name):  # what counts as told was told to everybody
                        self._tell(name, event, but=listener)
            if self._task is None:
                self._task = asyncio.create_task(self._watch())
            yield _heard(listener, b"".join(event for _, event in now))
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def close(self) -> None:
        """Tell everybody that this is the end."""
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
                    for name, event in await self._work(self._changes):
                        self._tell(name, event)
            except Exception:  # a bug, or a folder that vanished under our hands: the next look may tell more
                logging.getLogger(__name__).exception("looking for changes failed")
            self._wake()

    def _tell(self, name: str, event: bytes, but: Listener | None = None) -> None:
        for listener in self._listeners:
            # One that has taken nothing for so long is not there: its connection ends sooner or later.
            if listener.run in ("", name) and listener is not but and not listener.queue.full():
                listener.queue.put_nowait(event)

    def _rows(self, wanted: Collection[str]) -> list[Event]:
        """The rows of these runs (all, where "" is among them) that nobody was told as they are now."""
        events = []
        for name, (place, _) in self._library.find().runs.items():
            if "" in wanted or name in wanted:
                state, row = state_of(place), self._library.row(name)
                if row is not None:
                    self._known[name] = (state, row["ready"])
                    events.append((name, _event("changed", row)))
        return events

    def _changes(self) -> list[Event]:
        """What is new since the last look; in a worker thread."""
        wanted = {listener.run for listener in list(self._listeners)}
        runs = self._library.find().runs
        gone = [name for name in list(self._known) if name not in runs]
        for name in gone:
            self._known.pop(name, None)
        news = {
            name for name in runs if ("" in wanted or name in wanted) and self._is_news(name, runs[name][0])
        }
        told = self._rows(news) if news else []
        return [*told, *((name, _event("gone", {"name": name})) for name in gone)]

    def _is_news(self, name: str, place: Place) -> bool:
        known = self._known.get(name)
        # A row that was told while its results were being counted is told again.
        return known is None or known[1] < 1 or known[0] != state_of(place)


def _event(kind: str, data: RunRow | dict[str, str]) -> bytes:
    """JSON has no line breaks, so that an event's data is one line."""
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


async def _heard(listener: Listener, now: bytes) -> AsyncIterator[bytes]:
    yield HELLO + now
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                event = await listener.queue.get()
        except TimeoutError:
            yield HELLO
            continue
        if event is None:
            return
        yield event
