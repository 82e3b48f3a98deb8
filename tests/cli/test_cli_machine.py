"""A disk that is full, and too few open files: one line and exit code 75 or 2, never an outage."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from typed_commands import Cts

import cts_async
from cts_async.cli.main import main
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.journal import AppendLog, read_records

TOLD = "cannot write (No space left on device); make room and type the same command again\n"


def judged(tmp_path: Path) -> list[str]:
    """A command that judges one candidate into `judged`."""
    gold = sample_dir() / "gold.jsonl"
    row = json.loads(gold.read_text(encoding="utf-8").splitlines()[0])
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": row["id"], "answer": "At 07:20."}))
    words = ["--candidates", "c.jsonl", "--out", "judged", "--judge", "fake", "-q"]
    return ["judge", "--gold", str(gold), *words]


RUN = ("run", "--all", "fake", "--no-orig", "--limit", "2", "-q")


@pytest.mark.parametrize(
    ("owner", "function", "path"), [(os, "fsync", "judged/run.json"), (AppendLog, "append", "somewhere")]
)
def test_full_disk_is_resumable(
    cts: Cts,
    priced: Remote,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    function: str,
    path: str,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", *[path] * (owner is AppendLog))

    command = judged(tmp_path) if owner is os else RUN
    with monkeypatch.context() as patched:
        patched.setattr(owner, function, refuse)
        done = cts(*command)
    assert (done.code, done.err) == (75, f"cts: {path}: {TOLD}")
    assert cts(*command).code == 0


def test_bug_during_a_run_is_not_reported_as_a_full_disk(
    cts: Cts, priced: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no file of anybody's")

    monkeypatch.setattr(AppendLog, "append", fail)
    with pytest.raises(BaseExceptionGroup):
        cts(*RUN)


OURS = str(Path(cts_async.__file__).parents[1])
FEW, MANY = 24, 80
LIMITED = """
import resource
from cts_async.__main__ import start

resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}))
start()
"""


def limited(folder: Path, soft: int, hard: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `cts WORDS` in a process that may open so many files."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED.format(soft, hard), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": OURS},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("limit", "command"), [(8, ["run"]), (33, ["run", "--limit", "1"]), (33, ["doctor"])]
)
def test_too_small_limit_on_open_files_is_one_line(tmp_path: Path, limit: int, command: list[str]) -> None:
    done = limited(tmp_path, limit, limit, *command)
    last = f"cts: only {limit} files may be open, and 64 are needed: raise the limit (ulimit -n 1024)"
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(last)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2, "beside it a run says what it is about to do"


def test_the_least_limit_on_open_files_suffices_for_any_concurrency(tmp_path: Path) -> None:
    with provider_process(latency_s=0.3) as provider:
        table = f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "mine-1"\nmax_concurrency = {MANY}\n'
        limits = 'limit = "bucket"\nrequests_per_min = 60000\n'  # known, so that all may be sent at once
        (tmp_path / "cts.toml").write_text(table + limits)
        words = ("--all", "mine", "-k", "3", "--no-orig", "--name", "r", "--max-calls", "224")
        done = limited(tmp_path, 64, 64, "run", *words)
        assert done.returncode == 0, done.stderr
        stats = provider.stats()
    assert "too many open files (ulimit -n is 64); raise the limit (ulimit -n 1024)" in done.stderr
    assert 10 < stats["max_in_flight"] < 48
    # 28 instances of 1 + 3 + 1 calls, two turns and a verdict each: what was not sent is no call, of no budget either.
    summary = json.loads((tmp_path / "runs/r/summary.json").read_bytes())
    assert summary["calls"] == stats["requests"] == 224
    assert summary["failed_attempts"] > 0
    records = read_records(tmp_path / "runs/r/steps.jsonl")
    assert all(failed["unsent"] for record in records for failed in record.get("failed_attempts", ()))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_running_out_of_files_anywhere_is_one_line(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pipe(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("cts_async.cli.main.app", pipe)
    monkeypatch.setattr("cts_async.cli.main.ignore_stderr_failures", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "cts: too many open files; raise the limit (ulimit -n 1024) and run the same command again\n"
    )


def test_small_limit_on_open_files_is_raised(tmp_path: Path) -> None:
    with provider_process(latency_s=0.3) as provider:
        table = f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "mine-1"\nmax_concurrency = {MANY}\n'
        (tmp_path / "cts.toml").write_text(table)
        words = ("--all", "mine", "-k", "3", "--no-orig", "--name", "r", "--max-outage", "5")
        done = limited(tmp_path, FEW, 4096, "run", *words)
        assert done.returncode == 0, done.stderr
        assert provider.stats()["max_in_flight"] > FEW
    assert not [
        record for record in read_records(tmp_path / "runs/r/steps.jsonl") if "failed_attempts" in record
    ]
