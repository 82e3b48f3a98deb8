"""The ways to workers and to the limiter over Ray's calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

import ray
from ray.exceptions import RayError

from cts_async.cluster.asks import Ask, Grant, LimiterLost
from cts_async.cluster.links import WorkerLost
from cts_async.cluster.messages import Begun, News, Turn
from cts_async.cluster.ray_calls import answered

TURN_S: Final = 20.0
"""A worker that takes longer than this for a turn is lost: it answers four times a second."""
BEGIN_S: Final = 600.0
"""A worker may have to load an index first."""
ASK_S: Final = 5.0
"""For an ask that the limiter holds for a second."""


class RayWorkerLink:
    """A worker, as the head has it; see links.WorkerLink."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def begin(self) -> Begun:
        return cast(Begun, await answered(self._actor.begin.remote(), BEGIN_S, WorkerLost))

    async def turn(self, turn: Turn) -> News:
        return cast(News, await answered(self._actor.turn.remote(turn), TURN_S, WorkerLost))

    def kill(self) -> None:
        with suppress(RayError, ValueError):
            ray.kill(self._actor, no_restart=True)


class RayLimiterLink:
    """The limiter, as a worker has it; see asks.LimiterLink."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ask(self, ask: Ask) -> Grant:
        return cast(Grant, await answered(self._actor.ask.remote(ask), ASK_S, LimiterLost))


class RayLimiter:
    """The limiter, as the head has it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def gone(self, worker: str) -> None:
        """A worker's process has ended. Not waited for: a limiter that is gone itself is told by the roster."""
        with suppress(RayError):
            self.actor.gone.remote(worker)

    async def roster(self, workers: Mapping[str, float | None]) -> None:
        """All workers that ever were: None for the living, else seconds since death. Raises LimiterLost."""
        await answered(self.actor.roster.remote(dict(workers)), ASK_S, LimiterLost)

    async def status(self) -> tuple[str, Mapping[str, Any]]:
        """Which incarnation it is, and how its accounts are doing. Raises LimiterLost."""
        return cast(
            tuple[str, Mapping[str, Any]], await answered(self.actor.status.remote(), ASK_S, LimiterLost)
        )
