"""What a worker has to be able to do for the work that is dealt to it: make a job of a piece.

A trade is what a worker is taught when it begins, as a value that travels; its bench is that trade at work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from cts_async.cluster.messages import Line, Piece
from cts_async.cluster.needs import Needs
from cts_async.config import BudgetConfig
from cts_async.engine.events import Events
from cts_async.engine.journal import StepMemory
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Job
from cts_async.protocol.resources import LaneOf

Done = Callable[[tuple[Line, ...], bool], None]
"""Told a piece's lines when it has ended, and whether it failed."""
Elsewhere = Callable[[str], Awaitable[dict[str, Any] | None]]
"""Asked for a record that may be with the head."""


class Bench(Protocol):
    """Everything a worker's jobs need, open."""

    @property
    def lanes(self) -> Sequence[Lane]: ...

    @property
    def in_flight(self) -> int:
        """Pieces that this worker had best work on at once."""

    def width(self, stream: int) -> int:
        """How many of these may be of one stream."""

    def job(
        self,
        piece: Piece,
        parts: Mapping[int, Any],
        journal: StepMemory,
        elsewhere: Elsewhere | None,
        done: Done,
    ) -> Job:
        """The job that does a piece; `parts` holds at least the piece's own. It calls `done` once, at its end."""


class Lanes(Protocol):
    """Where a worker's lanes come from: those of all workers together keep to what an account allows."""

    def lane(self, account: str, name: str, limits: LaneLimits) -> Lane:
        """The lane of an account."""

    async def run(self) -> None:
        """Keep the lanes going, until cancelled."""

    async def aclose(self) -> None:
        """Give back what is not used."""


LanesOf = Callable[[Events], Lanes]
"""Makes the lanes of one worker, which tell its events."""


class Trade(Protocol):
    """Picklable; holds no secret and no open file."""

    @property
    def needs(self) -> Needs:
        """What a worker's machine has to have; the files are there, or were sent, before a bench is opened."""

    def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AbstractAsyncContextManager[Bench]:
        """Open a bench for one of so many workers. UsageError where something is missing on this machine."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is told once, before its first turn."""

    worker: str
    """Its name: no two of a run's workers, of whatever session, have the same."""
    workers: int
    """How many there are to be."""
    trade: Trade
    journals: tuple[str, ...]
    """The directories of the run's journals, absolute, as the head sees them."""
    journal_of: tuple[int, ...]
    """By place, the number of its journal."""
    tokens: tuple[str, ...]
    """What stands in each journal's probe file: whoever reads the same there shares the head's storage."""
    beside: bool = False
    """Whether a step in one journal counts in the others as well (`Journal.beside`)."""
    streams: int = 1
    """How many there are: `Piece.stream` counts them from 0."""
    sync: bool = False
    seed: int = 0
    budget: BudgetConfig | None = None
    """The lines that were drawn, None for none; what it may spend of them it is told turn by turn."""
    deadline_s: float | None = None
    """Seconds until the deadline, when this was sent."""
