"""How many workers a cluster has, and what its user is told of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from cts_async.cluster import ray_cluster
from cts_async.cluster.ray_cluster import as_many_as_free, room_for
from cts_async.errors import UsageError


@pytest.mark.parametrize(("free", "workers"), [(1, 1), (7, 7), (256, 256), (3000, 256)])
def test_by_default_every_free_cpu_gets_a_worker_up_to_what_a_head_can_lead(free: int, workers: int) -> None:
    assert as_many_as_free(free, 4000, "auto") == workers


def test_a_cluster_without_a_free_cpu_is_no_place_to_start() -> None:
    with pytest.raises(
        UsageError, match=r"^--ray auto: none of the cluster's 8 CPUs is free; give --workers N"
    ):
        as_many_as_free(0, 8, "auto")


@pytest.mark.parametrize(
    ("workers", "free", "told"),
    [
        (8, 8, ()),
        (4, 8, ()),
        (6, 2, ("2 of 6 workers can start now: 6 of the cluster's 8 CPUs are taken",)),
        (64, 8, ("8 of 64 workers can run, each on a CPU of its own: the cluster has 8",)),
    ],
)
def test_who_asks_for_more_than_can_start_is_told_how_many_can(
    workers: int, free: int, told: tuple[str, ...]
) -> None:
    assert room_for(workers, free, 8) == told


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here")
def test_who_waits_for_ray_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[Any] = []

    @contextmanager
    def started(workers: int) -> Iterator[Any]:
        happened.append(workers)
        yield "the cluster"

    monkeypatch.setattr(ray_cluster, "_here", started)
    with ray_cluster.connect(ray_cluster.cluster_spec(None, 2), tell=happened.append) as cluster:
        assert cluster == "the cluster"
    assert happened == ["Ray starts on this machine", 2]
