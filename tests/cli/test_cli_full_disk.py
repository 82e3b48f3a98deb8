"""A disk that is full, wherever a command meets that: one line, and exit code 75."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from fake_provider import Remote
from typed_commands import Cts

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.protocol.run_files import RunFiles

TOLD = "cannot write (No space left on device); make room and type the same command again\n"


def judged(tmp_path: Path) -> list[str]:
    """A command that judges one candidate into `judged`."""
    gold = sample_dir() / "gold.jsonl"
    row = json.loads(gold.read_text(encoding="utf-8").splitlines()[0])
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": row["id"], "answer": "At 07:20."}))
    words = ["--candidates", "c.jsonl", "--out", "judged", "--judge", "fake", "-q"]
    return ["judge", "--gold", str(gold), *words]


def test_no_room_for_the_manifest_of_verdicts(
    cts: Cts, priced: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    command = judged(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        done = cts(*command)
    assert (done.code, done.err) == (75, f"cts: judged/run.json: {TOLD}")
    assert cts(*command).code == 0


def test_a_write_that_nobody_foresaw_amid_the_work(
    cts: Cts, priced: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    command = ["run", "--all", "fake", "--no-orig", "--limit", "2", "-q"]
    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "add_judgment", refuse)
        done = cts(*command)
    assert (done.code, done.err) == (75, f"cts: somewhere: {TOLD}")
    assert cts(*command).code == 0


def test_a_bug_amid_the_work_is_not_taken_for_a_full_disk(
    cts: Cts, priced: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no file of anybody's")

    monkeypatch.setattr(RunFiles, "add_judgment", fail)
    with pytest.raises(BaseExceptionGroup):
        cts("run", "--all", "fake", "--no-orig", "--limit", "2", "-q")
