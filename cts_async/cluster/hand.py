"""The pieces that a worker has: those to be begun, as feeds of its runner, and the lines of those that have ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cts_async.cluster.messages import Ended, Line, Piece
from cts_async.cluster.trades import Done
from cts_async.engine.runner import Context, Job
from cts_async.errors import RunStopped

JobOf = Callable[[Piece, Done], Job]
"""Makes the job that does a piece."""


class Hand:
    """`wake` is called when there is little left to begin, and when nothing is left at all."""

    def __init__(self, streams: int, job_of: JobOf, wake: Callable[[], None]) -> None:
        self.feeds: Sequence[Feed] = [Feed(self._begin, wake) for _ in range(streams)]
        self._job_of, self._wake = job_of, wake
        self._under_way: set[int] = set()
        self._ended: deque[Ended] = deque()
        self._held_up: set[str] = set()
        self._left: list[int] = []

    def __len__(self) -> int:
        """Pieces that have not ended."""
        return len(self._under_way) + sum(map(len, self.feeds))

    @property
    def untold(self) -> int:
        """Ended pieces that nobody has taken yet."""
        return len(self._ended)

    def take(self, pieces: Iterable[Piece]) -> None:
        """Here are more."""
        for piece in pieces:
            if piece.group in self._held_up:
                self._left.append(piece.seq)
            else:
                self.feeds[piece.stream].add(piece)
        for feed in self.feeds:
            feed.serve()

    def close(self) -> None:
        """There will be no more."""
        for feed in self.feeds:
            feed.close()

    def stop(self) -> None:
        """Nothing more is begun."""
        for feed in self.feeds:
            feed.clear()
            feed.close()

    def drop(self, group: str) -> None:
        """The group is held up: nothing more of it is begun."""
        self._held_up.add(group)
        for feed in self.feeds:
            self._left += feed.clear(group)

    def ended(self, max_bytes: int) -> list[Ended]:
        """Pieces that have ended, at least one if there is any, with lines of so many bytes."""
        taken: list[Ended] = []
        while self._ended:
            size = sum(len(line.data) for line in self._ended[0].lines)
            if taken and size > max_bytes:
                break
            taken.append(self._ended.popleft())
            max_bytes -= size
        return taken

    def left(self) -> tuple[int, ...]:
        """Pieces of groups that are held up, since this was last asked."""
        left, self._left = self._left, []
        return tuple(left)

    def end(self, ended: Ended) -> None:
        """A piece has ended."""
        self._ended.append(ended)
        self._go(ended.seq)

    def break_off(self, piece: Piece) -> None:
        """A piece will not end here: its group is held up, or nothing more is done at all."""
        if piece.group in self._held_up:
            self._left.append(piece.seq)
        self._go(piece.seq)

    def _go(self, seq: int) -> None:
        self._under_way.discard(seq)
        if not self._under_way and not any(map(len, self.feeds)):
            self._wake()

    def _begin(self, piece: Piece) -> Job:
        self._under_way.add(piece.seq)
        return _Work(self, piece).job(self._job_of)


class Feed:
    """One stream's pieces as a runner's feed, in the order they came. `low` is called when little is left."""

    def __init__(self, begin: Callable[[Piece], Job], low: Callable[[], None]) -> None:
        self._begin, self._low = begin, low
        self._queue: deque[Piece] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._low_water = 0
        """With fewer left than this, more are asked for, once."""

    def __len__(self) -> int:
        """Pieces that were not begun."""
        return len(self._queue)

    async def next(self) -> tuple[int, Job] | None:
        """See engine.runner.Feed. Nothing is awaited once a piece is taken: it is the runner's at once."""
        while not self._queue:
            if self._closed:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        piece = self._queue.popleft()
        if len(self._queue) < self._low_water:
            self._low_water = 0
            self._low()
        return piece.seq, self._begin(piece)

    def add(self, piece: Piece) -> None:
        """One more; `serve` hands it out."""
        self._queue.append(piece)

    def serve(self) -> None:
        """Let those who wait have what there is."""
        idle = sum(not waiter.done() for waiter in self._waiters)
        if self._queue:
            self._low_water = max(1, self._low_water, (len(self._queue) - idle) // 2)
        for _ in range(min(len(self._queue), len(self._waiters))):
            self._wake_one()

    def clear(self, group: str | None = None) -> list[int]:
        """Take back what was not begun, of one group or (None) of all; gives the pieces' numbers."""
        taken = [piece.seq for piece in self._queue if group in (None, piece.group)]
        self._queue = deque(piece for piece in self._queue if group not in (None, piece.group))
        return taken

    def close(self) -> None:
        """There will be no more."""
        self._closed = True
        while self._waiters:
            self._wake_one()

    def _wake_one(self) -> None:
        waiter = self._waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)


class _Work:
    """A piece under way, and what its job says of it."""

    __slots__ = ("_ctx", "_hand", "_piece", "_walk")

    def __init__(self, hand: Hand, piece: Piece) -> None:
        self._hand, self._piece = hand, piece
        self._ctx: Context | None = None

    def job(self, job_of: JobOf) -> Job:
        made = job_of(self._piece, self._done)
        self._walk = made.walk
        return Job(made.group, made.id, made.journal, self._walked, made.finish, made.shared, made.elsewhere)

    async def _walked(self, ctx: Context) -> Any:
        self._ctx = ctx
        try:
            return await self._walk(ctx)
        except RunStopped:
            self._hand.break_off(self._piece)
            raise

    def _done(self, lines: tuple[Line, ...], failed: bool) -> None:
        executed, steps = (len(self._ctx.executed), self._ctx.steps) if self._ctx else (0, 0)
        self._hand.end(Ended(self._piece.seq, lines, failed, executed, steps))
