"""Which hosts a cluster has, and whether this package is there, in the same version."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cts_async import __version__
from cts_async.errors import UsageError

_RAY: Any = ray
"""Without what Ray says of types, which it does for half of its functions."""
CENSUS_S: Final = 10.0
"""How long nodes may take to answer; whoever is slower says it when a worker begins there."""


@dataclass(frozen=True, slots=True)
class Resident:
    """What a node has: versions of Python and of this package, None where it is missing."""

    host: str
    python: str
    ours: str | None


def check_residents(residents: Sequence[Resident]) -> None:
    """Raises UsageError that names every host on which a worker could not run, and what to do there."""
    wrong = [
        f"{one.host} has {'none' if one.ours is None else one.ours}"
        for one in residents
        if one.ours != __version__
    ]
    if wrong:
        raise UsageError(
            f"every node of the cluster needs cts-async {__version__}, as it is here: "
            f"{'; '.join(dict.fromkeys(wrong))} (in the Python that Ray runs on there): "
            f"pip install 'cts-async[ray]=={__version__}'"
        )
    here = platform.python_version_tuple()[:2]
    others = [f"{one.host} has {one.python}" for one in residents if tuple(one.python.split(".")[:2]) != here]
    if others:
        raise UsageError(
            f"every node of the cluster needs Python {'.'.join(here)}, as it is here: {'; '.join(others)}"
        )


def residents() -> list[Resident]:
    """All nodes that can have workers, each asked there; those that do not answer in time are left out."""
    ask = ray.remote(_asker())
    asked = [
        ask.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote()
        for node in _RAY.nodes()
        if node["Alive"] and node["Resources"].get("CPU")
    ]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=CENSUS_S) if asked else ([], [])
    found = []
    for one in answered:
        try:
            found.append(Resident(*ray.get(one)))
        except ray.exceptions.RayError:  # gone in the meantime
            continue
    return found


def _asker() -> Callable[[], tuple[str, str, str | None]]:
    """What is run on a node. It travels as code: what is in a module of ours would be looked for there."""

    def ask() -> tuple[str, str, str | None]:
        import platform

        try:
            from cts_async import __version__ as ours
        except ImportError:
            return socket.gethostname(), platform.python_version(), None
        return socket.gethostname(), platform.python_version(), ours

    return ask


def free_cpus() -> int:
    """CPUs that nobody has reserved."""
    return _cpus(_RAY.available_resources())


def all_cpus() -> int:
    """CPUs of all nodes."""
    return _cpus(_RAY.cluster_resources())


def _cpus(resources: Mapping[str, float]) -> int:
    return int(resources.get("CPU", 0))
