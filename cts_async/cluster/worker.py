"""A worker: the ordinary engine over pieces that a head deals out, turn by turn.

Whoever holds a worker has `run` going beside its turns. A worker whose head is silent for longer than SILENCE_S
begins nothing more, finishes what it has under way, and is over.
"""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from cts_async import __version__
from cts_async.cluster.allowance import AllowedBudget, open_allowed
from cts_async.cluster.counting import Counting
from cts_async.cluster.hand import Hand
from cts_async.cluster.lookups import Lookups
from cts_async.cluster.messages import Begun, Ended, News, Piece, Shard, Turn
from cts_async.cluster.probe import sees_probe
from cts_async.cluster.reasons import told_reason
from cts_async.cluster.trades import Bench, Done, LanesOf, Setup
from cts_async.cluster.worker_journals import Outbox, ShardJournal, SharedMemory, StreamedJournal
from cts_async.engine.budget import NOTHING
from cts_async.engine.events import Event, Events, GroupHeldUp, Stopping
from cts_async.engine.runner import Job, Runner
from cts_async.errors import CTSError, Interrupted, ProviderGone, RunStopped
from cts_async.llm.redact import SECRETS

TURN_S, TURNS_PER_S = 0.25, 250.0
"""After so long a turn ends with what there is to say, or later where there are many workers: a turn takes a head
half a millisecond, and all of them together are to take no more than an eighth of its time."""
GATHER_S, URGENT_PER_S = 0.003, 1000.0
"""So long records and questions wait for others to travel with, or longer where there are many workers."""
SILENCE_S: Final = 15.0
"""Without a turn for so long, the head is gone, or cannot reach this worker."""
GIVE_BACK_S: Final = 5.0
"""What is not given back by then lapses by itself."""
NEWS_BYTES: Final = 4_000_000
"""Lines and records in one news; what is more waits for the next turn."""


