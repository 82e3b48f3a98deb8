"""A worker shares the head's storage where it reads there what the head has just written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.cluster.probe import remove_probe, sees_probe, write_probe
from cts_async.engine.shards import PROBE
from cts_async.errors import UsageError


def test_who_reads_the_heads_token_shares_its_storage(tmp_path: Path) -> None:
    token = write_probe(tmp_path)
    assert sees_probe(tmp_path, token)
    assert sees_probe(tmp_path, token), "looking changes nothing"


def test_another_directory_of_the_same_name_is_told_apart(tmp_path: Path) -> None:
    earlier = write_probe(tmp_path)
    assert write_probe(tmp_path) != earlier
    assert not sees_probe(tmp_path, earlier)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_what_is_no_token_is_not_taken_for_one(tmp_path: Path, content: bytes | None) -> None:
    token = write_probe(tmp_path)
    (tmp_path / PROBE).unlink()
    if content is not None:
        (tmp_path / PROBE).write_bytes(content)
    assert not sees_probe(tmp_path, token)
    assert not sees_probe(tmp_path / "nowhere", token)


def test_a_storage_that_cannot_be_written_to_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = write_probe(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert not sees_probe(tmp_path, token)


def test_the_head_removes_it_in_the_end(tmp_path: Path) -> None:
    write_probe(tmp_path)
    remove_probe(tmp_path)
    remove_probe(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_head_that_cannot_write_says_where(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone/\.probe: cannot write"):
        write_probe(tmp_path / "gone")
