"""`cts view`: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.errors import UsageError
from cts_async.viewer.app import MORE_PORTS, PORT, listening, viewed_folder

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def viewing(folder: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process, and its address; killed if it is still there in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cts_async.cli.main", "view", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"{folder}: http://127.0.0.1:")
        yield process, line.split()[1]
    finally:
        process.kill()
        process.wait()


def test_view_prints_its_address_and_ends_quietly_on_ctrl_c(tmp_path: Path) -> None:
    with viewing(tmp_path, SSH_CONNECTION="10.0.0.1 5000 10.0.0.2 22") as (process, address):
        with urllib.request.urlopen(f"{address}api/runs") as answer:
            assert b'"runs":[]' in answer.read()
        port = address.rstrip("/").rpartition(":")[2]
        assert process.stdout is not None
        assert f"ssh -L {port}:127.0.0.1:{port} HOST" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0


@pytest.mark.parametrize(("name", "size"), [("steps.jsonl", 200 << 20), ("results.jsonl", 1 << 40)])
def test_huge_sparse_file_does_not_block_replies_or_sigterm(tmp_path: Path, name: str, size: int) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    with (run / name).open("ab") as file:
        file.truncate(size)
        file.seek(size)
        file.write(b"\n")
    with viewing(tmp_path) as (process, address):
        with urllib.request.urlopen(f"{address}api/steps?run={run.name}&id=a", timeout=20) as answer:
            assert json.load(answer)["steps"] == []
        for _ in range(5):
            with urllib.request.urlopen(f"{address}api/runs", timeout=20) as answer:
                assert [row["n_done"] for row in json.load(answer)["runs"]] == [1]
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0


def test_default_port_is_the_next_free_one_and_a_port_in_use_is_refused() -> None:
    with listening(None) as first, listening(None) as second:
        ports = [sock.getsockname()[1] for sock in (first, second)]
        assert PORT <= ports[0] < ports[1] < PORT + MORE_PORTS
        assert first.getsockname()[0] == "127.0.0.1"
        with pytest.raises(UsageError, match=f"--port {ports[0]}: already in use; choose another"):
            listening(ports[0])


def test_unusable_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, problem in [
        (tmp_path / "none", "no such folder"),
        (file, "not a folder"),
        (loop, "no such folder"),
    ]:
        with pytest.raises(UsageError, match=problem):
            viewed_folder(path)
