"""What becomes of a wrong Ray address: the process that tries it stands in for Ray here."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.cluster import ray_join
from cts_async.cluster.ray_address import read_address
from cts_async.cluster.ray_join import check_cluster, explained
from cts_async.errors import UsageError


def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, address: str = "head:6379") -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(code)
    monkeypatch.setattr(ray_join, "PROBE", probe)
    check_cluster(read_address(address))


def test_a_cluster_that_can_be_joined_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried(monkeypatch, tmp_path, "print('whatever Ray says'); print('{}')")


@pytest.mark.parametrize(
    ("error", "said", "told"),
    [
        (
            "ConnectionError",
            "Could not find any running Ray instance. Please",
            "no Ray runs on this machine: ray start",
        ),
        ("AuthenticationError", "InvalidAuthToken", "it wants its token: RAY_AUTH_MODE=token, and"),
        (
            "RuntimeError",
            "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.11.7\nThis process",
            "all machines need the same Ray and Python. The cluster was started with: Ray: 2.9.0 Python: 3.11.7 This",
        ),
    ],
)
def test_what_ray_says_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: str, said: str, told: str
) -> None:
    code = f"import json; print(json.dumps({{'error': {error!r}, 'text': {said!r}}}))"
    with pytest.raises(UsageError) as raised:
        tried(monkeypatch, tmp_path, code)
    assert str(raised.value).startswith(f"--ray head:6379: {told}")
    assert "\n" not in str(raised.value)


def test_a_ray_that_ends_its_process_ends_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It does where this machine is no node of the cluster."""
    code = "import os, sys; print('Failed to connect to socket at', file=sys.stderr, flush=True); os.abort()"
    with pytest.raises(UsageError, match="this machine is no node of that cluster: ray start --address"):
        tried(monkeypatch, tmp_path, code)


def test_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ray_join, "JOIN_S", 0.2)
    with pytest.raises(UsageError, match=r"^--ray head:6379: not joined within 14 s: .*ray status"):
        tried(monkeypatch, tmp_path, "import time; time.sleep(60)")


def test_rays_client_server_is_not_tried_beforehand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To leave it and to come again at once makes some of its versions fail."""
    tried(monkeypatch, tmp_path, "raise SystemExit(1)", "ray://head:10001")
    said = explained(read_address("ray://head:10001"), "no answer within 14 s")
    assert said.startswith(
        "--ray ray://head:10001: not joined within 14 s: is that the port of its client server"
    )
