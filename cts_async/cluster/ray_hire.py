"""Workers and the limiter as Ray's actors: who is started where, and ended when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from cts_async.cluster.ray_actors import LimiterActor, WorkerActor
from cts_async.cluster.ray_calls import answered
from cts_async.cluster.ray_census import check_residents, residents
from cts_async.cluster.ray_links import RayLimiter, RayWorkerLink
from cts_async.cluster.trades import Setup


class RayCluster:
    """What a head hires workers from."""

    def __init__(self, workers: int, limiter: RayLimiter, notes: tuple[str, ...]) -> None:
        self.workers = workers
        """How many there are to be."""
        self.limiter = limiter
        self.notes = notes
        """What the user should know of it."""
        self._hired: list[RayWorkerLink] = []

    async def hire(self, setup: Setup) -> RayWorkerLink:
        """Start a worker, and wait until there is a CPU for it. Raises WorkerLost where it dies of that."""
        actor = _WORKER.remote(setup, self.limiter.actor, _standing())
        link = RayWorkerLink(actor)
        self._hired.append(link)
        try:
            await link.ready()
        except BaseException:
            link.kill()
            raise
        return link

    def dismiss(self) -> None:
        """End all its processes at once."""
        for link in self._hired:
            link.kill()
        self.limiter.kill()
