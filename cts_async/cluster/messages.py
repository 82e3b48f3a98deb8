"""What the head and its workers say to each other: plain values, whatever carries them.

The head calls, a worker answers: a `Turn` brings instances and what was asked for, `News` say what has become of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cts_async.engine.budget import NOTHING
from cts_async.engine.events import Cost, Event, LaneStatus, StepsCounted
from cts_async.values import value

StepRef = tuple[int, str]
"""A step: a journal's number and a key."""


@value
class Task:
    """One job: an instance in one system, or an answer to judge. `payload` is for the `Work` that made it."""

    seq: int
    """Unique; lower for older ones."""
    group: str
    id: str
    place: int
    """The number of the run directory that its lines go into."""
    payload: Any
    question: int = 0
    """Tasks of the same question, other than 0, make the same calls: one is done at a time, and the others reuse it."""
    resumed: bool = False
    """Whether steps of it may be in the journal: then the head is asked before one is executed."""
    stream: int = 0
    """A slow task holds up others of its own stream only."""


@value
class Line:
    """A line for a file at a place: `judge` names a further judge's verdicts, None is for the results."""

    place: int
    judge: str | None
    data: bytes
    """One JSON object with its newline."""


@value
class Ended:
    """A finished task with its lines, those of further judges first."""

    seq: int
    lines: tuple[Line, ...]
    failed: bool = False
    executed: int = 0
    """Steps that were not in the journal."""
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """A worker is ready. `refused` says why it cannot work on its machine; "" if it can."""

    host: str
    pid: int
    version: str
    in_flight: int = 1
    """Tasks of each stream to work on at once."""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the head gives a worker."""

    tasks: tuple[Task, ...] = ()
    found: Mapping[StepRef, bytes | None] = field(default_factory=dict)
    """Records that were asked for, as lines of a journal; None where there is none."""
    acknowledged: int = 0
    """How many of the worker's records are in the journals."""
    allowed: Cost | None = None
    """What the worker may spend in all since it began; None without a budget. May be less than before."""
    stop: str = ""
    """Why no new request is to be sent; "" to go on."""
    last: bool = False
    """Whether no more tasks will come."""


@dataclass(frozen=True, slots=True)
class News:
    """What a worker has to say."""

    ended: tuple[Ended, ...] = ()
    returned: tuple[int, ...] = ()
    """Tasks that it does not do, since their groups are held up."""
    in_hand: int = 0
    """Tasks that it has."""
    asked: tuple[StepRef, ...] = ()
    """Steps that may be in the journal."""
    records: tuple[tuple[int, bytes], ...] = ()
    """Steps in order of execution: the journal's number and a line."""
    counts: tuple[StepsCounted, ...] = ()
    spent: Cost = NOTHING
    """Since the worker began."""
    reserved: Cost = NOTHING
    """The most that its calls under way may cost."""
    short: Cost | None = None
    """What its next call may cost, if that waits for a larger allowance."""
    lanes: tuple[LaneStatus, ...] = ()
    events: tuple[Event, ...] = ()
    """Notices, outages, pauses, groups held up."""
    stopped: tuple[str, str] | None = None
    """Class and text of the RunStopped that ended its work."""
    held_up: tuple[str, str] | None = None
    """The same for one that ended the work of some groups only."""
    crash: str = ""
    """Traceback of a bug."""
    over: bool = False
    """Whether this is the last."""
