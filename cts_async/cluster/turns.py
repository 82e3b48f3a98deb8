"""A head's turns with its workers: what each is given, and what follows from what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from cts_async.cluster.dealing import Dealer
from cts_async.cluster.intake import Intake
from cts_async.cluster.links import WorkerLink, WorkerLost, WorkerSilent
from cts_async.cluster.members import Member
from cts_async.cluster.messages import News, Turn
from cts_async.cluster.purse import Purse
from cts_async.cluster.reasons import WorkerCrashed, reason_of
from cts_async.cluster.tidings import Tidings
from cts_async.engine.events import Events, GroupHeldUp, Notice, Stopping
from cts_async.errors import CTSError, ProviderDown, RunStopped

HUNG_S: Final = 20.0
"""A worker that does not answer for so long is lost."""


class Turns:
    """`serve` each worker that has begun, `bury` each that was lost. `no_more` is called when no other is needed."""

    def __init__(
        self,
        dealer: Dealer,
        intake: Intake,
        events: Events,
        *,
        parts: Callable[[int], Any],
        purse: Purse | None,
        no_more: Callable[[], None],
    ) -> None:
        self._dealer, self._intake, self._events = dealer, intake, events
        self._parts, self._purse, self._no_more = parts, purse, no_more
        self._tidings = Tidings(events)
        self.n_ended = 0
        """Pieces that have ended."""
        self._stopped: Exception | None = None
        self._held_up: RunStopped | None = None

    @property
    def ending(self) -> bool:
        """Whether nothing is left to be dealt."""
        return self._stopped is not None or self._dealer.over

    @property
    def failure(self) -> Exception | None:
        """Why not all was done, if so."""
        return self._stopped or self._held_up

    def end(self, reason: Exception) -> None:
        """Deal nothing more; what is in flight is finished and recorded. The first reason counts."""
        if self._stopped is None:
            self._stopped = reason
            self._events.emit(Stopping(_first_line(reason)))
            self._no_more()

    async def serve(self, member: Member, link: WorkerLink) -> None:
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

    async def _turn(self, member: Member) -> Turn:
        allowed = self._purse.allowed(member.name) if self._purse else None
        found = await self._intake.find(member.asked) if member.asked else {}
        if self.ending:
            stop = _first_line(self._stopped) if self._stopped else ""
            return Turn(found=found, kept=member.kept, allowed=allowed, stop=stop, last=True)
        lease = self._dealer.deal(member.name)
        if failure := self._dealer.failure:
            self.end(failure)
        self._tidings.dealt(lease.pieces)
        parts = {number: self._parts(number) for number in lease.parts}
        return Turn(lease.pieces, parts, found, member.kept, allowed)

    async def _take(self, member: Member, news: News) -> None:
        """Records first, then lines, then shards: what stands in a result is on record by then."""
        member.heard(news)
        try:
            await self._intake.keep(news.records)
        except CTSError as reason:
            self.end(reason)
            raise WorkerLost(f"its records could not be written ({reason})") from None
        member.kept += len(news.records)
        now = asyncio.get_running_loop().time()
        ended = self._dealer.ended(member.name, [piece.seq for piece in news.ended], now)
        had = {piece.seq: piece for piece in ended}
        member.n_ended += len(had)
        self.n_ended += len(had)
        try:
            await self._intake.write(piece for piece in news.ended if piece.seq in had)
            await self._intake.merge(news.shards)
        except CTSError as reason:
            self.end(reason)
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
            self.end(WorkerCrashed(f"{member.name} on {member.host} crashed\n{news.crash}"))
        if news.stopped:
            self.end(reason_of(news.stopped))
        if self._purse:
            self._purse.heard(member.name, news)
            if spent := self._purse.over():
                self.end(spent)
        if self._dealer.over:
            self._no_more()

    async def bury(self, member: Member) -> None:
        """Bring what a lost worker did to safety, then let others have what it had."""
        self._leave(member)
        try:
            await self._intake.merge_left(member.name)
        except CTSError as reason:
            self.end(reason)
            return
        had = self._dealer.lost(member.name)
        for text in self._intake.found_damaged():
            self._events.emit(Notice(text))
        if self._stopped is None:
            status = member.status()
            where = f" on {status.host}" if status.host else ""
            again = f"{had[0].id} is" if len(had) == 1 else f"{len(had)} pieces are"
            self._events.emit(Notice(f"{member.name}{where} is lost ({status.note}); {again} dealt again"))

    def _leave(self, member: Member) -> None:
        self._tidings.gone(member.name)
        if self._purse:
            self._purse.lost(member.name)


def _first_line(reason: Exception) -> str:
    return str(reason).partition("\n")[0]
