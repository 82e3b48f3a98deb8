"""Many workers give the files that one process gives, whoever is lost on the way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from small_cluster import Cluster
from virtual_time import run_virtual


def alone(tmp_path: Path, **options: object) -> Cluster:
    """What one process makes of the same jobs."""
    folder = tmp_path / "alone"
    folder.mkdir()
    cluster = Cluster(folder, **options)  # type: ignore[arg-type]
    run_virtual(cluster.run_alone)
    return cluster


def fresh(tmp_path: Path, **options: object) -> Cluster:
    folder = tmp_path / "cluster"
    folder.mkdir()
    return Cluster(folder, **options)  # type: ignore[arg-type]


def assert_same_files(cluster: Cluster, other: Cluster) -> None:
    assert cluster.results() == other.results()
    assert cluster.judgments() == other.judgments()
    assert cluster.keys() == other.keys(), "every step once"


def test_workers_give_the_files_of_one_process(tmp_path: Path) -> None:
    cluster = fresh(tmp_path)
    run_virtual(lambda: cluster.run(3))
    assert_same_files(cluster, alone(tmp_path))
    assert set(cluster.world.begun.values()) == {1}
    assert not list(cluster.folder.glob("shards*")), "nothing is left of the shards"
    assert len(Counter(link.name for link in cluster.links)) == 3
