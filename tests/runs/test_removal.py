"""Run directories removed: what cts has written, by descriptors of its folders, whole or resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.errors import RunLocked, UsageError
from cts_async.runs import removal
from cts_async.runs.dependents import Dependent
from cts_async.runs.directory import locked
from cts_async.runs.removal import finish_removals, read_content, reasons_to_keep, remove_run

OURS = (
    *("steps.jsonl", "steps.jsonl.torn", "results.jsonl.torn", "summary.json", ".run.json.123", ".lock"),
    *("judgments/a.jsonl", "judgments/a.jsonl.torn", "prompts/clarify.en.txt", "sources/ask.clarifier.py"),
)
THEIRS = ("notes.txt", ".hidden", "judgments/notes.md", "shards/a.jsonl", "sources/a/b.py")


def run_of(folder: Path, *names: str) -> Path:
    """A run, and files of these names in it, 10 bytes each."""
    run = made_run(folder, label="gpt-k1", name="ask", rows=[Row("a", score=50.0)])
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("0123456789")
    return run


def tree(folder: Path) -> list[str]:
    """The paths of everything in a folder but of folders, "/" between."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_run_of_ours_is_removed_without_a_trace(tmp_path: Path) -> None:
    run = run_of(tmp_path, *OURS)
    written = sum((run / name).stat().st_size for name in ("run.json", "results.jsonl"))
    content = read_content(run)
    assert set(content.files) == {*OURS, "run.json", "results.jsonl"}
    assert (content.foreign, content.n_bytes) == ((), written + 10 * len(OURS))
    assert remove_run(run) == ()
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_stay_and_are_named(tmp_path: Path) -> None:
    run = run_of(tmp_path, *OURS, *THEIRS)
    assert set(read_content(run).foreign) == {
        "notes.txt",
        ".hidden",
        "judgments/notes.md",
        "shards",
        "sources/a",
    }
    assert set(remove_run(run)) == {"notes.txt", ".hidden", "judgments/notes.md", "shards", "sources/a"}
    assert tree(tmp_path) == sorted(f"ask/{name}" for name in THEIRS)


def test_links_and_pipes_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("theirs")
    (outside / "folder" / "a.jsonl").write_text("theirs")
    run = run_of(tmp_path / "runs")
    (run / "steps.jsonl").symlink_to(outside / "file")
    (run / "judgments").symlink_to(outside / "folder")
    (run / "prompts").write_text("a file of that name")
    os.mkfifo(run / "summary.json")
    assert set(remove_run(run)) == {"steps.jsonl", "judgments", "prompts", "summary.json"}
    assert tree(outside) == ["file", "folder/a.jsonl"]
    assert tree(tmp_path / "runs") == ["ask/judgments", "ask/prompts", "ask/steps.jsonl", "ask/summary.json"]


def test_folder_of_runs_may_be_a_link(tmp_path: Path) -> None:
    run_of(tmp_path / "disk")
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    assert remove_run(tmp_path / "runs" / "ask") == ()
    assert list((tmp_path / "disk").iterdir()) == []


def test_what_is_no_run_directory_is_refused_unchanged(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    (tmp_path / "link").symlink_to(run)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "results.jsonl").write_text("")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run.json").symlink_to(run / "run.json")
    before = tree(tmp_path)
    for name, problem in (
        ("link", "link is a symbolic link"),
        ("folder", "no regular file run.json"),
        ("linked", "no regular file run.json"),
        ("none", "No such file"),
    ):
        with pytest.raises(UsageError, match=problem):
            remove_run(tmp_path / name)
    assert tree(tmp_path) == before


def test_run_that_is_being_written_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    with locked(run), pytest.raises(RunLocked, match=f"ask: process {os.getpid()} is writing this run"):
        remove_run(run)
    assert tree(tmp_path) == ["ask/.lock", "ask/results.jsonl", "ask/run.json"]


KILLED = """
import os, signal, sys
from pathlib import Path
from cts_async.runs import removal
unlink, n_left = os.unlink, int(sys.argv[2])
def unlink_some(*args, **options):
    global n_left
    if n_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    n_left -= 1
    unlink(*args, **options)
os.unlink = unlink_some
removal.remove_run(Path(sys.argv[1]))
"""


