"""Runs over a real Ray on this machine, with processes killed on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ray_sessions import N
from recorded_work import PLACES

from cts_async.engine.journal import read_jsonl

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here")
HERE = Path(__file__).parent
LABELS = {f"i{i}/{step}" for i in range(N) for step in ("a", "b")}


class Ran(NamedTuple):
    folder: Path
    ended: dict[str, Any]
    err: str
    left: list[str]
    """What is left of Ray in the temporary directory."""


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    """All sessions, over one Ray, in a process whose whole output is looked at."""
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        folder = Path(temporary, "runs")
        folder.mkdir()
        path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, HERE / "ray_sessions.py", folder],
            capture_output=True,
            text=True,
            env=os.environ
            | {"PYTHONPATH": path, "TMPDIR": temporary, "GIVEN_API_KEY": "1", "OTHER_API_KEY": "2"},
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        yield Ran(folder, json.loads(done.stdout), done.stderr, os.listdir(temporary))


def logged(ran: Ran, session: str) -> list[tuple[str, str, str]]:
    lines = (ran.folder / session / "log").read_text().splitlines()
    return [(what, label, pid) for what, label, pid in map(str.split, lines)]


def begun(ran: Ran, session: str) -> Counter[str]:
    return Counter(label for what, label, _ in logged(ran, session) if what == "begun")


def most_at_once(ran: Ran, session: str) -> int:
    now = most = 0
    for what, _, _ in logged(ran, session):
        now += 1 if what == "begun" else -1
        most = max(most, now)
    return most


@pytest.mark.parametrize("session", ["worker killed", "limiter killed"])
def test_every_piece_has_its_result_and_every_step_is_on_record_once(ran: Ran, session: str) -> None:
    folder = ran.folder / session
    assert ran.ended[session]["error"] == ""
    assert sorted(line["id"] for line in read_jsonl(folder / "results.jsonl")) == sorted(
        f"i{i}" for i in range(N)
    )
    assert Counter(record["response"] for record in read_jsonl(folder / "steps.jsonl")) == Counter(LABELS)


def test_workers_share_a_limit_whatever_becomes_of_the_limiter(ran: Ran) -> None:
    assert most_at_once(ran, "limiter killed") <= PLACES
    assert begun(ran, "limiter killed") == Counter(LABELS), "nothing is done twice"
    assert not any("lost" in text for text in ran.ended["limiter killed"]["notices"])


def test_of_a_killed_workers_work_only_what_was_in_flight_is_done_again(ran: Ran) -> None:
    (notice,) = [text for text in ran.ended["worker killed"]["notices"] if text.startswith("lost worker")]
    assert "(its process died)" in notice
    assert begun(ran, "worker killed").total() <= len(LABELS) + PLACES
    assert begun(ran, "worker killed").keys() == LABELS


def test_a_worker_that_cannot_work_says_why_before_anything_is_done(ran: Ran) -> None:
    assert ran.ended["no key"]["error"] == "UsageError: no NOBODY_HAS_THIS in the environment"
    assert logged(ran, "no key") == []


def test_workers_get_the_keys_that_are_needed_and_no_other_variables(ran: Ran) -> None:
    names = set((ran.folder / "worker killed" / "environment").read_text().split())
    assert {"GIVEN_API_KEY", "PATH"} <= names
    assert not {"OTHER_API_KEY", "PYTEST_CURRENT_TEST", "PWD"} & names


def test_no_other_user_gets_at_the_sockets_of_ray(ran: Ran) -> None:
    assert ran.ended["sockets"]["n"] >= 1
    assert ran.ended["sockets"]["entered"] == []


def test_nothing_of_ray_is_seen_nor_left_behind(ran: Ran) -> None:
    assert ran.err == ""
    assert ran.left == ["runs"]
