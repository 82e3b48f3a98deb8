"""The progress of a command: engine events in, the contents of `live.json` out."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cts_async.engine.events import (
    AttemptFailed,
    BudgetUsed,
    CircuitChanged,
    Cost,
    Event,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    JobsCounted,
    JobsFound,
    LaneInUse,
    LaneStatus,
    StepEnded,
    StepsCounted,
    Stopping,
    WorkersInUse,
)
from cts_async.report.live import Lane, LiveFile, LivePart, read_live, remove_live, write_live
from cts_async.report.live_words import notable
from cts_async.report.pace import LastMinute, Pace, RunningMean
from cts_async.report.viewer.index import BLOCK, Tail
from cts_async.report.workers_shown import WorkersShown

PATIENCE_S = 2.0
"""How long the end waits for a tick under way: a disk that hangs must not hold up a command that is done."""


@contextmanager
def ticking(every_s: float, tick: Callable[[], None]) -> Iterator[None]:
    """Call `tick` at once and then every `every_s` seconds while the block runs; never after it."""
    ended = threading.Event()

    def run() -> None:
        tick()
        while not ended.wait(every_s):
            tick()

    thread = threading.Thread(target=run, name="cts-tick", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Work:
    """Jobs of a command that have a bar of their own: a system's, or a judge's."""

    group: str
    """What the engine's events call them."""
    n_expected: int
    directories: tuple[Path, ...]
    """Where they write, and where `live.json` says so."""
    scores: Path | None = None
    """The file whose scores are their mean; None where they have none."""
    smoke_test: bool = False


@dataclass(slots=True)
class Group:
    """Counts of what was heard of one `Work`."""

    work: Work
    heard_of: bool = False
    done: int = 0
    failed: int = 0
    calls: int = 0
    replayed: int = 0
    retries: int = 0
    tokens: int = 0
    usd: float = 0.0
    lanes: set[str] = field(default_factory=set)
    """Those that it was seen to need."""
    held_up: str | None = None
    """The lane that is gone for good; "" where nobody knows which."""
    pace: Pace = field(default_factory=Pace)
    mean: RunningMean = field(default_factory=RunningMean)

    def part(self, now: float, away: AbstractSet[str]) -> LivePart:
        """How things stand with it; `away` are lanes whose provider does not answer."""
        left = self.work.n_expected - self.done
        interval = self.mean.interval()
        return {
            "name": self.work.group,
            "n_expected": self.work.n_expected,
            "n_done": self.done,
            "n_failed": self.failed,
            "eta_s": None if self.held_up is not None and left > 0 else self.pace.left_s(left, now),
            "mean": self.mean.mean if self.mean.n else None,
            "mean_low": interval[0] if interval else None,
            "mean_high": interval[1] if interval else None,
            "n_scored": self.mean.n,
            "calls": self.calls,
            "replayed": self.replayed,
            "retries": self.retries,
            "tokens": self.tokens,
            "note": self._note(away),
            "smoke_test": self.work.smoke_test,
        }

    def _note(self, away: AbstractSet[str]) -> str:
        """Why it does not go on."""
        if self.held_up is not None:
            return f"held up: {self.held_up} is gone" if self.held_up else "held up"
        missed = sorted(self.lanes & away)
        return f"waiting for {', '.join(missed)}" if missed and self.done < self.work.n_expected else ""


Ask = Callable[[], LaneStatus]


