"""Of a folder every command shows the newest version of each run, and says how many older ones it left out."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from made_live import live, part
from made_runs import Row, changed_manifest, made_run
from typed_commands import Cts

import cts_async
from cts_async.watch.live import write_live

ONE = "1 older version left out (--all-versions shows it)"
TWO = "2 older versions left out (--all-versions shows them)"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """gpt-k1 in three versions, of 20, 30 and 40 points, and orig with 10."""
    folder = tmp_path / "runs"
    made_run(folder, label="orig", rows=[Row("q", score=10.0)], name="orig")
    for number, score in ((1, 20.0), (2, 30.0), (3, 40.0)):
        name = "gpt-k1" if number == 1 else f"gpt-k1.v{number}"
        rows = [Row("q", ["Which year?"], ["2024"], score=score, answer=f"answer {number}")]
        with changed_manifest(made_run(folder, label="gpt-k1", rows=rows, name=name)) as manifest:
            manifest["sessions"] = [{"start": f"2026-01-0{number}", "end": f"2026-01-0{number}"}]
            manifest["run_version"] = number
    return folder


def test_status_shows_newest_versions_and_what_is_active(cts: Cts, runs: Path) -> None:
    shown = [line.partition(":")[0] for line in cts("status", runs).out.splitlines()]
    assert shown == [str(runs / "gpt-k1.v3"), str(runs / "orig"), TWO]
    write_live(runs / "gpt-k1", live([part("gpt-k1")], time=time.time()))
    done = cts("status", runs, "--json")
    assert [row["run"] for row in json.loads(done.out)] == [
        str(runs / name) for name in ("gpt-k1", "gpt-k1.v3", "orig")
    ]
    assert ONE in done.err
    every = json.loads(cts("status", runs, "--json", "--all-versions").out)
    assert len(every) == 4
    assert len(json.loads(cts("status", runs / "gpt-k1.v2", "--json").out)) == 1


def test_score_takes_newest_versions_of_folders_and_patterns(cts: Cts, runs: Path) -> None:
    for word in (runs, runs / "*", runs / "*" / "results.jsonl"):
        done = cts("score", word, "--json")
        assert [Path(row["file"]).parent.name for row in json.loads(done.out)] == ["gpt-k1.v3", "orig"], word
        assert done.err == f"cts: {TWO}\n"
    assert len(json.loads(cts("score", runs, "--all-versions", "--json").out)) == 4
    (row,) = json.loads(cts("score", runs / "gpt-k1", "--json").out)
    assert row["mean"] == 20.0
    (row,) = json.loads(cts("score", runs / "gpt-k1" / "results.jsonl", "--json").out)
    assert row["mean"] == 20.0


def test_export_and_load_take_newest_versions(cts: Cts, runs: Path, tmp_path: Path) -> None:
    done = cts("export", runs, "--layout", "release", "--out", tmp_path / "out")
    assert TWO in done.err
    assert sorted(path.name for path in (tmp_path / "out" / "outputs").iterdir()) == ["gpt-k1", "orig"]
    cts("export", runs, "--layout", "release", "--out", tmp_path / "every", "--all-versions")
    names = ["gpt-k1.v1", "gpt-k1.v2", "gpt-k1.v3", "orig"]
    assert sorted(path.name for path in (tmp_path / "every" / "outputs").iterdir()) == names
    tables = cts_async.load(runs)
    assert [row["run"] for row in tables.instances] == ["gpt-k1.v3", "orig"]
    assert tables.remarks == ("2 older versions left out (all_versions=True shows them)",)
    assert len(cts_async.load(runs, all_versions=True).instances) == 4
    assert [row["score"] for row in cts_async.load(runs / "gpt-k1").instances] == [20.0]


def test_compare_in_python_takes_newest_versions(runs: Path) -> None:
    found = cts_async.compare(runs)
    assert [system["system"] for system in found["systems"]] == ["orig", "gpt-k1"]
    assert found["notes"] == ["2 older versions left out (all_versions=True shows them)"]
    assert len(cts_async.compare(runs, all_versions=True)["systems"]) == 4


def test_judge_judges_newest_versions_only(cts: Cts, runs: Path) -> None:
    """Judging each version costs money: who wants an older one judged names it."""
    done = cts("judge", runs, "--judge", "lexical", "--dry-run", "--json")
    assert "2 older versions left out (name them to judge them)" in done.err
    done = cts("judge", runs, runs / "gpt-k1", "--judge", "lexical", "--dry-run", "--json")
    assert "1 older version left out (name it to judge it)" in done.err
