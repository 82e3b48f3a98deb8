"""`cts status`: runs seen from another shell, while they are active and afterwards."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_provider import provider_process
from made_runs import Row, made_run
from real_run import RealRun

from cts_async.cli.status import status
from cts_async.engine.events import JobEnded, JobsFound, WorkersInUse, WorkerStatus
from cts_async.errors import InputError, UsageError
from cts_async.watch.live import LIVE, read_live, write_live
from cts_async.watch.progress import Progress, RunGroup

Capture = pytest.CaptureFixture[str]
Sleeps = Callable[[], None]


def active_run(folder: Path, workers: list[WorkerStatus] | None = None) -> Path:
    """A run of ten, four of them done, on which this process seems to work."""
    directory = made_run(folder, label="gpt-k1", rows=[Row("a", score=50.0)], n_expected=10)
    progress = Progress([RunGroup(directory.name, 10, (directory,))])
    progress(JobsFound(directory.name, 3))
    progress(JobEnded(directory.name, "q4", None))
    if workers is not None:
        progress(WorkersInUse(lambda: workers, n_workers=2, address="ray://head:10001"))
    write_live(directory, progress.live())
    return directory


def as_json(*paths: Path, capsys: Capture) -> list[dict[str, Any]]:
    status(list(paths), as_json=True)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sleeps], None]:
    """Makes standard output a terminal of 80 columns; its argument is called whenever a follower sleeps."""

    def made(sleeps: Sleeps) -> None:
        for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(time, "sleep", lambda seconds: sleeps())

    return made


def test_without_a_terminal_it_prints_plain_lines_once(tmp_path: Path, capsys: Capture) -> None:
    active_run(tmp_path)
    made_run(tmp_path, label="orig", rows=[Row("a", score=50.0)])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    status([tmp_path])
    running, totals, broken, orig = capsys.readouterr().out.splitlines()
    assert running.startswith("made-gpt-k1  ━")
    assert running.endswith("─  4/10")
    assert totals.startswith("0 calls, 0 tokens, ")
    assert broken.startswith(f"{tmp_path}/broken/run.json: not a manifest")
    assert orig.startswith(f"{tmp_path}/made-orig: finished, 1 of 1, mean 50.0 by ernie, last written ")


def test_json_has_active_and_stopped_runs(tmp_path: Path, capsys: Capture) -> None:
    active_run(tmp_path)
    made_run(tmp_path, label="orig", rows=[Row("a", score=50.0)], n_expected=2)
    gpt, orig = as_json(tmp_path, capsys=capsys)
    assert (gpt["run"], gpt["state"], gpt["live"]["n_done"]) == (f"{tmp_path}/made-gpt-k1", "running", 4)
    assert (orig["state"], orig["n_done"], orig["n_expected"], orig["live"]) == ("stopped", 1, 2, None)


def test_workers_of_a_cluster_are_listed(tmp_path: Path, capsys: Capture) -> None:
    workers = [
        WorkerStatus("w1", "node-a", 7, "working", in_hand=3, ended=4),
        WorkerStatus("w2", "node-b", 8, "lost", note="its process died"),
    ]
    directory = active_run(tmp_path, workers)
    status([directory])
    _, everyone, _, first, second, _ = capsys.readouterr().out.splitlines()
    assert everyone == "1 of 2 workers on 1 host, 1 lost; 3 tasks in flight; ray://head:10001"
    assert first.split() == ["w1", "node-a", "3", "4", "0", "working"]
    assert second.endswith("lost: its process died")
    live = as_json(directory, capsys=capsys)[0]["live"]
    assert (live["workers_wanted"], live["cluster"]) == (2, "ray://head:10001")
    assert [(one["name"], one["state"]) for one in live["workers"]] == [("w1", "working"), ("w2", "lost")]


def test_terminal_is_redrawn_until_the_run_ends(
    tmp_path: Path, capsys: Capture, terminal: Callable[[Sleeps], None]
) -> None:
    directory, looks = active_run(tmp_path), 0

    def sleeps() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            (directory / LIVE).unlink()

    terminal(sleeps)
    status([directory])
    assert looks == 2
    drawn, _, ended = capsys.readouterr().out.rpartition("\x1b[?1049l")  # back from the other screen
    assert "━━━━" in drawn
    assert "4/10" in drawn
    assert "stopped at 1 of 10" in ended
    assert "To resume, run the same command again" in ended


def test_ctrl_c_leaves_the_run_alone_and_once_does_not_wait(
    tmp_path: Path, capsys: Capture, terminal: Callable[[Sleeps], None]
) -> None:
    directory = active_run(tmp_path)

    def sleeps() -> None:
        raise KeyboardInterrupt

    terminal(sleeps)
    status([directory])
    assert read_live(directory) is not None
    assert capsys.readouterr().out.endswith("\x1b[?25h\x1b[?1049l")  # the cursor and the screen are back
    status([directory], once=True)
    assert "\x1b[?1049l" not in capsys.readouterr().out


def test_unusable_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    with pytest.raises(InputError, match="no such run or folder"):
        status([tmp_path / "nowhere"])
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UsageError, match="not a manifest"):
        status([tmp_path])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no folder runs/"):
        status()
    made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=50.0)])
    status()
    assert capsys.readouterr().out.startswith("runs/made-orig: finished, 1 of 1")


def test_killed_run_is_recognised_and_a_finished_one_leaves_no_live_file(
    tmp_path: Path, capsys: Capture
) -> None:
    run = RealRun(tmp_path, ("--all", "fake", "-k", "1", "--limit", "2", "--no-orig", "--name", "r", "-q"))
    with provider_process(latency_s=0.5) as provider:
        run.configure(provider.url)
        process = run.start()
        deadline = time.monotonic() + 20
        while not list(tmp_path.glob(f"runs/*/{LIVE}")) and time.monotonic() < deadline:
            time.sleep(0.02)
        (directory,) = run.directories()
        (found,) = as_json(directory, capsys=capsys)
        assert (found["state"], found["live"]["pid"], found["live"]["n_expected"]) == (
            "running",
            process.pid,
            2,
        )
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert (directory / LIVE).exists()
        (found,) = as_json(directory, capsys=capsys)
        assert (found["state"], found["n_expected"]) == ("killed", 2)
        assert found["command"].startswith("cts run --all fake")
        provider.set(latency_s=0.0)
        again = run.fork()
        again.communicate(timeout=20)
        assert again.returncode == 0
    assert not (directory / LIVE).exists()
    (found,) = as_json(directory, capsys=capsys)
    assert (found["state"], found["n_done"], found["n_scored"]) == ("finished", 2, 2)