class LanesShown:
    """`use` what comes into use, then look with `seen`; `now` is in seconds and never goes back."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Ask, LastMinute, LastMinute]] = {}

    def use(self, name: str, ask: Ask, now: float) -> None:
        """A lane comes into use, with its first request."""
        self._asked[name] = ask, LastMinute(now, 0), LastMinute(now, 0.0)

    def seen(self, now: float) -> list[Lane]:
        """How things stand, in the order of use."""
        return [_shown(ask(), sent, tokens, now) for ask, sent, tokens in list(self._asked.values())]


def _shown(status: LaneStatus, sent: LastMinute, tokens: LastMinute, now: float) -> Lane:
    return {
        "name": status.name,
        "in_flight": status.in_flight,
        "waiting": status.waiting,
        "places": status.places,
        "calls_per_min": sent.grown(now, status.sent),
        "calls_allowed": status.requests_per_min,
        "tokens_per_min": tokens.grown(now, status.tokens),
        "tokens_allowed": status.tokens_per_min,
        "answers_429": status.answers_429,
        "paused_s": status.paused_s,
        "open_s": status.probe_s,
        "reason": status.reason,
    }


Clock = Callable[[], float]


_ROUTINE: Final = frozenset(
    {GroupBegan, StepEnded, StepsCounted, JobEnded, JobsCounted, AttemptFailed, BudgetUsed}
)
"""What happens all the time: only counted."""
MOST_SAID: Final = 1000
"""Sentences kept for whoever shows them; where nobody does, older ones go."""
_NO_BUDGET: Final = BudgetUsed(Cost(), None, None, None)


class Doing:
    """A subscriber of events that knows how things stand."""

    def __init__(
        self, works: Sequence[Work], *, clock: Clock = time.monotonic, wall: Clock = time.time
    ) -> None:
        self._groups = {work.group: Group(work) for work in works}
        self._clock, self._wall = clock, wall
        self._started = wall()
        self._lanes = LanesShown()
        self._workers: WorkersShown | None = None
        self._away: set[str] = set()
        """Lanes whose provider does not answer just now."""
        self._budget = _NO_BUDGET
        self._stopping = ""
        self._said: deque[str] = deque(maxlen=MOST_SAID)
        self._lock = threading.Lock()
        self._takes: dict[type, Callable[[Any], None]] = {
            StepEnded: self._step_ended,
            StepsCounted: self._steps_counted,
            GroupBegan: self._group_began,
            JobEnded: self._job_ended,
            JobsCounted: self._jobs_counted,
            JobsFound: self._jobs_found,
            AttemptFailed: self._attempt_failed,
            LaneInUse: self._lane_in_use,
            WorkersInUse: self._workers_in_use,
            CircuitChanged: self._circuit_changed,
            GroupHeldUp: self._group_held_up,
            BudgetUsed: self._budget_used,
            Stopping: self._will_stop,
        }

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        with self._lock:
            take = self._takes.get(type(event))
            if take:
                take(event)
            if type(event) not in _ROUTINE and (said := notable(event)):
                self._said.append(said)

    def scored(self, group: str, scores: Iterable[float]) -> None:
        """Further scores of a group's instances, those of earlier sessions too."""
        self._groups[group].mean.add(scores)

    def said(self) -> list[str]:
        """What a person should know at once, each sentence a single time."""
        with self._lock:
            said = list(self._said)
            self._said.clear()
        return said

    @property
    def begun(self) -> list[Work]:
        """Work that was heard of: its directories are locked by this process."""
        return [group.work for group in list(self._groups.values()) if group.heard_of]

    def live(self, groups: Collection[str] | None = None) -> LiveFile:
        """How things stand with these groups (None: all); providers, and what is spent, are the process's."""
        with self._lock:
            return self._live([one for name, one in self._groups.items() if groups is None or name in groups])

    def _live(self, groups: Sequence[Group]) -> LiveFile:
        now = self._clock()
        self._hold(now)
        parts = [group.part(now, self._away) for group in groups]
        scored = parts[0] if parts and (len(parts) == 1 or parts[0]["n_scored"]) else None
        spent, budget = self._budget.spent, self._budget
        limited = budget is not _NO_BUDGET
        live: LiveFile = {
            "pid": os.getpid(),
            "time": self._wall(),
            "started": self._started,
            "n_expected": sum(part["n_expected"] for part in parts),
            "n_done": sum(part["n_done"] for part in parts),
            "n_failed": sum(part["n_failed"] for part in parts),
            "eta_s": longest(part["eta_s"] for part in parts),
            "mean": scored and scored["mean"],
            "mean_low": scored and scored["mean_low"],
            "mean_high": scored and scored["mean_high"],
            "n_scored": scored["n_scored"] if scored else 0,
            "calls": sum(part["calls"] for part in parts),
            "replayed": sum(part["replayed"] for part in parts),
            "retries": sum(part["retries"] for part in parts),
            "tokens": sum(part["tokens"] for part in parts),
            "spent_usd": spent.usd if limited else sum(one.usd for one in self._groups.values()),
            "spent_calls": spent.calls,
            "spent_tokens": spent.tokens,
            "max_usd": budget.max_usd,
            "max_calls": budget.max_calls,
            "max_tokens": budget.max_tokens,
            "note": self._stopping
            or "; ".join(dict.fromkeys(part["note"] for part in parts if part["note"])),
            "lanes": self._lanes.seen(now),
            "parts": parts,
        }
        return {**live, **self._workers.seen(now)} if self._workers else live

    def _hold(self, now: float) -> None:
        for group in self._groups.values():
            group.pace.hold(now, held=bool(group.lanes & self._away))

    def _of(self, event: Any) -> Group:
        group = self._groups.get(event.group)
        if group is None:
            group = self._groups[event.group] = Group(Work(event.group, 0, ()))
        group.heard_of = True
        return group

    def _step_ended(self, event: StepEnded) -> None:
        group = self._of(event)
        group.pace.stepped(event.job_id, replayed=event.replayed)
        if event.lane:
            if event.replayed:
                group.replayed += 1
            else:
                group.calls += 1
                group.tokens += event.usage.input_tokens + event.usage.output_tokens
                group.usd += event.usd
            group.lanes.add(event.lane)

    def _steps_counted(self, event: StepsCounted) -> None:
        group = self._of(event)
        group.pace.counted(event.calls)
        group.retries += event.retries
        if event.lane:
            group.calls += event.calls
            group.replayed += event.replayed
            group.tokens += event.tokens
            group.usd += event.usd
            group.lanes.add(event.lane)

    def _group_began(self, event: GroupBegan) -> None:
        pace = self._of(event).pace
        if not pace.begun:
            pace.began(self._clock())

    def _job_ended(self, event: JobEnded) -> None:
        group = self._of(event)
        group.done += 1
        group.failed += event.failure is not None
        group.pace.ended(event.job_id)

    def _jobs_counted(self, event: JobsCounted) -> None:
        group = self._of(event)
        group.done += event.jobs
        group.failed += event.failed
        group.pace.ended_in_bulk(event.jobs, executed=event.executed, steps=event.steps)

    def _jobs_found(self, event: JobsFound) -> None:
        group = self._of(event)
        group.done += event.jobs
        group.failed += event.failed

    def _attempt_failed(self, event: AttemptFailed) -> None:
        group = self._of(event)
        group.retries += event.wait_s is not None
        if event.lane:
            group.lanes.add(event.lane)

    def _lane_in_use(self, event: LaneInUse) -> None:
        self._lanes.use(event.lane, event.ask, self._clock())

    def _workers_in_use(self, event: WorkersInUse) -> None:
        self._workers = WorkersShown(event)

    def _circuit_changed(self, event: CircuitChanged) -> None:
        now = self._clock()
        self._hold(now)
        (self._away.add if event.open else self._away.discard)(event.lane)
        self._hold(now)

    def _group_held_up(self, event: GroupHeldUp) -> None:
        self._of(event).held_up = event.lane

    def _budget_used(self, event: BudgetUsed) -> None:
        self._budget = event

    def _will_stop(self, event: Stopping) -> None:
        self._stopping = f"stopping: {event.reason}"


