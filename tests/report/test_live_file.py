"""live.json: read while its process lives and speaks, and never in anybody's way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from cts_async.report.live import LIVE, STALE_S, Live, read_live, remove_live, write_live


def said(time: float, pid: int | None = None) -> Live:
    return cast("Live", {"pid": os.getpid() if pid is None else pid, "time": time, "n_done": 3})


def test_what_was_said_is_read(tmp_path: Path) -> None:
    write_live(tmp_path, said(100.0))
    found = read_live(tmp_path, lambda: 101.0)
    assert found is not None
    assert found["n_done"] == 3
    remove_live(tmp_path)
    assert read_live(tmp_path, lambda: 101.0) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("now", "going"), [(100 + STALE_S, True), (101 + STALE_S, False), (0.0, False)])
def test_old_words_count_no_more(tmp_path: Path, now: float, going: bool) -> None:
    write_live(tmp_path, said(100.0))
    assert (read_live(tmp_path, lambda: now) is not None) is going


@pytest.mark.parametrize("pid", [-1, 0, 2**40, 2**22 + 1])
def test_a_process_that_is_gone_says_nothing(tmp_path: Path, pid: int) -> None:
    write_live(tmp_path, said(100.0, pid))
    assert read_live(tmp_path, lambda: 100.0) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"pid": "x"}', b'{"pid": 1}', b"\xff"])
def test_a_broken_file_is_no_word(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LIVE).write_bytes(content)
    assert read_live(tmp_path) is None


def test_a_folder_that_is_gone_disturbs_nobody(tmp_path: Path) -> None:
    write_live(tmp_path / "none", said(1.0))
    remove_live(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
