"""The head: has workers do all pieces, and replaces those that are lost.

Each worker is served by a task of its own (`turns`). Another takes a lost one's place, under another name; what the
lost one has on disk is merged before anything that it had is dealt again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from socket import gethostname
from typing import Any, Final

import anyio
import anyio.abc

from cts_async import __version__
from cts_async.cluster.dealing import Dealer
from cts_async.cluster.intake import Intake
from cts_async.cluster.links import Hire, WorkerLink, WorkerLost, WorkerSilent
from cts_async.cluster.members import Member
from cts_async.cluster.messages import Begun, Piece
from cts_async.cluster.purse import Purse
from cts_async.cluster.trades import Setup, Trade
from cts_async.cluster.turns import Turns
from cts_async.config import BudgetConfig
from cts_async.engine.events import Events, Notice, WorkersInUse
from cts_async.engine.shards import PATIENCE_S
from cts_async.engine.worker_status import WorkerStatus
from cts_async.errors import CTSError, RunStopped, UsageError
from cts_async.protocol.run_files import RunFiles

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
        self._trade, self._hire, self._wanted, self._events = trade, hire, workers, events
        self._seed, self._sync, self._budget = seed, sync, budget
        self._gone, self._address = gone, address
        self._intake, self._dealer = Intake(places), Dealer(streams)
        self._n_streams = len(streams)
        self._turns = Turns(
            self._dealer, self._intake, events, parts=parts, purse=purse, no_more=self._start_no_more
        )
        self._tokens: tuple[str, ...] = ()
        self._members: list[Member] = []
        self._session = os.urandom(3).hex()
        self._starting: set[anyio.CancelScope] = set()

    @property
    def members(self) -> Sequence[WorkerStatus]:
        """How things stand with every worker that there is or was, in any thread."""
        return [member.status() for member in list(self._members)]

    def roster(self) -> Mapping[str, float | None]:
        """All workers that may ever have sent anything: None for those that are there, else seconds since they went."""
        return {member.name: member.gone_s for member in self._members if member.begun}

    def stop(self, reason: RunStopped) -> None:
        """Deal nothing more; what is in flight is finished and recorded. The first reason counts."""
        self._turns.end(reason)

    async def run(self) -> None:
        """Do all pieces. Raises RunStopped if that ended early, UsageError where a worker cannot do them at all.

        Cancelled, it ends the workers at once; what they have in shards is there for the next start.
        """
        self._dealer.look()  # before there are workers that could miss their head
        self._tokens = self._intake.write_probes()
        self._events.emit(WorkersInUse(lambda: self.members, self._wanted, self._address))
        try:
            if not self._turns.ending:
                await self._serve_all()
            self._finish()
        finally:
            for member in self._members:
                member.kill()
            self._intake.remove_probes()
        if reason := self._turns.failure:
            raise reason

    async def _serve_all(self) -> None:
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._tell_missing)
            async with anyio.create_task_group() as slots:
                for _ in range(self._wanted):
                    slots.start_soon(self._slot, slots, beside)
            beside.cancel_scope.cancel()

    def _finish(self) -> None:
        if not self._turns.ending:
            self._turns.end(RunStopped("no worker is left; nothing is lost, the same command resumes"))
        try:
            self._intake.tidy()
        except CTSError as reason:
            self._turns.end(reason)

    def _start_no_more(self) -> None:
        for scope in self._starting:
            scope.cancel()

    # --- One place for a worker

    async def _slot(self, burials: anyio.abc.TaskGroup, beside: anyio.abc.TaskGroup) -> None:
        """Have a worker there, one after the other, until nothing is left to do.

        The run ends when all `burials` have, and does not wait for what goes on `beside`.
        """
        in_a_row, ended = 0, self._turns.n_ended
        while not self._turns.ending:
            member = Member(f"w{len(self._members) + 1}-{self._session}")
            self._members.append(member)
            try:
                link = await self._start(member, first=in_a_row == 0)
                if link is not None:
                    await self._turns.serve(member, link)
                    self._let_go(member)
                return
            except WorkerLost as lost:
                member.lost(str(lost))
                burials.start_soon(self._turns.bury, member)
                if isinstance(lost, WorkerSilent):
                    beside.start_soon(self._let_go_later, member)
                else:
                    self._let_go(member)
                in_a_row = in_a_row + 1 if self._turns.n_ended == ended else 1
                ended = self._turns.n_ended
                if in_a_row == MOST_LOST:
                    self._turns.end(
                        RunStopped(
                            f"{MOST_LOST} workers in a row were lost before any of them finished a piece: "
                            f"{lost}; nothing is lost, the same command resumes"
                        )
                    )
            finally:
                member.kill()

    async def _start(self, member: Member, *, first: bool) -> WorkerLink | None:
        """A worker that is there; None where it cannot do the work, or is not needed any more. Raises WorkerLost."""
        with anyio.CancelScope() as scope:
            self._starting.add(scope)
            try:
                link = member.link = await self._hire(self._setup(member.name))
                begun = await link.begin()
            except UsageError as error:
                self._refuse(member, str(error), first=first)
                return None
            finally:
                self._starting.discard(scope)
        if scope.cancelled_caught:
            member.over()
            return None
        member.began(begun)
        if problem := _unfit(begun):
            self._refuse(member, problem, first=first)
            return None
        return link

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

    def _refuse(self, member: Member, problem: str, *, first: bool) -> None:
        """One that was among the first ends the run: who started it should know before anything is paid."""
        member.lost(problem)
        self._let_go(member)
        if first:
            self._turns.end(UsageError(problem))
        else:
            self._events.emit(Notice(f"{problem}; the others go on"))

    async def _let_go_later(self, member: Member) -> None:
        """When what it had under way must have ended; it begins nothing that its head does not ask for."""
        await anyio.sleep(PATIENCE_S)
        self._let_go(member)

    def _let_go(self, member: Member) -> None:
        """It sends nothing any more: others may send in its place."""
        member.gone()
        self._gone(member.name)

    async def _tell_missing(self) -> None:
        await anyio.sleep(MISSED_S)
        missing = sum(status.state == "starting" for status in self.members)
        if missing:
            self._events.emit(
                Notice(
                    f"{missing} of {self._wanted} workers have not started after {MISSED_S:.0f} s, perhaps for want "
                    "of a free CPU; the others go on"
                )
            )


def _unfit(begun: Begun) -> str:
    """Why a worker cannot do the work, and where, if that is elsewhere; "" where it can."""
    if begun.version == __version__:
        known = not begun.refused or begun.host in (*begun.refused.split(), gethostname())
        return begun.refused if known else f"on {begun.host}: {begun.refused}"
    return f"{begun.host} has cts_async {begun.version}, and this machine {__version__}: install the same on both"
