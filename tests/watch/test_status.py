"""The state of runs from another shell."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from made_live import cluster, lane, live, part, worker
from made_runs import Row, made_run

from cts_async.errors import InputError
from cts_async.tables.output import unbroken
from cts_async.watch.live import (
    LIVE,
    by_process,
    how_to_resume,
    idle_state,
    live_of,
    run_directories,
    state_of_run,
    write_live,
)


def test_run_folder_and_pattern_name_runs(tmp_path: Path) -> None:
    orig = made_run(tmp_path / "runs", label="orig", rows=[])
    gpt = made_run(tmp_path / "runs", label="gpt-k1", rows=[])
    (tmp_path / "runs" / "notes").mkdir()
    assert run_directories([tmp_path / "runs"]) == [gpt, orig]
    assert run_directories([orig]) == [orig]
    assert run_directories([tmp_path / "runs" / "*-k1"]) == [gpt]
    assert run_directories([orig, tmp_path / "runs"]) == [orig, gpt]


@pytest.mark.parametrize("word", ["nowhere", "no*where", "."])
def test_word_without_a_run_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(InputError, match="no such run or folder|no run found"):
        run_directories([tmp_path / word])


def test_live_json_of_another_version_is_ignored(tmp_path: Path) -> None:
    shared = live([part("a")], time=time.time(), **cluster([worker("w1")], 2, "ray://head:10001"))
    write_live(tmp_path, shared)
    assert live_of(tmp_path) == shared
    (tmp_path / LIVE).write_text(json.dumps({**shared, "parts": [{}]}))
    assert live_of(tmp_path) is None


def test_workers_of_a_process_are_those_of_its_latest_file() -> None:
    one = live([part("a", 4)], time=1001.0, **cluster([worker("w1")], 2))
    other = live([part("b", 2)], time=1002.0, **cluster([worker("w1"), worker("w2")], 2))
    (together,) = by_process([other, one])
    assert [one["name"] for one in together["workers"]] == ["w1", "w2"]


def test_directories_of_one_process_are_combined() -> None:
    providers = [lane("gpt")]
    one = live([part("a", 4, calls=7, eta_s=60.0)], providers, eta_s=60.0, time=1001.0)
    other = live([part("b", 2, calls=3, eta_s=90.0)], providers, eta_s=90.0, time=1002.0)
    stranger = live([part("c", 1)], providers, pid=1)
    ours, theirs = by_process([one, stranger, other])
    assert [one["name"] for one in ours["parts"]] == ["a", "b"]
    assert (ours["n_done"], ours["n_expected"], ours["calls"], ours["eta_s"]) == (6, 20, 10, 90.0)
    assert (ours["time"], len(ours["lanes"])) == (1002.0, 1)
    assert [one["name"] for one in theirs["parts"]] == ["c"]


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


def test_finished_run_shows_its_result(tmp_path: Path) -> None:
    state = state_of_run(run(tmp_path))
    assert (state.state, state.n_done, state.n_scored, state.mean) == ("finished", 4, 2, 50.0)
    # s = 14.14, t(1) = 12.7062; an interval is shown from 5 scores on
    assert (state.mean_low, state.mean_high) == pytest.approx((-77.1, 177.1), abs=0.05)
    assert state.line(WORKED + 45) == (
        f"{tmp_path}/made-gpt-k1: finished, 4 of 4, 2 failed (rejected 2), mean 50.0 by ernie, "
        "last written 16:02:31, 0:45 ago"
    )
    assert "mean 50.0 ± 127.1 by ernie" in replace(state, n_scored=5).line(WORKED + 45)
    assert how_to_resume([state]) == []


def test_stopped_run_shows_progress_reason_and_how_to_resume(tmp_path: Path) -> None:
    state = state_of_run(run(tmp_path, n_expected=10, session={"stopped": "the budget is spent"}))
    assert state.state == "stopped"
    line = state.line(WORKED + 100_000)
    assert "stopped at 4 of 10, 2 failed (rejected 2)" in line
    assert line.endswith("last written 2026-11-21 16:02; the budget is spent")
    assert how_to_resume([state, state]) == [
        f"To resume, run the same command again: {unbroken('cts run -m gpt')}"
    ]


@pytest.mark.parametrize(
    ("lock", "name", "resumable", "words"),
    [
        ("process 4194305", "killed", True, "killed at 4 of 10"),
        ("", "killed", True, "killed at 4 of 10"),
        (f"process {os.getpid()}", "working", False, "running, at 4 of 10"),
    ],
    ids=["another process", "no process", "this process"],
)
def test_run_whose_session_has_no_end_is_running_or_was_killed(
    tmp_path: Path, lock: str, name: str, resumable: bool, words: str
) -> None:
    directory = run(tmp_path, n_expected=10, session={"end": None})
    (directory / ".lock").write_text(lock)
    state = state_of_run(directory)
    assert (state.state, state.reason, state.resumable) == (name, "", resumable)
    assert words in state.line(WORKED)


def test_unreadable_run_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    state = idle_state(tmp_path)
    assert (state.state, state.resumable) == ("damaged", False)
    assert "run.json: not a manifest" in state.line(0.0)
    assert (
        state_of_run(run(tmp_path / "runs", n_expected=9)).state
        == idle_state(tmp_path / "runs/made-gpt-k1").state
    )
