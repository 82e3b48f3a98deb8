"""A file is written whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from cts_async.datasets.whole_file import written_whole
from cts_async.errors import StorageFull, UsageError


def test_the_new_content_takes_the_old_one_s_place(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in (b"old", b"new"):
        with written_whole(path) as file:
            file.write(content)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_in_between_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with suppress(KeyboardInterrupt), written_whole(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with written_whole(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_ordinary_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with written_whole(pipe) as file:
        file.write(b"new")
    assert os.read(reader, 9) == b"new"
    assert pipe.is_fifo()
    os.close(reader)


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    for path, why in [(tmp_path / "none" / "a", "No such file"), (tmp_path, "Is a directory")]:
        with pytest.raises(UsageError, match=f"cannot write \\({why}"), written_whole(path):
            pass


def test_a_full_disk_asks_for_room_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    told = "a: cannot write .No space left on device.; make room"
    with pytest.raises(StorageFull, match=told), written_whole(path) as file:
        file.write(b"new")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("a", b"old")]
