"""Runs of earlier versions (tests/golden, made by golden_world): every command reads them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from golden_world import INTERRUPTED, RUN, cts

from cts_async.errors import UsageError

ARCHIVES = sorted((Path(__file__).parent / "golden").glob("*.tar.gz"))
MEANS = {"orig": 53.98, "alpha-k1": 78.02, "alpha-k2": 87.09, "alpha-k3": 90.93, "gold": 91.58}
"""What the version that made the runs printed, n = 14, and 13 where one instance failed."""


@pytest.fixture(params=ARCHIVES, ids=[path.name.removesuffix(".tar.gz") for path in ARCHIVES])
def version(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Unpack the runs of a version into the current folder."""
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return str(request.param.name).removesuffix(".tar.gz")


def done(*words: str, code: int = 0) -> str:
    result = cts(*words)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result.output


def test_finished_runs_are_compared_as_their_version_did(version: str) -> None:
    compared = json.loads(done("compare", "runs", "--json"))
    (by_support,) = (one for one in compared["judges"] if one["judge"] == "support")
    means = {row["system"]: row["mean"] for row in by_support["leaderboard"]}
    assert {name: means[name] for name in MEANS} == pytest.approx(MEANS, abs=0.005)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compare", "runs"), 0),
        (("diagnose", "runs"), 0),
        (("report", "runs", "--tables", "tables"), 0),
        (("audit", "runs/hard518-alpha-k2+all-support"), 0),
        (("score", "runs/hard518-alpha-k2+all-support/results.jsonl"), 1),
        (("status", "runs", "--once"), 0),
        (("judge", "runs/hard518-alpha-k1+all-support", "--judge", "strict", "-q"), 1),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_finished_run_is_read_by_every_command(version: str, words: tuple[str, ...], code: int) -> None:
    done(*words, code=code)


@pytest.mark.parametrize("words", [RUN, INTERRUPTED], ids=["finished", "interrupted"])
def test_same_command_resumes_or_names_the_version_that_finishes_it(
    version: str, words: tuple[str, ...]
) -> None:
    before = {path: path.read_bytes() for path in Path("runs").rglob("*.jsonl")}
    result = cts(*words)
    if isinstance(result.exception, UsageError):
        assert f"cts-async=={version}" in str(result.exception)
        assert {path: path.read_bytes() for path in Path("runs").rglob("*.jsonl")} == before
    else:
        assert result.exit_code == 1, result.output
