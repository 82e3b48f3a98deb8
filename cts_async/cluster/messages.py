"""What head and workers say to each other: plain values, the same whatever carries them.

The head asks, a worker answers, over and over: a `Turn` brings work and what was asked for, `News` say what has become
of it. Nothing is sent unasked, so a head that is behind a proxy, or in a test, needs no address of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cts_async.engine.budget import NOTHING
from cts_async.engine.events import Cost, Event, LaneStatus, StepsCounted
from cts_async.values import value

Asked = tuple[int, str]
"""A step that is looked for: a journal's number and a key."""


@value
class Piece:
    """One job to be done, as whoever makes jobs of it understands `task`.

    `place` is the number of the directory that its lines go into. Pieces with the same number `same`, other than
    0, ask the same question: one worker gets them all, so that it is asked once. `parts` are numbers of what several
    pieces share (a query's nuggets) and a worker is told once.
    """

    seq: int
    """Older pieces have lower ones; no two have the same."""
    group: str
    id: str
    place: int
    task: Any
    same: int = 0
    parts: tuple[int, ...] = ()
    again: bool = False
    """Whether a step of it may be on record: then the head is asked before one is executed."""
    stream: int = 0
    """Pieces of one stream hold up none of another."""


@value
class Line:
    """A line for a file at a place: `judge` names a further judge's verdicts, None is for the results."""

    place: int
    judge: str | None
    data: bytes
    """One JSON object with its newline."""


@value
class Ended:
    """A piece is done: its lines are ready to be written, those of further judges first."""

    seq: int
    lines: tuple[Line, ...]
    failed: bool = False
    executed: int = 0
    """Steps that were not remembered."""
    steps: int = 0
    """All its steps."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a journal that its worker will not write to any more: the journal's number, the file's name."""

    journal: int
    name: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A worker is there. `refused` says why it cannot work on its machine; "" where all is well."""

    host: str
    pid: int
    version: str
    """Of this package."""
    in_flight: int = 1
    """Pieces that it had best work on at once, of each stream."""
    streamed: bool = False
    """Whether it sends its steps, since it does not share the head's storage."""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the head gives a worker."""

    pieces: tuple[Piece, ...] = ()
    parts: Mapping[int, Any] = field(default_factory=dict)
    """What pieces share and this worker has not been told."""
    found: Mapping[Asked, bytes | None] = field(default_factory=dict)
    """Records that were asked for, as lines of a journal; None where there is none."""
    kept: int = 0
    """How many of the records that the worker has streamed are in the journals by now."""
    allowed: Cost | None = None
    """What the worker may spend in all since it began; None where no line is drawn. It may be less than before: what is
    under way then goes on, and nothing is begun until it is enough again. The answer says how things stand after it."""
    stop: str = ""
    """Why nothing new is to be started; "" to go on."""
    last: bool = False
    """Whether no more pieces will come: once it has none in hand, the worker closes its shards and says so."""


@dataclass(frozen=True, slots=True)
class News:
    """What a worker has to say."""

    ended: tuple[Ended, ...] = ()
    left: tuple[int, ...] = ()
    """Pieces that it has no more, though they have not ended: their groups are held up."""
    in_hand: int = 0
    """Pieces that it has and that have not ended."""
    asked: tuple[Asked, ...] = ()
    """Steps that may be on record elsewhere."""
    records: tuple[tuple[int, bytes], ...] = ()
    """Streamed steps, in order: the journal's number and a line."""
    shards: tuple[Shard, ...] = ()
    """Shards that it has closed."""
    counts: tuple[StepsCounted, ...] = ()
    """Since the last news."""
    spent: Cost = NOTHING
    """Since it began."""
    reserved: Cost = NOTHING
    """The most that its calls under way may cost."""
    short: Cost | None = None
    """What its next call may cost, where that call waits for leave to spend it."""
    wants: Cost = NOTHING
    """What it would have use for in all since it began: with what waits, and with its next calls."""
    lanes: tuple[LaneStatus, ...] = ()
    """Of all lanes that it has used."""
    events: tuple[Event, ...] = ()
    """What a person should know: notices, outages, pauses, groups held up."""
    stopped: tuple[str, str] | None = None
    """The class and the text of the RunStopped that ended its work early."""
    held_up: tuple[str, str] | None = None
    """The same of what kept some groups from being finished, though the others went on to the end."""
    crash: str = ""
    """The traceback of what ended it and should not happen."""
    over: bool = False
    """Whether it has closed everything: no news will follow."""
