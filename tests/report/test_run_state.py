"""What is said of a run on which nobody works."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run

from cts_async.errors import InputError
from cts_async.report.status import how_to_resume, idle_state, state_of_run

ROWS = [Row("a", score=40.0), Row("b", score=60.0), Row("c", error="judge"), Row("d", error="search/turn/1")]
WORKED = datetime(2026, 11, 21, 16, 2, 31).timestamp()


def run(folder: Path, *, n_expected: int = 4, session: dict[str, Any] | None = None, **fields: Any) -> Path:
    """A run of ROWS with one session, last written to at WORKED."""
    directory = made_run(folder, label="gpt-k1", rows=ROWS, n_expected=n_expected)
    manifest = json.loads((directory / "run.json").read_text())
    ended = {"start": "2026-11-21T16:00:00+00:00", "end": "2026-11-21T16:02:31+00:00"}
    manifest |= {"sessions": [ended | (session or {})], "command": "cts run -m gpt", **fields}
    (directory / "run.json").write_text(json.dumps(manifest))
    os.utime(directory / "results.jsonl", (WORKED, WORKED))
    return directory


def test_a_finished_run_says_what_it_came_to(tmp_path: Path) -> None:
    state = state_of_run(run(tmp_path))
    assert (state.state, state.n_done, state.n_scored, state.mean) == ("finished", 4, 2, 50.0)
    # s = 14.14, t(1) = 12.7062: 50 ± 127.1
    assert state.line(WORKED + 45) == (
        f"{tmp_path}/made-gpt-k1: finished, 4 of 4, 2 failed (rejected 2), mean 50.0 ± 127.1 by ernie, "
        "last written 16:02:31, 0:45 ago"
    )
    assert how_to_resume([state]) == []


def test_a_stopped_run_says_how_far_it_is_why_it_stopped_and_how_it_goes_on(tmp_path: Path) -> None:
    state = state_of_run(run(tmp_path, n_expected=10, session={"stopped": "the budget is spent"}))
    assert state.state == "stopped"
    line = state.line(WORKED + 100_000)
    assert "stopped at 4 of 10, 2 failed (rejected 2)" in line
    assert line.endswith("last written 2026-11-21 16:02; the budget is spent")
    assert how_to_resume([state, state]) == ["To resume, run the same command again: cts run -m gpt"]


def test_a_run_whose_session_has_no_end_was_killed(tmp_path: Path) -> None:
    directory = run(tmp_path, n_expected=10, session={"end": None})
    (directory / ".lock").write_text("process 4194305")
    state = state_of_run(directory)
    assert (state.state, state.reason, state.resumable) == ("killed", "", True)
    assert "killed at 4 of 10" in state.line(WORKED)


def test_unless_its_process_lives_and_has_not_said_anything_yet(tmp_path: Path) -> None:
    directory = run(tmp_path, n_expected=10, session={"end": None})
    (directory / ".lock").write_text(f"process {os.getpid()}")
    state = state_of_run(directory)
    assert (state.state, state.resumable) == ("working", False)
    assert "running, at 4 of 10" in state.line(WORKED)


def test_a_smoke_test_says_so_beside_its_mean(tmp_path: Path) -> None:
    state = state_of_run(run(tmp_path, embedded=True))
    assert "mean 50.0 ± 127.1 by ernie (smoke test)" in state.line(WORKED)
    assert state.as_json()["smoke_test"] is True


def test_a_run_that_has_just_begun_has_nothing_to_show(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[], n_expected=3)
    (directory / "results.jsonl").unlink()
    state = state_of_run(directory)
    assert state.line(0.0) == f"{directory}: stopped at 0 of 3"
    assert how_to_resume([state]) == ["To resume, run the same command again"]


@pytest.mark.parametrize("sessions", [None, [], "x", [7]])
def test_a_manifest_without_sessions_is_read_all_the_same(tmp_path: Path, sessions: object) -> None:
    assert state_of_run(run(tmp_path, n_expected=9, sessions=sessions)).state == "stopped"


def test_a_run_that_cannot_be_read_says_so_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    state = idle_state(tmp_path)
    assert (state.state, state.resumable) == ("damaged", False)
    assert "run.json: not a manifest" in state.line(0.0)
    assert (
        state_of_run(run(tmp_path / "runs", n_expected=9)).state
        == idle_state(tmp_path / "runs/made-gpt-k1").state
    )


def test_where_there_is_no_run_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json not found"):
        state_of_run(tmp_path)