class Worker:
    """`run` it, `begin`, then `turn` after turn, one at a time, until the news say that it is over."""

    def __init__(self, setup: Setup, environ: Mapping[str, str], *, lanes: LanesOf) -> None:
        self._setup, self._environ, self._lanes = setup, environ, lanes
        self._counting = Counting(self._heard)
        self._events = Events(self._counting)
        self._wake = asyncio.Event()
        self._turn_s = max(TURN_S, setup.workers / TURNS_PER_S)
        self._gather_s = max(GATHER_S, setup.workers / URGENT_PER_S)
        self._gathering: asyncio.TimerHandle | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._hand = Hand(setup.streams, self._job, self._wake.set)
        self._lookups = Lookups(self._gather)
        self._outbox = Outbox(self._gather)
        self._journals = self._opened_journals()
        self._parts: dict[int, Any] = {}
        self._shards: list[Shard] = []
        self._opened = asyncio.Event()
        self._bench: Bench | None = None
        self._runner: Runner | None = None
        self._budget: AllowedBudget | None = None
        self._refused = self._crash = ""
        self._told_to_stop = self._closed = False
        self._stopped: RunStopped | None = None

    @property
    def streamed(self) -> bool:
        """Whether any of its steps are kept with the head."""
        return any(isinstance(journal, StreamedJournal) for journal in self._journals)

    async def begin(self) -> Begun:
        """Wait until everything is open, or cannot be (`Begun.refused`)."""
        await self._opened.wait()
        self._listen()
        width = self._bench.in_flight if self._bench else 1
        host = socket.gethostname()
        return Begun(host, os.getpid(), __version__, width, self.streamed, self._refused)

    async def turn(self, turn: Turn) -> News:
        """Take what the head gives, and say what there is to say: at once what is urgent, else a little later."""
        if self._silence:
            self._silence.cancel()
        self._take(turn)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._turn_s):
                await self._wake.wait()
        self._wake.clear()
        if self._gathering:
            self._gathering.cancel()
            self._gathering = None
        news = self._news()
        self._listen()
        return news

    async def run(self) -> None:
        """Work until the head says that nothing is left, that it stops, or nothing at all; then close everything.

        What goes wrong is told in the news, and not raised.
        """
        try:
            async with anyio.create_task_group() as beside:
                lanes = self._lanes(self._events)
                beside.start_soon(lanes.run)
                try:
                    async with self._setup.trade.opened(
                        self._environ, self._events, lanes.lane, workers=self._setup.workers
                    ) as bench:
                        await self._work(bench)
                except RunStopped as reason:
                    self._stopped = reason
                except CTSError as error:
                    self._refused = str(error)
                with anyio.move_on_after(GIVE_BACK_S):
                    await lanes.aclose()
                beside.cancel_scope.cancel()
        except Exception:
            # Anything at all: who has asked for this work is elsewhere, and is told there.
            self._crash = SECRETS.text(traceback.format_exc())
        finally:
            self._close()

    async def _work(self, bench: Bench) -> None:
        self._bench = bench
        self._budget = open_allowed(self._setup.budget, self._setup.deadline_s, self._wake.set)
        self._runner = Runner(
            bench.lanes,
            events=self._events,
            seed=self._setup.seed,
            budget=self._budget,
        )
        self._opened.set()
        widths = [bench.width(stream) for stream in range(self._setup.streams)]
        await self._runner.run(*self._hand.feeds, in_flight=widths)

    def _close(self) -> None:
        """Nothing is under way any more: end the shards, so that the head may merge them."""
        try:
            for journal in self._journals:
                if isinstance(journal, ShardJournal):
                    self._shards += journal.close()
        except RunStopped as reason:
            self._stopped = self._stopped or reason
        except Exception:
            self._crash = self._crash or SECRETS.text(traceback.format_exc())
        self._hand.stop()
        self._closed = True
        self._opened.set()
        self._wake.set()

    def _opened_journals(self) -> list[ShardJournal | StreamedJournal]:
        setup, memory = self._setup, SharedMemory(beside=self._setup.beside)
        return [
            ShardJournal(Path(directory), setup.worker, number, sync=setup.sync, memory=memory)
            if sees_probe(Path(directory), token)
            else StreamedJournal(number, self._outbox, memory)
            for number, (directory, token) in enumerate(zip(setup.journals, setup.tokens, strict=True))
        ]

    def _job(self, piece: Piece, done: Done) -> Job:
        assert self._bench is not None, "jobs are made by its runner"
        number = self._setup.journal_of[piece.place]
        journal = self._journals[number]
        elsewhere = partial(self._elsewhere, number) if piece.again else None
        return self._bench.job(piece, self._parts, journal, elsewhere, done)

    async def _elsewhere(self, journal: int, key: str) -> dict[str, Any] | None:
        record = await self._lookups.ask(journal, key)
        # Another job may have done it here meanwhile.
        return self._journals[journal].find(key) if record is None else record

    # --- Turns

    def _take(self, turn: Turn) -> None:
        self._outbox.kept(turn.kept)
        self._lookups.answer(turn.found)
        if self._budget and turn.allowed:
            self._budget.allow(turn.allowed)
        self._parts.update(turn.parts)
        if turn.stop and self._runner:
            self._told_to_stop = True
            self._runner.stop(Interrupted(turn.stop))
        elif not self._closed:
            self._hand.take(turn.pieces)
        if turn.last:
            self._hand.close()

    def _news(self) -> News:
        ended = self._hand.ended(NEWS_BYTES)
        records = self._outbox.take(NEWS_BYTES - _size(ended)) if len(self._outbox) else []
        if self._hand.untold or len(self._outbox):
            self._wake.set()
        over = self._closed and not self._hand.untold
        reason = None if self._told_to_stop else self._stopped
        early = (
            self._runner is None or self._runner.stopped is not None or not isinstance(reason, ProviderGone)
        )
        budget = self._budget
        return News(
            ended=tuple(ended),
            left=self._hand.left(),
            in_hand=len(self._hand),
            asked=self._lookups.taken(),
            records=tuple(records),
            shards=self._closed_shards(),
            counts=self._counting.taken(),
            spent=budget.spent if budget else NOTHING,
            reserved=budget.reserved if budget else NOTHING,
            short=budget.short if budget else None,
            wants=budget.wants() if budget else NOTHING,
            lanes=self._counting.lanes(),
            events=self._counting.told(),
            stopped=told_reason(reason) if early else None,
            held_up=None if early else told_reason(reason),
            crash=self._crash,
            over=over,
        )

    def _closed_shards(self) -> tuple[Shard, ...]:
        now = asyncio.get_running_loop().time()
        shards, self._shards = self._shards, []
        for journal in self._journals:
            if isinstance(journal, ShardJournal) and not self._closed:
                shards += journal.turn_over(now)
        return tuple(shards)

    def _gather(self) -> None:
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(self._gather_s, self._wake.set)

    def _heard(self, event: Event) -> None:
        """Something that does not happen all the time."""
        if isinstance(event, GroupHeldUp):
            self._hand.drop(event.group)
        elif isinstance(event, Stopping):
            self._hand.stop()
        self._wake.set()

    # --- A head that is gone

    def _listen(self) -> None:
        if not self._closed:
            self._silence = asyncio.get_running_loop().call_later(SILENCE_S, self._left_alone)

    def _left_alone(self) -> None:
        reason = Interrupted(f"nothing was heard of the head for {SILENCE_S:.0f} s")
        self._told_to_stop = True
        self._outbox.lose(reason)
        self._lookups.lose(reason)
        if self._runner:
            self._runner.stop(reason)


def _size(ended: list[Ended]) -> int:
    return sum(len(line.data) for piece in ended for line in piece.lines)
