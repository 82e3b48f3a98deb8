"""A disk that is full, wherever a command meets that: one line, and exit code 75."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from typed_commands import Cts, typed

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.protocol.run_files import RunFiles

TOLD = "cannot write (No space left on device); make room and type the same command again\n"


@pytest.fixture(scope="module")
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def cts(
    tmp_path: Path, provider: Remote, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cts]:
    (tmp_path / "cts.toml").write_text(f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "mine-1"\n')
    monkeypatch.chdir(tmp_path)
    with typed(monkeypatch, capsys) as run:
        yield run


def judged(tmp_path: Path) -> list[str]:
    """A command that judges one candidate into `judged`."""
    gold = sample_dir() / "gold.jsonl"
    row = json.loads(gold.read_text(encoding="utf-8").splitlines()[0])
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": row["id"], "answer": "At 07:20."}))
    return [
        "judge",
        "--gold",
        str(gold),
        "--candidates",
        "c.jsonl",
        "--out",
        "judged",
        "--judge",
        "mine",
        "-q",
    ]


def test_no_room_for_the_manifest_of_verdicts(
    cts: Cts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    command = judged(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        done = cts(*command)
    assert (done.code, done.err) == (75, f"cts: judged/run.json: {TOLD}")
    assert cts(*command).code == 0


def test_a_write_that_nobody_foresaw_amid_the_work(cts: Cts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    command = ["run", "--all", "mine", "--no-orig", "--limit", "2", "-q"]
    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "add_judgment", refuse)
        done = cts(*command)
    assert (done.code, done.err) == (75, f"cts: somewhere: {TOLD}")
    assert cts(*command).code == 0


def test_a_bug_amid_the_work_is_not_taken_for_a_full_disk(cts: Cts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no file of anybody's")

    monkeypatch.setattr(RunFiles, "add_judgment", fail)
    with pytest.raises(BaseExceptionGroup):
        cts("run", "--all", "mine", "--no-orig", "--limit", "2", "-q")
