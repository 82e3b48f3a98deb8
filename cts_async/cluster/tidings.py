"""What many workers tell, as one: sums go on as sums, and what a person should know is said once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import anyio

from cts_async.cluster.messages import Ended, News, Piece
from cts_async.engine.events import (
    CircuitChanged,
    Event,
    Events,
    GroupBegan,
    GroupHeldUp,
    JobsCounted,
    LaneInUse,
    LanePaused,
    LimitLearned,
    Notice,
)
from cts_async.engine.lanes_of_many import LanesOfMany

MOST_REMEMBERED: Final = 1000
"""Sentences of which it is remembered that they were said."""


class Tidings:
    """Passes on to `events` what workers say."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lanes = LanesOfMany()
        self._begun: set[str] = set()
        self._said: dict[Event, None] = {}
        self._paused_until: defaultdict[str, float] = defaultdict(float)
        self._away: defaultdict[str, set[str]] = defaultdict(set)
        """By lane, the workers that get no answer there."""

    def dealt(self, pieces: Iterable[Piece]) -> None:
        """These are begun."""
        for group in dict.fromkeys(piece.group for piece in pieces):
            if group not in self._begun:
                self._begun.add(group)
                self._events.emit(GroupBegan(group))

    def heard(self, worker: str, news: News, ended: Mapping[int, Piece]) -> None:
        """A worker's news; `ended` are the pieces that it did have, by number."""
        for new in self._lanes.heard(worker, news.lanes):
            self._events.emit(LaneInUse(new, partial(self._lanes.status, new)))
        for count in news.counts:
            self._events.emit(count)
        self._count_jobs((piece for piece in news.ended if piece.seq in ended), ended)
        for event in news.events:
            self._pass_on(worker, event)

    def gone(self, worker: str) -> None:
        """A worker is no more: nothing that held it up does."""
        self._lanes.gone(worker)
        for lane, away in self._away.items():
            if worker in away:
                self._circuit_changed(worker, CircuitChanged(lane, open=False, reason="its worker is gone"))

    def _count_jobs(self, ended: Iterable[Ended], pieces: Mapping[int, Piece]) -> None:
        by_group: defaultdict[str, list[Ended]] = defaultdict(list)
        for piece in ended:
            by_group[pieces[piece.seq].group].append(piece)
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

    def _pass_on(self, worker: str, event: Event) -> None:
        if isinstance(event, CircuitChanged):
            self._circuit_changed(worker, event)
        elif isinstance(event, LanePaused):
            self._lane_paused(event)
        elif isinstance(event, GroupHeldUp | Notice | LimitLearned) and self._is_new(event):
            self._events.emit(event)

    def _is_new(self, event: GroupHeldUp | Notice | LimitLearned) -> bool:
        if event in self._said:
            return False
        self._said[event] = None
        if len(self._said) > MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        return True

    def _lane_paused(self, event: LanePaused) -> None:
        """Every worker hears the provider by itself: only what lasts longer than what was said is news."""
        until = anyio.current_time() + event.seconds
        if until > self._paused_until[event.lane] + 1.0:
            self._paused_until[event.lane] = until
            self._events.emit(event)

    def _circuit_changed(self, worker: str, event: CircuitChanged) -> None:
        """An outage begins with the first worker that gets no answer, and ends with the last."""
        away = self._away[event.lane]
        before = bool(away)
        (away.add if event.open else away.discard)(worker)
        if bool(away) != before:
            self._events.emit(event)
