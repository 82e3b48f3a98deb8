"""What a worker tells of its engine's events: sums of what happens all the time, and each word a person should know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cts_async.engine.events import (
    AttemptFailed,
    BudgetUsed,
    CircuitChanged,
    Event,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    LaneInUse,
    LanePaused,
    LaneStatus,
    LimitLearned,
    Notice,
    StepEnded,
    StepsCounted,
)

TOLD: Final = frozenset({Notice, LanePaused, LimitLearned, CircuitChanged, GroupHeldUp})
"""Events that travel as they are."""
_ROUTINE: Final = frozenset({GroupBegan, JobEnded, BudgetUsed})


class _Sum:
    """What was done for one group on one lane; plain numbers, since a step adds to it every few microseconds."""

    __slots__ = ("calls", "replayed", "retries", "tokens", "usd")

    def __init__(self) -> None:
        self.calls = self.replayed = self.retries = self.tokens = 0
        self.usd = 0.0


class Counting:
    """A subscriber. `taken` and `told` give what came since they were last asked.

    `heard` is called with what happens now and then.
    """

    def __init__(self, heard: Callable[[Event], None] = lambda event: None) -> None:
        self._heard = heard
        self._sums: dict[tuple[str, str], _Sum] = {}
        self._lanes: dict[str, LaneInUse] = {}
        self._told: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        if type(event) is StepEnded:
            self._step_ended(event)
        elif type(event) is AttemptFailed:
            self._sum(event.group, event.lane).retries += event.wait_s is not None
        elif type(event) is LaneInUse:
            self._lanes[event.lane] = event
        elif type(event) not in _ROUTINE:
            if type(event) in TOLD:
                self._told.append(event)
            self._heard(event)

    def taken(self) -> tuple[StepsCounted, ...]:
        """The sums, which begin anew."""
        sums, self._sums = self._sums, {}
        return tuple(
            StepsCounted(group, lane, one.calls, one.replayed, one.retries, one.tokens, one.usd)
            for (group, lane), one in sums.items()
        )

    def told(self) -> tuple[Event, ...]:
        """What a person should know."""
        told, self._told = self._told, []
        return tuple(told)

    def lanes(self) -> tuple[LaneStatus, ...]:
        """How things stand with every lane that was used."""
        return tuple(lane.ask() for lane in self._lanes.values())

    def _sum(self, group: str, lane: str) -> _Sum:
        one = self._sums.get((group, lane))
        if one is None:
            one = self._sums[group, lane] = _Sum()
        return one

    def _step_ended(self, event: StepEnded) -> None:
        one = self._sums.get((event.group, event.lane)) or self._sum(event.group, event.lane)
        if event.replayed:
            one.replayed += 1
            return
        usage = event.usage
        one.calls += 1
        one.tokens += usage.input_tokens + usage.output_tokens
        one.usd += event.usd