def check_finished(folder: Path) -> None:
    """Check that an interrupted removal left no run, and that the next one finishes it."""
    assert [path.name for path in folder.iterdir()] == [".removing-ask"]
    assert list(folder.glob("*/run.json")) == []
    assert finish_removals(folder) == {"ask": ("notes.txt",)}
    assert tree(folder) == ["ask/notes.txt"]
    assert finish_removals(folder) == {}


def test_killed_removal_leaves_no_run_and_the_next_finishes_it(tmp_path: Path) -> None:
    run = run_of(tmp_path, *OURS, "notes.txt")
    done = subprocess.run([sys.executable, "-c", KILLED, run, "1"], check=False)
    assert done.returncode == -signal.SIGKILL
    check_finished(tmp_path)


@pytest.mark.parametrize("n_deleted", range(len(OURS) + 2))
def test_removal_can_end_before_any_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_deleted: int
) -> None:
    run = run_of(tmp_path, *OURS, "notes.txt")
    unlink, deleted = os.unlink, []

    def unlink_some(name: str, *, dir_fd: int) -> None:
        if len(deleted) == n_deleted:
            raise KeyboardInterrupt
        deleted.append(name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink_some)
    with pytest.raises(KeyboardInterrupt):
        remove_run(run)
    monkeypatch.undo()
    check_finished(tmp_path)


def test_removal_that_a_process_is_at_work_on_is_left_to_it(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    (tmp_path / ".removing-ask").mkdir()
    aside = run.rename(tmp_path / ".removing-ask" / "ask")
    with locked(aside):
        assert finish_removals(tmp_path) == {}
    assert (aside / "run.json").exists()


def test_what_is_not_ours_is_left_aside_where_a_new_run_has_the_name(tmp_path: Path) -> None:
    old = run_of(tmp_path, "notes.txt")
    (tmp_path / ".removing-ask").mkdir()
    old.rename(tmp_path / ".removing-ask" / "ask")
    new = run_of(tmp_path)
    before = tree(new)
    assert finish_removals(tmp_path) == {"ask": (".removing-ask/ask/notes.txt",)}
    assert (tree(new), tree(tmp_path / ".removing-ask")) == (before, ["ask/notes.txt"])
    with pytest.raises(UsageError, match="cannot be removed"):
        remove_run(new)
    assert "run.json" in tree(new)


def test_folders_that_only_look_like_interrupted_removals_are_unchanged(tmp_path: Path) -> None:
    outside = run_of(tmp_path / "outside")
    folder = tmp_path / "runs"
    for name in (".removing-a/a", ".removing-b/b", ".removing-c/other", ".removing-"):
        (folder / name).mkdir(parents=True)
    (folder / ".removing-a" / "a" / "results.jsonl").write_text("no run.json")
    (folder / ".removing-b" / "b" / "run.json").symlink_to(outside / "run.json")
    (folder / ".removing-c" / "other" / "run.json").write_text("{}")
    (folder / ".removing-ask").symlink_to(outside.parent)
    finish_removals(folder)
    assert tree(tmp_path / "outside") == ["ask/results.jsonl", "ask/run.json"]
    assert tree(folder) == [".removing-ask", ".removing-c/other/run.json", "a/results.jsonl", "b/run.json"]


def test_interrupted_before_the_move_or_after_the_last_deletion(tmp_path: Path) -> None:
    (tmp_path / ".removing-ask").mkdir()
    (tmp_path / ".removing-v2" / "v2").mkdir(parents=True)
    assert finish_removals(tmp_path) == {"v2": ()}
    assert list(tmp_path.iterdir()) == []


def test_run_is_kept_while_a_run_that_stays_needs_it(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    needs = [
        Dependent(b, frozenset({"a"}), "is unfinished"),
        Dependent(c, frozenset({"b"}), "is being written"),
    ]
    assert reasons_to_keep([a], needs) == {a: "b is unfinished"}
    assert reasons_to_keep([a, b, c], needs) == {}
    assert reasons_to_keep([a, b], needs) == {b: "c is being written", a: "b is unfinished"}
    assert reasons_to_keep([c], needs) == {}


def test_deletion_needs_the_manifest_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest goes last of all but the lock: until then the directory is known as a run."""
    order: list[str] = []
    unlink = os.unlink

    def noted(name: str, *, dir_fd: int) -> None:
        order.append(name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(removal.os, "unlink", noted)
    remove_run(run_of(tmp_path, *OURS))
    assert order[-2:] == ["run.json", ".lock"]
