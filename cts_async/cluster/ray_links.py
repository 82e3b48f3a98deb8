"""The ways to workers and to the limiter over Ray's calls.

What is said all the time travels as bytes that were made here: Ray's own pickler looks at every object in Python.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final, cast

import anyio
from ray.exceptions import RayError

from cts_async import __version__
from cts_async.cluster.asks import Ask, Grant, LimiterLost
from cts_async.cluster.links import WorkerLost, WorkerSilent
from cts_async.cluster.messages import Begun, News, Turn
from cts_async.cluster.needs import NeededFile
from cts_async.cluster.ray_calls import SILENT, called, end, sent
from cts_async.errors import UsageError

CALL_S: Final = 30.0
"""For a turn, or for a part of a file: longer than a head waits for either."""
BEGIN_S: Final = 600.0
"""A worker may have to load an index first."""
ASK_S: Final = 5.0
"""For an ask that the limiter holds for a second."""
BEAT_S: Final = 0.5
"""How often it is looked whether the limiter is still the same."""


def packed(message: Turn | News | Ask | Grant) -> bytes:
    """A message between a run's own processes, to be read by `pickle.loads` there; Ray protects its way, or nobody."""
    return pickle.dumps(message, protocol=5)


def _lost(why: str) -> WorkerLost:
    """One that does not answer may still be at work."""
    return WorkerSilent(why) if why in SILENT or why.startswith("no answer") else WorkerLost(why)


class RayWorkerLink:
    """A worker, as the head has it; see links.WorkerLink."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ready(self) -> None:
        """Wait, for as long as it takes, until there is a CPU for it, and a process. Raises WorkerLost."""
        await called(self._actor.ready, within_s=None, lost=_lost)

    async def begin(self) -> Begun:
        for file in await called(self._actor.lacking, within_s=BEGIN_S, lost=_lost):
            if problem := await self._send(file):
                return Begun("", 0, __version__, refused=problem)
        return cast(Begun, await called(self._actor.begin, within_s=BEGIN_S, lost=_lost))

    async def turn(self, turn: Turn) -> News:
        said = await called(self._actor.turn, packed(turn), within_s=CALL_S, lost=_lost)
        return cast(News, pickle.loads(said))

    async def _send(self, file: NeededFile) -> str:
        """Why a file cannot be had there; "" where it now is."""
        try:
            for part in chain(file.parts(), [b""]):
                problem = await called(self._actor.arrive, file, part, within_s=CALL_S, lost=_lost)
                if problem:
                    return cast(str, problem)
        except UsageError as error:
            return str(error)
        return ""

    def kill(self) -> None:
        end(self._actor)


class RayLimiterLink:
    """The limiter, as a worker has it; see asks.LimiterLink."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ask(self, ask: Ask) -> Grant:
        said = await called(self._actor.ask, packed(ask), within_s=ASK_S, lost=LimiterLost)
        return cast(Grant, pickle.loads(said))


class RayLimiter:
    """The limiter, as the head has it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        """What workers are given, to make their links of."""
        self.accounts: Mapping[str, Any] = {}
        """How they were doing a moment ago; see Limiter.status."""

    def gone(self, worker: str) -> None:
        """A worker's process has ended. Nobody waits for this: a limiter that is gone, too, hears it from the roster."""
        with suppress(RayError, LimiterLost):
            sent(self.actor.gone, worker, lost=LimiterLost)

    async def keep(self, roster: Callable[[], Mapping[str, float | None]]) -> None:
        """Tell each incarnation of the limiter who there is and was, until cancelled; see Limiter.roster."""
        known = ""
        while True:
            with suppress(LimiterLost):
                generation, self.accounts = await called(self.actor.status, within_s=ASK_S, lost=LimiterLost)
                if generation != known:
                    await called(self.actor.roster, dict(roster()), within_s=ASK_S, lost=LimiterLost)
                    known = generation
            # Ray tells nobody that it has started an actor anew.
            await anyio.sleep(BEAT_S)

    def kill(self) -> None:
        """End it for good."""
        end(self.actor)
