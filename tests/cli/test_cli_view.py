"""`cts view`: what it prints, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from cts_async.errors import UsageError
from cts_async.report.viewer.serve import MORE_PORTS, PORT, listening, viewed_folder

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_its_address_and_ends_quietly_on_ctrl_c(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cts_async.cli.main", "view", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"{tmp_path}: http://127.0.0.1:")
    address = line.split()[1]
    with urllib.request.urlopen(f"{address}api/runs") as answer:
        assert b'"runs":[]' in answer.read()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0


def test_a_port_that_is_taken_is_said_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UsageError, match=f"--port {port}: somebody listens there already; choose another"
        ):
            listening(port)


def test_without_a_port_the_next_free_one_is_taken() -> None:
    first, second = listening(None), listening(None)
    try:
        ports = [sock.getsockname()[1] for sock in (first, second)]
        assert PORT <= ports[0] < ports[1] < PORT + MORE_PORTS
        assert first.getsockname()[0] == "127.0.0.1"
    finally:
        first.close()
        second.close()


def test_a_wrong_folder_is_said_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, problem in [
        (tmp_path / "none", "no such folder"),
        (file, "is no folder"),
        (loop, "no such folder"),
    ]:
        with pytest.raises(UsageError, match=problem):
            viewed_folder(path)
