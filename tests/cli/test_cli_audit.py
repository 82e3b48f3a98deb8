"""`cts audit` from end to end: its exit codes, its JSON, and hostile text on the terminal."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from audited_runs import copied, made, plant, record_of
from made_runs import changed_manifest
from typed_commands import cts_in


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("audit"), limit=2)


def audit(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return cts_in(Path.cwd(), "audit", *map(str, arguments))


def test_closed_book_that_held_is_exit_0_and_a_verdict_per_run(runs: dict[str, Path]) -> None:
    done = audit(*runs.values())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("closed book: held for 2/2 instances; 0 leaks") == 3


def test_leak_is_exit_1_and_listed_in_json(runs: dict[str, Path], tmp_path: Path) -> None:
    run = copied(runs["fake-k2"], tmp_path)
    plant(
        run, "s01", "clarify", lambda r: r["request"]["fields"].update(blurred_query="the North Quay ferry")
    )
    done = audit(runs["orig"], run, "--json")
    assert done.returncode == 1
    held, leaked = json.loads(done.stdout)
    assert (held["held"], leaked["held"], leaked["n_held"], leaked["n_leaks"]) == (True, False, 1, 1)
    assert {
        "level": "leak",
        "instance": "s01",
        "step": "clarify",
        "problem": "its request contains text that occurs only in q*",
        "text": "north quay",
    } in leaked["findings"]


def test_every_version_in_a_folder_is_audited(runs: dict[str, Path], tmp_path: Path) -> None:
    """An audit hides nothing: the newer version held, the older one did not."""
    older, newer = copied(runs["fake-k2"], tmp_path / "a"), copied(runs["fake-k2"], tmp_path / "b")
    plant(
        older, "s01", "clarify", lambda r: r["request"]["fields"].update(blurred_query="the North Quay ferry")
    )
    with changed_manifest(newer) as manifest:
        manifest["run_version"] = 2
    folder = tmp_path / "runs"
    folder.mkdir()
    older.rename(folder / "run")
    newer.rename(folder / "run.v2")
    done = audit(folder, "--json")
    audits = {Path(audit["run"]).name: audit["held"] for audit in json.loads(done.stdout)}
    assert (done.returncode, audits) == (1, {"run": False, "run.v2": True})


def test_findings_are_listed_up_to_ten_without_control_characters(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    run = copied(runs["fake-k2"], tmp_path)
    said = record_of(run, "s01", "rewrite")["response"]["text"]
    years = " ".join(map(str, range(1901, 1912)))
    hostile = f"{said} [bold]\x1b[31m{years}"
    plant(run, "s01", "rewrite", lambda r: r["response"].update(text=hostile))
    plant(
        run, "s02", "clarify", lambda r: r["request"]["fields"].update({"blurred_query": "x", "\x1b[2J": "y"})
    )
    done = audit(run)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "[U+001B][2J" in done.stdout
    assert "more (--json lists them all)" in done.stdout


def test_folder_without_a_run_is_one_line_and_exit_2(tmp_path: Path) -> None:
    done = audit(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"cts: {tmp_path}: not a run directory: run.json not found\n"
