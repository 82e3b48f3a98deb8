"""`--ray` and `--workers` as they are typed: every mistake is one line, and Ray is not started for it."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typed_commands import Cts, typed

from cts_async.cluster.ray_cluster import read_address
from cts_async.errors import UsageError

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


@needs_ray
def test_what_cannot_be_is_refused(cts: Cts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert refused(cts, "--workers", "0").startswith("cts: Invalid value for '--workers': ")
    assert refused(cts, "--workers", "17") == (
        "cts: --workers 17: at most 16 on this machine (8 for each CPU); more need a cluster (--ray)"
    )
    assert refused(cts, "--ray", "nowhere") == (
        "cts: --ray nowhere: write it as auto, HOST:6379 or ray://HOST:10001"
    )


@needs_ray
def test_unreachable_cluster_is_reported_at_once(cts: Cts) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert refused(cts, "--ray", address).startswith(
            f"cts: --ray {address}: Connection refused; is Ray running"
        )


def test_missing_ray_is_reported_with_how_to_install_it(cts: Cts, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ray")
    line = "cts: --ray and --workers need Ray, which is not installed: pip install 'cts-async[ray]'"
    assert refused(cts, "--workers", "2") == line
    assert refused(cts, "--ray", "auto") == line


@needs_ray
def test_missing_key_is_reported_for_local_workers_only(cts: Cts, tmp_path: Path) -> None:
    """Of workers elsewhere it is their machines' matter, which say so (`test_work`); here it is ours."""
    with (tmp_path / "cts.toml").open("a") as file:
        file.write('key_env = "NOBODYS_API_KEY"\n')
    assert "missing in the environment: NOBODYS_API_KEY" in refused(cts, "--workers", "2")
    assert "Connection refused; is Ray running" in refused(cts, "--ray", "127.0.0.1:9")


@pytest.mark.parametrize("command", ["plan", "converse", "gold"])
def test_commands_without_cluster_refuse_workers(cts: Cts, command: str) -> None:
    done = cts(command, "--workers", "2")
    assert done.code == 2
    assert done.err == (
        "cts: No such option: --workers; only cts run and cts judge can use several processes "
        f"(see cts {command} --help)\n"
    )


@pytest.mark.parametrize(
    ("text", "named", "address"),
    [
        ("auto", "", ("auto", "", 0)),
        ("auto", "head:6379", ("head:6379", "head", 6379)),
        ("10.0.0.1:6379", "head:1", ("10.0.0.1:6379", "10.0.0.1", 6379)),
        ("ray://head:10001", "", ("ray://head:10001", "head", 10001)),
        ("[::1]:6379", "", ("[::1]:6379", "::1", 6379)),
    ],
)
def test_addresses_are_read(text: str, named: str, address: tuple[str, str, int]) -> None:
    assert read_address(text, {"RAY_ADDRESS": named}) == address


@pytest.mark.parametrize("text", ["head", "head:x", "http://head:1", "head:6379/x", "me@head:6379", ""])
def test_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as auto, HOST:6379 or ray://HOST:10001"):
        read_address(text, {})
    with pytest.raises(UsageError, match="RAY_ADDRESS is http://x"):
        read_address("auto", {"RAY_ADDRESS": "http://x"})
