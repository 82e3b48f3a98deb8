"""Locking a run's directory and writing its small files."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cts_async.errors import EXIT_USAGE, RunLocked, StorageFull, UsageError
from cts_async.runs.directory import locked, write_json

HOLDER = """
import sys, time
from pathlib import Path
from cts_async.runs.directory import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@contextmanager
def held(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the directory."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == "locked\n"
            yield holder
        finally:
            holder.kill()


# --- the lock


def test_lock_names_its_holder_and_ends_with_the_process(tmp_path: Path) -> None:
    with held(tmp_path) as holder:
        with pytest.raises(RunLocked, match=rf"process {holder.pid} is writing") as raised, locked(tmp_path):
            pass
        assert raised.value.exit_code == EXIT_USAGE
        assert str(raised.value).startswith(str(tmp_path))
        assert str(raised.value).endswith("is writing this run; wait for it")
        with (
            pytest.raises(RunLocked, match="wait for it, or choose another --out$"),
            locked(tmp_path, place="--out"),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with locked(tmp_path):
            assert (tmp_path / ".lock").read_text() == f"process {os.getpid()}"


def test_the_directory_is_made_and_the_lock_ends_with_the_block(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / "new"
    for _ in range(2):
        with locked(directory) as is_locked:
            assert is_locked()
            assert directory.is_dir()
            with pytest.raises(RunLocked, match=f"process {os.getpid()} "), locked(directory):
                pass
    with pytest.raises(KeyError), locked(directory):
        raise KeyError("a bug")
    with locked(directory):
        pass


def test_deleted_lock_file_admits_no_second_process(tmp_path: Path) -> None:
    with held(tmp_path) as holder:
        # What the file says is printed only if it names a process.
        (tmp_path / ".lock").write_text("\x1b[2J rm -rf ~")
        with pytest.raises(RunLocked, match=": another process is writing this run"), locked(tmp_path):
            pass
        (tmp_path / ".lock").unlink()
        with pytest.raises(RunLocked, match=": another process is writing this run"), locked(tmp_path):
            pass
        holder.kill()
        holder.wait(10)
        with locked(tmp_path):
            pass


def test_a_process_of_an_earlier_version_holds_the_lock_file_alone(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as file:
        file.write("process 7")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunLocked, match="process 7 is writing this run"), locked(tmp_path):
            pass


def test_a_lock_file_that_was_replaced_while_it_was_locked_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def replaced_before(fd: int, operation: int) -> None:
        (tmp_path / ".lock").unlink(missing_ok=True)
        (tmp_path / ".lock").touch()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", replaced_before)
    with pytest.raises(RunLocked, match="was replaced while it was being locked"), locked(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.raises(UsageError, match=r"this file system has no locks \(flock: .*\); use --runs-dir"),
        locked(tmp_path),
    ):
        raise AssertionError("never held")


def test_a_directory_that_was_moved_away_is_no_longer_held(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as is_locked:
        assert is_locked()
        (tmp_path / "run").rename(tmp_path / "moved")
        assert not is_locked()
        with locked(tmp_path / "run"):
            assert not is_locked()


def test_links_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    refused = pytest.raises(UsageError, match="link: cannot write there .link is a symbolic link")
    with refused, locked(tmp_path / "link"):
        pass
    assert not list((tmp_path / "data").iterdir())
    with locked(tmp_path / "link" / "run"):  # a link above it is not one of ours
        assert (tmp_path / "data" / "run" / ".lock").exists()
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(outside)
    with pytest.raises(UsageError, match=".lock is a symbolic link"), locked(tmp_path / "run"):
        pass
    assert outside.read_text() == "theirs"


def test_a_directory_that_cannot_be_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UsageError, match="cannot write there"), locked(tmp_path / "file" / "run"):
        pass
    with pytest.raises(UsageError, match="cannot write there"), locked(tmp_path / "file"):
        pass


def test_lock_that_cannot_be_signed_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with (
            pytest.raises(StorageFull, match="cannot write there .No space left.*make room"),
            locked(tmp_path),
        ):
            pass
    with locked(tmp_path):
        pass


def test_a_writer_killed_in_the_middle_leaves_the_old_file_whole(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"n": 1})
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom cts_async.runs.directory import write_json\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_json(Path(sys.argv[1]), {'n': 2})\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "run.json")], timeout=30)
    assert killed.returncode == -signal.SIGKILL
    assert json.loads((tmp_path / "run.json").read_text()) == {"n": 1}
