"""Runs over a real Ray on this machine, with a worker killed on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from ray_sessions import N
from recorded_work import PLACES

from cts_async.engine.journal import read_records

HERE = Path(__file__).parent
LABELS = {f"i{i}/{step}" for i in range(N) for step in ("a", "b")}


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_sessions_over_one_ray_lose_nothing_and_leave_nothing() -> None:
    """A single test, since starting Ray takes seconds."""
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        folder = Path(temporary, "runs")
        folder.mkdir()
        path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        environ = {"PYTHONPATH": path, "TMPDIR": temporary, "GIVEN_API_KEY": "1", "OTHER_API_KEY": "2"}
        done = subprocess.run(
            [sys.executable, HERE / "ray_sessions.py", folder],
            capture_output=True,
            text=True,
            env=os.environ | environ,
            timeout=100,
        )
        assert (done.returncode, done.stderr) == (0, "")
        ended = json.loads(done.stdout)
        assert os.listdir(temporary) == ["runs"], "nothing of Ray is left"

        # A worker that cannot work says why before anything is done.
        assert ended["no key"]["error"] == "UsageError: no NOBODY_HAS_THIS in the environment"
        assert (folder / "no key" / "log").read_text() == ""

        check_session_with_a_killed_worker(folder / "worker killed", ended["worker killed"])

        # No other user can reach the sockets of Ray.
        assert ended["sockets"]["n"] >= 1
        assert ended["sockets"]["entered"] == []


def check_session_with_a_killed_worker(folder: Path, ended: dict[str, object]) -> None:
    assert ended["error"] == ""
    results = [line["id"] for line in read_records(folder / "results.jsonl")]
    assert sorted(results) == sorted(f"i{i}" for i in range(N))
    assert Counter(record["response"] for record in read_records(folder / "steps.jsonl")) == Counter(LABELS)

    # Only what was in flight is done again, within the limit of all workers together.
    assert "(its process died)" in str(ended["notices"])
    logged = [line.split() for line in (folder / "log").read_text().splitlines()]
    begun = [label for what, label, _ in logged if what == "begun"]
    assert set(begun) == LABELS
    assert len(begun) <= len(LABELS) + PLACES
    lost = len(begun) - sum(what == "done" for what, _, _ in logged)
    at_once = most = 0
    for what, _, _ in logged:
        at_once += 1 if what == "begun" else -1
        most = max(most, at_once)
    assert most <= PLACES + lost

    # Workers get the keys that are needed, and no other variables.
    names = set((folder / "environment").read_text().split())
    assert {"GIVEN_API_KEY", "PATH"} <= names
    assert not {"OTHER_API_KEY", "PYTEST_CURRENT_TEST", "PWD"} & names
