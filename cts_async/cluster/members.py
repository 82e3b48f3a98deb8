"""A worker as the head knows it."""

from __future__ import annotations

import asyncio

from cts_async.cluster.links import WorkerLink
from cts_async.cluster.messages import Asked, Begun, News
from cts_async.engine.worker_status import WorkerState, WorkerStatus


class Member:
    """What was heard of a worker. `status` may be asked in any thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.link: WorkerLink | None = None
        self.begun: Begun | None = None
        self.kept = 0
        """Its streamed records that are in the journals."""
        self.asked: list[Asked] = []
        """What it asked for and was not answered."""
        self.n_ended = 0
        self._calls = self._in_hand = 0
        self._state: WorkerState = "starting"
        self._note = ""
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._gone_at: float | None = None

    @property
    def host(self) -> str:
        """Where it runs; "" as long as nobody knows."""
        return self.begun.host if self.begun else ""

    @property
    def in_flight(self) -> int:
        """Pieces that it works on at once, of each stream."""
        return self.begun.in_flight if self.begun else 1

    def began(self, begun: Begun) -> None:
        """It is there."""
        self.begun = begun
        self._state = "idle"
        self._heard_at = self._loop.time()

    def heard(self, news: News) -> None:
        """Its latest news."""
        self._heard_at = self._loop.time()
        self._in_hand = news.in_hand
        self._state = "working" if news.in_hand else "idle"
        self._calls += sum(count.calls for count in news.counts if count.lane)
        self.asked += news.asked

    def lost(self, why: str) -> None:
        """It is not heard of any more."""
        self._state, self._note, self._in_hand = "lost", why, 0

    def over(self) -> None:
        """It has ended in order."""
        self._state, self._in_hand = "ended", 0

    def gone(self) -> None:
        """It sends nothing any more."""
        self._gone_at = self._loop.time()

    @property
    def gone_s(self) -> float | None:
        """Seconds since it was known to be gone; None while it is there, or may be."""
        return None if self._gone_at is None else self._loop.time() - self._gone_at

    def kill(self) -> None:
        """End its process, if there is one."""
        if self.link:
            self.link.kill()

    def status(self) -> WorkerStatus:
        """How things stand with it."""
        return WorkerStatus(
            name=self.name,
            host=self.host,
            pid=self.begun.pid if self.begun else 0,
            state=self._state,
            in_hand=self._in_hand,
            ended=self.n_ended,
            calls=self._calls,
            streamed=self.begun.streamed if self.begun else False,
            heard_s=max(0.0, self._loop.time() - self._heard_at),
            note=self._note,
        )
