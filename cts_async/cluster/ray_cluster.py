"""A cluster for the time of a run: Ray found or started, asked what it has, and left as it was.

Nothing here imports Ray before its environment is as it should be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cts_async.cluster.ray_address import Address, address_meant, check_listening
from cts_async.cluster.ray_quiet import environment, own_environment, quiet_environment
from cts_async.errors import UsageError

if TYPE_CHECKING:
    from cts_async.cluster.ray_hire import RayCluster

MOST_WORKERS: Final = 256
"""By default; a head has less than 4 ms a second for each of them."""
MOST_PER_CPU: Final = 8
"""Of this machine: more would get no more done, and each is a process of some 100 MB."""


def _to_nobody(said: str) -> None:
    """What is done is of interest to somebody who waits for it; others need not listen."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster that can be tried."""

    address: Address | None
    """None for a Ray of this machine alone."""
    workers: int | None
    """None for as many as the cluster has free CPUs; a machine alone has a number."""


def cluster_spec(address: str | None, workers: int | None) -> ClusterSpec:
    """What somebody has typed, as far as it can be looked at without Ray.

    Raises UsageError where Ray is not installed, what is typed is no address, nobody listens there, or this machine
    cannot bear so many workers.
    """
    _check_installed()
    if address is None:
        workers = 1 if workers is None else workers
        check_room_here(workers, os.cpu_count() or 1)
        return ClusterSpec(None, workers)
    where = address_meant(address, os.environ)
    check_listening(where)
    _check_client(where)
    return ClusterSpec(where, workers)


@contextmanager
def connect(spec: ClusterSpec, *, tell: Callable[[str], None] = _to_nobody) -> Iterator[RayCluster]:
    """A cluster with a limiter, ready to hire workers; what was started for it ends with the block.

    `tell` hears what takes seconds, before it begins. To be called in the main thread, before an event loop runs.
    Raises UsageError where there is no cluster, or no place for a worker in it.
    """
    if spec.address is None:
        tell("Ray starts on this machine")
        with environment(own_environment()), _here(spec.workers or 1) as cluster:
            yield cluster
    else:
        tell(f"joining Ray ({spec.address.text})")
        with environment(quiet_environment()), _there(spec.address, spec.workers) as cluster:
            yield cluster


@contextmanager
def _here(workers: int) -> Iterator[RayCluster]:
    from cts_async.cluster.ray_hire import assembled
    from cts_async.cluster.ray_start import started_here

    with started_here(workers), assembled(workers) as cluster:
        yield cluster


@contextmanager
def _there(address: Address, workers: int | None) -> Iterator[RayCluster]:
    from cts_async.cluster.ray_census import all_cpus, free_cpus
    from cts_async.cluster.ray_hire import assembled
    from cts_async.cluster.ray_join import check_cluster
    from cts_async.cluster.ray_start import joined

    check_cluster(address)
    with joined(address):
        free, cpus = free_cpus(), all_cpus()
        wanted = as_many_as_free(free, cpus, address.text) if workers is None else workers
        with assembled(wanted, address=address.text, notes=room_for(wanted, free, cpus)) as cluster:
            yield cluster


def check_room_here(workers: int, cpus: int) -> None:
    """Raises UsageError for more workers than a machine with so many CPUs can bear."""
    if workers > (most := MOST_PER_CPU * cpus):
        raise UsageError(
            f"--workers {workers}: at most {most} on this machine, which has {cpus} CPU{'s' if cpus > 1 else ''}; "
            "more need a cluster (--ray)"
        )


def as_many_as_free(free: int, cpus: int, address: str) -> int:
    """Workers where no number was asked for. Raises UsageError where there is room for none."""
    if free < 1:
        raise UsageError(
            f"--ray {address}: none of the cluster's {cpus} CPUs is free; "
            "give --workers N to wait for so many, or come back later"
        )
    return min(free, MOST_WORKERS)


def room_for(workers: int, free: int, cpus: int) -> tuple[str, ...]:
    """What the user should know of a cluster with so many CPUs, some of them free: nothing where all is well."""
    if workers <= free:
        return ()
    if workers <= cpus:
        return (
            f"{free} of {workers} workers can start now: {cpus - free} of the cluster's {cpus} CPUs are taken",
        )
    return (f"{cpus} of {workers} workers can run, each on a CPU of its own: the cluster has {cpus}",)


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise UsageError("--ray and --workers need Ray, which is not installed: pip install 'cts-async[ray]'")


def _check_client(address: Address) -> None:
    from importlib.util import find_spec

    if address.client and find_spec("grpc") is None:
        raise UsageError(
            f"--ray {address.text}: such an address needs grpcio, which is not installed: "
            "pip install 'cts-async[ray]'"
        )
