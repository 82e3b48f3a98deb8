"""`--ray` and `--workers` as they are typed: every mistake is one line, and Ray is not started for it."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typed_commands import Cts, typed

from cts_async.cluster import ray_cluster

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here")
FILES = ("--gold", "gold.jsonl", "--candidates", "answers.jsonl", "--out", "judged")


@pytest.fixture
def cts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cts]:
    (tmp_path / "cts.toml").write_text(
        '[models.fake]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "fake-1"\n'
    )
    monkeypatch.chdir(tmp_path)
    with typed(monkeypatch, capsys) as cts:
        yield cts


def refused(cts: Cts, *words: str) -> str:
    """What a command says at last that ends with 2, and starts nothing."""
    done = cts("run", "--all", "fake", *words)
    assert (done.code, done.out) == (2, "")
    assert not Path("runs").exists()
    return done.err.splitlines()[-1]


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Have a package look as if it were not installed."""
    find = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> Any:
        return None if name == missing else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


def test_no_workers_are_too_few(cts: Cts) -> None:
    assert refused(cts, "--workers", "0").startswith("cts: Invalid value for '--workers': ")


@needs_ray
def test_a_machine_is_not_filled_with_workers_that_it_cannot_bear(
    cts: Cts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert refused(cts, "--workers", "17") == (
        "cts: --workers 17: at most 16 on this machine, which has 2 CPUs; more need a cluster (--ray)"
    )


@needs_ray
def test_an_address_has_to_be_one(cts: Cts) -> None:
    assert refused(cts, "--ray", "nowhere") == (
        "cts: --ray nowhere: write it as auto, HOST:6379 or ray://HOST:10001"
    )


@needs_ray
def test_a_cluster_that_is_not_there_is_told_at_once(cts: Cts) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert refused(cts, "--ray", address).startswith(
            f"cts: --ray {address}: Connection refused; is Ray running"
        )


def test_without_ray_it_is_said_how_to_get_it(cts: Cts, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ray")
    line = "cts: --ray and --workers need Ray, which is not installed: pip install 'cts-async[ray]'"
    assert refused(cts, "--workers", "2") == line
    assert refused(cts, "--ray", "auto") == line


@needs_ray
def test_without_what_rays_client_needs_it_is_said_how_to_get_that(
    cts: Cts, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "grpc")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"ray://127.0.0.1:{server.getsockname()[1]}"
        assert refused(cts, "--ray", address) == (
            f"cts: --ray {address}: such an address needs grpcio, which is not installed: "
            "pip install 'cts-async[ray]'"
        )


@needs_ray
def test_a_key_is_asked_of_those_who_call(cts: Cts, tmp_path: Path) -> None:
    """Of workers elsewhere it is their machines' matter, which say so (`test_needs`); here it is ours."""
    with (tmp_path / "cts.toml").open("a") as file:
        file.write('key_env = "NOBODYS_API_KEY"\n')
    assert "missing in the environment: NOBODYS_API_KEY" in refused(cts, "--workers", "2")
    assert "Connection refused; is Ray running" in refused(cts, "--ray", "127.0.0.1:9")


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="there it has no process of its own")
@pytest.mark.parametrize("words", [("run", "--all", "fake"), ("judge", "--judge", "fake", *FILES)])
def test_when_ray_ends_its_driver_somebody_says_so_and_that_nothing_is_lost(
    cts: Cts, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    @contextmanager
    def ending(*asked: object, **told: object) -> Iterator[None]:
        os._exit(1)  # as Ray does it
        yield

    Path("gold.jsonl").write_text(
        '{"fused_query": "q", "gold": {"nuggets": [{"id": "N1", "text": "n", "weight": 1}]}}\n'
    )
    Path("answers.jsonl").write_text('{"fused_query": "q", "answer": "a"}\n')
    monkeypatch.setattr(ray_cluster, "connect", ending)
    done = cts(*words, "--workers", "2")
    assert (done.code, done.out) == (75, "")
    assert done.err.splitlines()[-1] == (
        "cts: the process that led the workers ended with exit code 1, perhaps because Ray itself has ended; "
        "nothing is lost, the same command resumes"
    )


@pytest.mark.parametrize("command", ["plan", "converse", "gold"])
def test_only_what_runs_on_a_cluster_offers_one(cts: Cts, command: str) -> None:
    done = cts(command, "--workers", "2")
    assert done.code == 2
    assert done.err == (
        "cts: No such option: --workers; only cts run and cts judge work in several processes "
        f"(see cts {command} --help)\n"
    )