def longest(times: Iterable[float | None]) -> float | None:
    """When all of what goes on side by side is done; None as long as that cannot be told of one of them."""
    known: list[float] = []
    for seconds in times:
        if seconds is None:
            return None
        known.append(seconds)
    return max(known, default=None)


_SCORE: Final = re.compile(rb'"restore_score_100":\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')
"""A key: in a text its quotes would be escaped."""


class ScoreTail:
    """Reads on where it stopped. Of an instance that is scored twice both count; failures have no score."""

    def __init__(self, path: Path, block: int = BLOCK) -> None:
        self._tail = Tail(path.parent.resolve() / path.name, block)

    def read(self) -> Iterator[float]:
        """The scores in whole lines that were appended; none where nothing can be read."""
        self._tail.renewed()
        while found := self._tail.next():
            yield from map(float, _SCORE.findall(found[1]))


EVERY_S = 1.0


class LiveWriter:
    """`tick` now and then, `end` once."""

    def __init__(self, doing: Doing) -> None:
        self._doing = doing
        self._tails: dict[str, ScoreTail] = {}

    def tick(self) -> None:
        """Take in the scores that are new, and say in each directory how things stand with what goes there."""
        groups: dict[Path, list[str]] = {}
        for work in self._doing.begun:
            if work.scores is not None:
                tail = self._tails.setdefault(work.group, ScoreTail(work.scores))
                self._doing.scored(work.group, tail.read())
            for directory in work.directories:
                groups.setdefault(directory, []).append(work.group)
        for directory, names in groups.items():
            write_live(directory, self._doing.live(names))

    def end(self) -> None:
        """Nothing is going on any more: no word stays, a killed process's neither, but for that of a next one."""
        for work in self._doing.begun:
            for directory in work.directories:
                said = read_live(directory)
                if said is None or said["pid"] == os.getpid():
                    remove_live(directory)


@contextmanager
def told_live(doing: Doing) -> Iterator[None]:
    """`live.json` while the block runs."""
    writer = LiveWriter(doing)
    try:
        with ticking(EVERY_S, writer.tick):
            yield
    finally:
        writer.end()
