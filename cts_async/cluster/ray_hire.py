"""Workers and the limiter as Ray's actors: who is started where, and ended when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cts_async.cluster.links import WorkerLost
from cts_async.cluster.ray_actors import LimiterActor, WorkerActor
from cts_async.cluster.ray_calls import CUT_OFF, sent
from cts_async.cluster.ray_census import check_residents, residents
from cts_async.cluster.ray_links import RayLimiter, RayWorkerLink
from cts_async.cluster.ray_pulse import Port, until_gone, vital_ports
from cts_async.cluster.trades import Setup
from cts_async.errors import UsageError

MOST_ASKS: Final = 10_000
"""Asks that the limiter may hold at a time: one for each worker, and those that it will never hear of."""


class RayCluster:
    """What a head hires workers from."""

    def __init__(
        self,
        workers: int,
        limiter: RayLimiter,
        *,
        address: str,
        notes: tuple[str, ...] = (),
        ports: Mapping[str, Port] | None = None,
    ) -> None:
        self.workers = workers
        """How many there are to be."""
        self.limiter = limiter
        self.address = address
        """As the user has written it; "" for a Ray of this machine alone."""
        self.notes = notes
        """What the user should know of it."""
        self._ports = ports or {}
        self._directory = None if address else str(Path.cwd())
        worker: Any = ray.remote(WorkerActor)
        self._worker = worker.options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
        self._hired: list[RayWorkerLink] = []

    async def hire(self, setup: Setup) -> RayWorkerLink:
        """Start a worker, and wait until there is a CPU for it. Raises WorkerLost where it dies of that."""
        link = RayWorkerLink(sent(self._worker, setup, self.limiter.actor, self._directory, lost=WorkerLost))
        self._hired.append(link)
        try:
            await link.ready()
        except BaseException:
            link.kill()
            raise
        return link

    async def gone(self) -> str:
        """Wait until Ray itself has ended, so that nobody can be hired any more; say what is missing."""
        missing = await until_gone(self._ports)
        for link in self._hired:
            link.out_of_reach = True
        return missing

    def dismiss(self) -> None:
        """End all its processes at once."""
        for link in self._hired:
            link.kill()
        self.limiter.kill()


@contextmanager
def assembled(workers: int, *, address: str = "", notes: tuple[str, ...] = ()) -> Iterator[RayCluster]:
    """The cluster that Ray is connected to, with a limiter; its actors end with the block.

    Raises UsageError where workers could not run.
    """
    try:
        check_residents(residents())
        limiter = RayLimiter(_limiter())
        ports = vital_ports()
    except ConnectionError:
        raise UsageError(f"--ray {address}: {CUT_OFF}; is it still there?") from None
    cluster = RayCluster(workers, limiter, address=address, notes=notes, ports=ports)
    try:
        yield cluster
    finally:
        cluster.dismiss()


def _limiter() -> Any:
    """Beside the head, and nowhere else: cut off from it, it would be of no use, and workers would stand still."""
    node = ray.get_runtime_context().get_node_id()
    limiter: Any = ray.remote(LimiterActor)
    return limiter.options(
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=MOST_ASKS,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    ).remote()
