"""`cts status`: runs seen from another shell, while they go on and afterwards."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_provider import provider_process
from made_runs import Row, made_run
from real_run import RealRun

from cts_async.cli.status import status
from cts_async.engine.events import JobEnded, JobsFound, WorkersInUse, WorkerStatus
from cts_async.errors import InputError, UsageError
from cts_async.report.live import LIVE, read_live, write_live
from cts_async.report.progress import Progress, RunGroup


def going_on(folder: Path, label: str) -> Path:
    """A run of ten that says it goes on, in the name of this process."""
    directory = made_run(folder, label=label, rows=[Row("a", score=50.0)], n_expected=10)
    doing = Progress([RunGroup(directory.name, 10, (directory,))])
    doing(JobsFound(directory.name, 3))
    doing(JobEnded(directory.name, "q4", None, None))
    write_live(directory, doing.live())
    return directory


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Makes standard output a terminal of 80 columns; what it is given happens whenever a follower sleeps."""

    def made(sleeps: Callable[[], None]) -> None:
        for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(time, "sleep", lambda seconds: sleeps())

    return made


def test_where_there_is_no_terminal_it_looks_once_in_plain_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    going_on(tmp_path, "gpt-k1")
    made_run(tmp_path, label="orig", rows=[Row("a", score=50.0)])
    status([tmp_path])
    running, part, orig = capsys.readouterr().out.splitlines()
    assert running.endswith(": 4/10 instances, 0 calls, 0 tokens")
    assert part == "made-gpt-k1: 4/10"
    assert orig.startswith(f"{tmp_path}/made-orig: finished, 1 of 1, mean 50.0 by ernie, last written ")


def test_json_has_what_goes_on_and_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    going_on(tmp_path, "gpt-k1")
    made_run(tmp_path, label="orig", rows=[Row("a", score=50.0)], n_expected=2)
    status([tmp_path], as_json=True)
    gpt, orig = json.loads(capsys.readouterr().out)
    assert (gpt["run"], gpt["state"], gpt["live"]["n_done"]) == (f"{tmp_path}/made-gpt-k1", "running", 4)
    assert (orig["state"], orig["n_done"], orig["n_expected"], orig["live"]) == ("stopped", 1, 2, None)


def test_of_a_run_on_a_cluster_its_workers_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = made_run(tmp_path, label="gpt-k1", rows=[], n_expected=10)
    doing = Progress([RunGroup(directory.name, 10, (directory,))])
    workers = [
        WorkerStatus("w1", "node-a", 7, "working", in_hand=3, ended=4),
        WorkerStatus("w2", "node-b", 8, "lost", note="its process died"),
    ]
    doing(WorkersInUse(lambda: workers, wanted=2, address="ray://head:10001"))
    write_live(directory, doing.live())
    status([tmp_path])
    running, _, everyone, first, second = capsys.readouterr().out.splitlines()
    assert running.endswith("0 tokens, 1 of 2 workers")
    assert everyone == "1 of 2 workers on 1 host, 1 lost; 3 tasks in hand; ray://head:10001"
    assert first == "w1 (node-a:7): working, 3 in hand, 4 done, 0 calls/min"
    assert second.startswith("w2 (node-b:8): lost: its process died, ")
    status([tmp_path], as_json=True)
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["live"]["workers_wanted"], told["live"]["cluster"]) == (2, "ray://head:10001")
    assert [(one["name"], one["state"]) for one in told["live"]["workers"]] == [
        ("w1", "working"),
        ("w2", "lost"),
    ]


def test_on_a_terminal_it_follows_until_the_run_ends_and_says_what_it_came_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], terminal: Callable[[Callable[[], None]], None]
) -> None:
    directory, looks = going_on(tmp_path, "gpt-k1"), 0

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


def test_ctrl_c_leaves_the_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], terminal: Callable[[Callable[[], None]], None]
) -> None:
    directory = going_on(tmp_path, "gpt-k1")

    def sleeps() -> None:
        raise KeyboardInterrupt

    terminal(sleeps)
    status([directory])
    assert read_live(directory) is not None
    assert capsys.readouterr().out.endswith("\x1b[?25h\x1b[?1049l")  # the cursor and the screen are back


def test_once_draws_the_screen_and_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], terminal: Callable[[Callable[[], None]], None]
) -> None:
    def sleeps() -> None:
        raise AssertionError("it waits")

    terminal(sleeps)
    status([going_on(tmp_path, "gpt-k1")], once=True)
    assert "4/10" in capsys.readouterr().out


def test_a_wrong_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run or folder"):
        status([tmp_path / "nowhere"])


def test_a_damaged_run_hides_no_other_and_by_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a", score=50.0)])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    status([tmp_path])
    broken, orig = capsys.readouterr().out.splitlines()
    assert broken.startswith(f"{tmp_path}/broken/run.json: not a manifest")
    assert orig.startswith(f"{tmp_path}/made-orig: finished")
    with pytest.raises(UsageError, match="not a manifest"):
        status([tmp_path / "broken"])


def test_without_a_word_it_is_about_the_folder_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no folder runs/"):
        status()
    made_run(tmp_path / "runs", label="orig", rows=[Row("a", score=50.0)])
    status()
    assert capsys.readouterr().out.startswith("runs/made-orig: finished, 1 of 1")


def test_a_killed_run_is_known_as_one_and_a_finished_one_leaves_no_word_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RealRun(tmp_path, ("--all", "fake", "-k", "1", "--limit", "2", "--no-orig", "--name", "r", "-q"))
    with provider_process(latency_s=0.5) as provider:
        run.configure(provider.url)
        process = run.start()
        deadline = time.monotonic() + 20
        while not list(tmp_path.glob(f"runs/*/{LIVE}")) and time.monotonic() < deadline:
            time.sleep(0.02)
        (directory,) = run.directories()
        status([directory], as_json=True)
        (told,) = json.loads(capsys.readouterr().out)
        assert (told["state"], told["live"]["pid"], told["live"]["n_expected"]) == ("running", process.pid, 2)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert (directory / LIVE).exists()
        status([directory], as_json=True)
        (told,) = json.loads(capsys.readouterr().out)
        assert (told["state"], told["n_expected"]) == ("killed", 2)
        assert told["command"].startswith("cts run --all fake")
        provider.set(latency_s=0.0)
        again = run.start()
        again.communicate(timeout=20)
        assert again.returncode == 0
    assert not (directory / LIVE).exists()
    status([directory], as_json=True)
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["state"], told["n_done"], told["n_scored"]) == ("finished", 2, 2)
