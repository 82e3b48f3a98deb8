"""The head: deals pieces out to workers, and takes in what becomes of them, until nothing is left.

Each worker is served by a task of its own. One that is lost is replaced by another, under another name; what it has
on disk is merged before anything that it had is dealt again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import anyio
import anyio.abc

from cts_async import __version__
from cts_async.cluster.dealing import Dealer
from cts_async.cluster.intake import Intake
from cts_async.cluster.links import Hire, WorkerLost
from cts_async.cluster.members import Member
from cts_async.cluster.messages import News, Piece, Turn
from cts_async.cluster.purse import Purse
from cts_async.cluster.reasons import WorkerCrashed, reason_of
from cts_async.cluster.tidings import Tidings
from cts_async.cluster.trades import Setup, Trade
from cts_async.config import BudgetConfig
from cts_async.engine.events import Events, GroupHeldUp, Notice, Stopping, WorkersInUse
from cts_async.engine.worker_status import WorkerStatus
from cts_async.errors import CTSError, ProviderDown, RunStopped, UsageError
from cts_async.protocol.run_files import RunFiles

HUNG_S: Final = 20.0
"""A worker that does not answer for so long is lost."""
MISSED_S: Final = 10.0
"""After so long it is said how many workers have not started."""
MOST_LOST: Final = 5
"""Workers lost in a row with nothing finished in between, after which another is not tried."""


class Head:
    """`run` it once; `stop` it as a Runner."""

    def __init__(
        self,
        places: Sequence[RunFiles],
        streams: Sequence[Iterator[Piece]],
        trade: Trade,
        hire: Hire,
        *,
        workers: int,
        events: Events,
        parts: Callable[[int], Any] = lambda number: None,
        seed: int = 0,
        sync: bool = False,
        budget: BudgetConfig | None = None,
        purse: Purse | None = None,
        gone: Callable[[str], None] = lambda worker: None,
        address: str = "",
    ) -> None:
        self._trade, self._hire, self._wanted = trade, hire, workers
        self._events, self._parts = events, parts
        self._seed, self._sync, self._budget, self._purse = seed, sync, budget, purse
        self._gone, self._address = gone, address
        self._intake = Intake(places)
        self._dealer = Dealer(streams)
        self._n_streams = len(streams)
        self._tidings = Tidings(events)
        self._tokens: tuple[str, ...] = ()
        self._members: list[Member] = []
        self._session = os.urandom(3).hex()
        self._starting: set[anyio.CancelScope] = set()
        self._n_ended = 0
        self._stopped: Exception | None = None
        self._held_up: RunStopped | None = None

    @property
    def members(self) -> Sequence[WorkerStatus]:
        """How things stand with every worker that there is or was, in any thread."""
        return [member.status() for member in list(self._members)]

    def stop(self, reason: RunStopped) -> None:
        """Deal nothing more; what is in flight is finished and recorded. The first reason counts."""
        self._end(reason)

    async def run(self) -> None:
        """Do all pieces. Raises RunStopped if that ended early, UsageError where a worker cannot do them at all.

        Cancelled, it ends the workers at once; what they have in shards is there for the next start.
        """
        self._tokens = self._intake.write_probes()
        self._events.emit(WorkersInUse(lambda: self.members, self._wanted, self._address))
        try:
            if not self._dealer.over:
                await self._serve_all()
            self._intake.tidy()
        finally:
            for member in self._members:
                member.kill()
            self._intake.remove_probes()
        if reason := self._stopped or self._held_up:
            raise reason

    async def _serve_all(self) -> None:
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._tell_missing)
            async with anyio.create_task_group() as slots:
                for _ in range(self._wanted):
                    slots.start_soon(self._slot, slots)
            beside.cancel_scope.cancel()

    def _end(self, reason: Exception) -> None:
        if self._stopped is None:
            self._stopped = reason
            self._events.emit(Stopping(str(reason)))
            self._start_no_more()

    def _start_no_more(self) -> None:
        for scope in self._starting:
            scope.cancel()

    @property
    def _ending(self) -> bool:
        return self._stopped is not None or self._dealer.over

    # --- One place for a worker

    async def _slot(self, burials: anyio.abc.TaskGroup) -> None:
        """Have a worker there, one after the other, until nothing is left to do."""
        in_a_row, ended = 0, self._n_ended
        while not self._ending:
            member = Member(f"w{len(self._members) + 1}-{self._session}")
            self._members.append(member)
            try:
                if await self._start(member, first=in_a_row == 0 and ended == 0):
                    await self._serve(member)
                return
            except WorkerLost as lost:
                member.lost(str(lost))
                burials.start_soon(self._bury, member)
                in_a_row = in_a_row + 1 if self._n_ended == ended else 1
                ended = self._n_ended
                if in_a_row == MOST_LOST:
                    self._end(
                        RunStopped(
                            f"{MOST_LOST} workers in a row were lost before any of them finished a piece: "
                            f"{lost}; nothing is lost, the same command resumes"
                        )
                    )
            finally:
                member.kill()

    async def _start(self, member: Member, *, first: bool) -> bool:
        """Whether the worker is there and can do the work; False where it is not needed any more."""
        with anyio.CancelScope() as scope:
            self._starting.add(scope)
            try:
                member.link = await self._hire(self._setup(member.name))
                member.began(await member.link.begin())
            finally:
                self._starting.discard(scope)
        if scope.cancelled_caught or member.begun is None:
            member.over()
            return False
        return self._accepted(member, first=first)

    def _setup(self, worker: str) -> Setup:
        deadline = self._budget.deadline if self._budget else None
        return Setup(
            worker=worker,
            workers=self._wanted,
            trade=self._trade,
            journals=tuple(map(str, self._intake.directories)),
            journal_of=self._intake.journal_of,
            tokens=self._tokens,
            beside=self._intake.beside,
            streams=self._n_streams,
            sync=self._sync,
            seed=self._seed,
            budget=self._budget,
            deadline_s=None if deadline is None else deadline - time.time(),
        )
