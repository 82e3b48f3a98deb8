"""Events of many workers as those of one run: counters are summed, notices deduplicated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import anyio

from cts_async.cluster.messages import Ended, News, Task
from cts_async.engine.events import (
    AttemptFailed,
    BudgetUsed,
    CircuitChanged,
    Event,
    Events,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    JobsCounted,
    LaneInUse,
    LanePaused,
    LaneStatus,
    LimitLearned,
    Notice,
    StepEnded,
    StepsCounted,
    at_rest,
    merged,
)

FORWARDED: Final = frozenset({Notice, LanePaused, LimitLearned, CircuitChanged, GroupHeldUp})
_ROUTINE: Final = frozenset({GroupBegan, JobEnded, BudgetUsed})
MAX_REMEMBERED: Final = 1000
"""Notices that are not repeated."""


class EventCounter:
    """A worker's subscriber. `on_change` is called with events that do not happen all the time."""

    def __init__(self, on_change: Callable[[Event], None]) -> None:
        self._on_change = on_change
        self._sums: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0, 0, 0.0])
        """By group and lane: calls, replayed, retries, tokens, dollars. Lists, since every step adds to one."""
        self._lanes: dict[str, LaneInUse] = {}
        self._forwarded: list[Event] = []

    def __call__(self, event: Event) -> None:
        if type(event) is StepEnded:
            sums = self._sums[event.group, event.lane]
            if event.replayed:
                sums[1] += 1
            else:
                sums[0] += 1
                sums[3] += event.usage.input_tokens + event.usage.output_tokens
                sums[4] += event.usd
        elif type(event) is AttemptFailed:
            self._sums[event.group, event.lane][2] += event.wait_s is not None
        elif type(event) is LaneInUse:
            self._lanes[event.lane] = event
        elif type(event) not in _ROUTINE:
            if type(event) in FORWARDED:
                self._forwarded.append(event)
            self._on_change(event)

    def take_counts(self) -> tuple[StepsCounted, ...]:
        """The sums since this was last called."""
        sums = self._sums.copy()
        self._sums.clear()
        return tuple(
            StepsCounted(group, lane, int(calls), int(replayed), int(retries), int(tokens), usd)
            for (group, lane), (calls, replayed, retries, tokens, usd) in sums.items()
        )

    def take_events(self) -> tuple[Event, ...]:
        """Events for a person since this was last called."""
        forwarded, self._forwarded = self._forwarded, []
        return tuple(forwarded)

    def lanes(self) -> tuple[LaneStatus, ...]:
        """The state of every lane that was used."""
        return tuple(lane.ask() for lane in self._lanes.values())


class EventAggregator:
    """The head's side: passes on to `events` what workers say."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lanes: dict[str, dict[str, LaneStatus]] = {}
        """By lane and worker, its last word; of a worker that is gone what it sent and was charged still counts."""
        self._begun: set[str] = set()
        self._seen: dict[Event, None] = {}
        self._paused_until: defaultdict[str, float] = defaultdict(float)
        self._cut_off: defaultdict[str, set[str]] = defaultdict(set)
        """By lane, the workers that get no answer there."""

    def dealt(self, tasks: Iterable[Task]) -> None:
        for group in dict.fromkeys(task.group for task in tasks):
            if group not in self._begun:
                self._begun.add(group)
                self._events.emit(GroupBegan(group))

    def heard(self, worker: str, news: News, ended: Mapping[int, Task]) -> None:
        """A worker's news; `ended` are the tasks that it did have, by number."""
        for status in news.lanes:
            if status.name not in self._lanes:
                self._lanes[status.name] = {}
                self._events.emit(LaneInUse(status.name, partial(self._lane_status, status.name)))
            self._lanes[status.name][worker] = status
        for count in news.counts:
            self._events.emit(count)
        by_group: defaultdict[str, list[Ended]] = defaultdict(list)
        for one in news.ended:
            if one.seq in ended:
                by_group[ended[one.seq].group].append(one)
        for group, jobs in by_group.items():
            self._events.emit(
                JobsCounted(
                    group,
                    len(jobs),
                    failed=sum(job.failed for job in jobs),
                    executed=sum(job.executed for job in jobs),
                    steps=sum(job.steps for job in jobs),
                )
            )
        for event in news.events:
            self._forward(worker, event)

    def gone(self, worker: str) -> None:
        """A worker is no more."""
        for statuses in self._lanes.values():
            if worker in statuses:
                statuses[worker] = at_rest(statuses[worker])
        for lane, workers in self._cut_off.items():
            if worker in workers:
                self._circuit_changed(worker, CircuitChanged(lane, open=False, reason="its worker is gone"))

    def _lane_status(self, lane: str) -> LaneStatus:
        """All workers' together; may be called in any thread."""
        return merged(list(self._lanes[lane].values()))

    def _forward(self, worker: str, event: Event) -> None:
        if isinstance(event, CircuitChanged):
            self._circuit_changed(worker, event)
        elif isinstance(event, LanePaused):
            # Every worker hears the provider by itself: a pause is news if it lasts longer than the last.
            until = anyio.current_time() + event.seconds
            if until > self._paused_until[event.lane] + 1.0:
                self._paused_until[event.lane] = until
                self._events.emit(event)
        elif isinstance(event, GroupHeldUp | Notice | LimitLearned) and event not in self._seen:
            self._seen[event] = None
            if len(self._seen) > MAX_REMEMBERED:
                del self._seen[next(iter(self._seen))]
            self._events.emit(event)

    def _circuit_changed(self, worker: str, event: CircuitChanged) -> None:
        """An outage begins with the first worker that gets no answer, and ends with the last."""
        workers = self._cut_off[event.lane]
        before = bool(workers)
        (workers.add if event.open else workers.discard)(worker)
        if bool(workers) != before:
            self._events.emit(event)
