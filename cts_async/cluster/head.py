"""The head: deals pieces out to workers, and takes in what becomes of them, until nothing is left.

Each worker is served by a task of its own. One that is lost is replaced by another, under another name; what it has
on disk is merged before anything that it had is dealt again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import anyio
import anyio.abc

from cts_async import __version__
from cts_async.cluster.dealing import Dealer
from cts_async.cluster.intake import Intake
from cts_async.cluster.links import Hire, WorkerLink, WorkerLost, WorkerSilent
from cts_async.cluster.members import Member
from cts_async.cluster.messages import Begun, News, Piece, Turn
from cts_async.cluster.purse import Purse
from cts_async.cluster.reasons import WorkerCrashed, reason_of
from cts_async.cluster.tidings import Tidings
from cts_async.cluster.trades import Setup, Trade
from cts_async.config import BudgetConfig
from cts_async.engine.events import Events, GroupHeldUp, Notice, Stopping, WorkersInUse
from cts_async.engine.shards import PATIENCE_S
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

    def roster(self) -> Mapping[str, float | None]:
        """All workers that may ever have sent anything: None for those that are there, else seconds since they went."""
        return {member.name: member.gone_s for member in self._members if member.begun}

    def stop(self, reason: RunStopped) -> None:
        """Deal nothing more; what is in flight is finished and recorded. The first reason counts."""
        self._end(reason)

    async def run(self) -> None:
        """Do all pieces. Raises RunStopped if that ended early, UsageError where a worker cannot do them at all.

        Cancelled, it ends the workers at once; what they have in shards is there for the next start.
        """
        self._dealer.look()  # before there are workers that could miss their head
        self._tokens = self._intake.write_probes()
        self._events.emit(WorkersInUse(lambda: self.members, self._wanted, self._address))
        try:
            if not self._dealer.over:
                await self._serve_all()
            self._finish()
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
                    slots.start_soon(self._slot, slots, beside)
            beside.cancel_scope.cancel()

    def _finish(self) -> None:
        if not self._ending:
            self._end(RunStopped("no worker is left; nothing is lost, the same command resumes"))
        try:
            self._intake.tidy()
        except CTSError as reason:
            self._end(reason)

    def _end(self, reason: Exception) -> None:
        if self._stopped is None:
            self._stopped = reason
            self._events.emit(Stopping(str(reason).partition("\n")[0]))
            self._start_no_more()

    def _start_no_more(self) -> None:
        for scope in self._starting:
            scope.cancel()

    @property
    def _ending(self) -> bool:
        return self._stopped is not None or self._dealer.over

    # --- One place for a worker

    async def _slot(self, burials: anyio.abc.TaskGroup, beside: anyio.abc.TaskGroup) -> None:
        """Have a worker there, one after the other, until nothing is left to do.

        The run ends when all `burials` have, and does not wait for what goes on `beside`.
        """
        in_a_row, ended = 0, self._n_ended
        while not self._ending:
            member = Member(f"w{len(self._members) + 1}-{self._session}")
            self._members.append(member)
            try:
                link = await self._start(member, first=in_a_row == 0)
                if link is not None:
                    await self._serve(member, link)
                return
            except WorkerLost as lost:
                member.lost(str(lost))
                burials.start_soon(self._bury, member)
                if isinstance(lost, WorkerSilent):
                    beside.start_soon(self._let_go_later, member)
                else:
                    self._let_go(member)
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
            self._end(UsageError(problem))
        else:
            self._events.emit(Notice(f"{problem}; the others go on"))

    # --- Turns

    async def _serve(self, member: Member, link: WorkerLink) -> None:
        """Turn after turn, until the worker is over. Raises WorkerLost."""
        self._dealer.joined(member.name, member.in_flight)
        if self._purse:
            self._purse.joined(member.name)
        while True:
            turn = await self._turn(member)
            try:
                async with asyncio.timeout(HUNG_S):
                    news = await link.turn(turn)
            except TimeoutError:
                raise WorkerSilent(f"no answer for {HUNG_S:.0f} s") from None
            await self._take(member, news)
            if news.over:
                break
        if not (turn.last or news.stopped or news.crash):
            raise WorkerLost("it has heard nothing for too long")
        member.over()
        self._leave(member)
        self._let_go(member)

    async def _turn(self, member: Member) -> Turn:
        allowed = self._purse.allowed(member.name) if self._purse else None
        found = await self._intake.find(member.asked) if member.asked else {}
        if self._ending:
            stop = str(self._stopped).partition("\n")[0] if self._stopped else ""
            return Turn(found=found, kept=member.kept, allowed=allowed, stop=stop, last=True)
        lease = self._dealer.deal(member.name)
        if failure := self._dealer.failure:
            self._end(failure)
        self._tidings.dealt(lease.pieces)
        parts = {number: self._parts(number) for number in lease.parts}
        return Turn(lease.pieces, parts, found, member.kept, allowed)

    async def _take(self, member: Member, news: News) -> None:
        """Records first, then lines, then shards: what stands in a result is on record by then."""
        member.heard(news)
        try:
            await self._intake.keep(news.records)
        except CTSError as reason:
            self._end(reason)
            raise WorkerLost(f"its records could not be written ({reason})") from None
        member.kept += len(news.records)
        now = asyncio.get_running_loop().time()
        ended = self._dealer.ended(member.name, [piece.seq for piece in news.ended], now)
        had = {piece.seq: piece for piece in ended}
        member.n_ended += len(had)
        self._n_ended += len(had)
        try:
            await self._intake.write(piece for piece in news.ended if piece.seq in had)
            await self._intake.merge(news.shards)
        except CTSError as reason:
            self._end(reason)
        self._tidings.heard(member.name, news, had)
        self._conclude(member, news)

    def _conclude(self, member: Member, news: News) -> None:
        """What follows from news for the run as a whole."""
        for event in news.events:
            if isinstance(event, GroupHeldUp):
                self._dealer.drop(event.group)
                gone = f"{event.lane or 'a provider'} is gone; nothing is lost, the same command resumes"
                self._held_up = self._held_up or ProviderDown(gone)
        self._dealer.left(member.name, news.left)
        if news.held_up:
            self._held_up = reason_of(news.held_up)
        if news.crash:
            self._end(WorkerCrashed(f"{member.name} on {member.host} crashed\n{news.crash}"))
        if news.stopped:
            self._end(reason_of(news.stopped))
        if self._purse:
            self._purse.heard(member.name, news)
            if spent := self._purse.over():
                self._end(spent)
        if self._dealer.over:
            self._start_no_more()

    # --- Workers that leave

    async def _bury(self, member: Member) -> None:
        """Bring what a lost worker did to safety, then let others have what it had."""
        member.kill()
        self._leave(member)
        try:
            await self._intake.merge_left(member.name)
        except CTSError as reason:
            self._end(reason)
            return
        had = self._dealer.lost(member.name)
        for text in self._intake.found_damaged():
            self._events.emit(Notice(text))
        if self._stopped is None:
            status = member.status()
            where = f" on {status.host}" if status.host else ""
            self._events.emit(
                Notice(f"{member.name}{where} is lost ({status.note}); {len(had)} pieces are dealt again")
            )

    async def _let_go_later(self, member: Member) -> None:
        """When what it had under way must have ended; it begins nothing that its head does not ask for."""
        await anyio.sleep(PATIENCE_S)
        self._let_go(member)

    def _let_go(self, member: Member) -> None:
        """It sends nothing any more: others may send in its place."""
        member.gone()
        self._gone(member.name)

    def _leave(self, member: Member) -> None:
        self._tidings.gone(member.name)
        if self._purse:
            self._purse.lost(member.name)

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
    """Why a worker cannot do the work; "" where it can."""
    if begun.version == __version__:
        return begun.refused
    return f"{begun.host} has cts_async {begun.version}, and this machine {__version__}: install the same on both"
