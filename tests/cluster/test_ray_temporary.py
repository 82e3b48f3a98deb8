"""Directories of runs are gone with them, even of those that were killed."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest

from cts_async.cluster import ray_temporary
from cts_async.cluster.ray_temporary import temporary


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_temporary, "LONGEST", len(str(tmp_path)))
    return tmp_path


def aged(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    an_hour_ago = time.time() - 3600
    os.utime(directory, (an_hour_ago, an_hour_ago))
    return directory


def test_a_directory_is_there_for_the_block_only(above: Path) -> None:
    with temporary() as made:
        (made / "socket").touch()
        assert made.parent.parent == above
    assert list(above.iterdir()) == []


def test_nobody_else_enters_it_though_ray_opens_it_to_everybody(above: Path) -> None:
    before = os.umask(0)
    try:
        with temporary() as made:
            made.chmod(0o777)
            assert made.parent.parent == above
            assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_the_longest_path_of_a_socket_is_no_longer_than_a_system_takes() -> None:
    with temporary() as made:
        below = len(str(made)) - len(str(made.parent.parent))
    socket = "/session_2026-11-22_15-27-30_123456_4194304/sockets/plasma_store"
    assert ray_temporary.LONGEST + below + len(socket) == 107


def test_a_path_too_long_for_sockets_is_not_used(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_temporary, "LONGEST", len(str(above)) - 1)
    with temporary() as made:
        assert made.parent.parent == Path("/tmp")


def test_what_a_killed_run_has_left_is_removed_by_the_next_one(above: Path) -> None:
    left, other = aged(above / "cts-ray-left"), aged(above / "something-else")
    with temporary():
        assert not left.exists()
        assert other.exists()


def test_what_somebody_uses_or_has_just_made_is_left_alone(above: Path) -> None:
    (above / "cts-ray-new").mkdir()
    with temporary() as used:
        aged(used.parent)
        with temporary():
            assert used.exists()
    assert [path.name for path in above.iterdir()] == ["cts-ray-new"]


def test_a_named_pipe_or_link_of_such_a_name_is_passed_over(
    above: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pipe, elsewhere = above / "cts-ray-pipe", tmp_path_factory.mktemp("elsewhere")
    os.mkfifo(pipe)
    os.utime(pipe, (1, 1))
    (above / "cts-ray-link").symlink_to(aged(elsewhere))
    names: list[str] = []

    def enter() -> None:
        with temporary() as made:
            names.append(made.name)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(5)
    if thread.is_alive():  # let it go on: it waits for a writer
        os.close(os.open(pipe, os.O_RDWR))
    assert names
    assert pipe.is_fifo()
    assert elsewhere.is_dir()
