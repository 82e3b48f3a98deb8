"""What a command is doing: the engine's events in, a `LiveFile` out. It prints and writes nothing.

Events come from the loop's thread, looks from those that draw and write: a lock lets them take turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
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
    StepEnded,
    StepsCounted,
    Stopping,
    WorkersInUse,
)
from cts_async.report.lanes_shown import LanesShown
from cts_async.report.live_shapes import LiveFile
from cts_async.report.live_words import notable
from cts_async.report.workers_shown import WorkersShown
from cts_async.report.works import Group, Work

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
