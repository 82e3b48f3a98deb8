"""`cts runs`: the runs of a folder listed, compared and removed from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from made_runs import Row, changed_manifest, made_run
from typed_commands import Cts

ESC = "\x1b[31m"


def two_versions(folder: Path) -> tuple[Path, Path]:
    """A run and its second version, in which k changed; the second is worked on later."""
    first = made_run(folder, label="gpt-k1", name="ask", rows=[Row("a", score=50.0)])
    second = made_run(folder, label="gpt-k1", name="ask.v2", rows=[Row("a", score=60.0)])
    for run, start in ((first, "2030-03-17T10:00:00+00:00"), (second, "2030-03-18T10:00:00+00:00")):
        with changed_manifest(run) as manifest:
            manifest["sessions"] = [{"start": start, "end": start, "wall_s": 1.0}]
    with changed_manifest(second) as manifest:
        manifest |= {"run_version": 2, "changed": ["k (1, now 2)"], "changed_from": "ask"}
        manifest["identity"]["k"] = 2
    return first, second


def test_runs_alone_lists_the_folder_runs(cts: Cts) -> None:
    assert cts("runs").err == "cts: no folder runs/: name a run or a folder of runs (cts runs RUN)\n"
    two_versions(Path("runs"))
    done = cts("runs")
    assert (done.code, done.err) == (0, "")
    newest, older = [line for line in done.out.splitlines() if "ask" in line]
    assert newest.split()[:6] == ["ask.v2", "2", "k", "(1,", "now", "2)"]
    assert older.startswith("  ask")
    assert done.out == cts("runs", "runs").out == cts("runs", "list", "runs").out


def test_list_as_json_and_csv_has_the_same_rows(cts: Cts) -> None:
    two_versions(Path("runs"))
    rows = json.loads(cts("runs", "--json", "--csv", "tables").out)["runs"]
    assert [(row["run"], row["mean"], row["older"]) for row in rows] == [
        ("ask.v2", 60.0, False),
        ("ask", 50.0, True),
    ]
    with Path("tables/runs.csv").open(newline="") as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["ask.v2", "ask"]


@pytest.mark.parametrize("embedded", [True, False])
def test_caveat_of_a_smoke_test_is_said(cts: Cts, embedded: bool) -> None:
    made_run(Path("runs"), label="gpt-k1", name="ask", rows=[Row("a", score=50.0)], embedded=embedded)
    assert ("Smoke test: " in cts("runs").out) == embedded


def test_escapes_in_a_manifest_do_not_reach_the_terminal(cts: Cts) -> None:
    _, second = two_versions(Path("runs"))
    with changed_manifest(second) as manifest:
        manifest["changed"] = [f"{ESC}k\nfake"]
        manifest["changed_from"] = ESC
        manifest["lineage"] = "ask"
        manifest["identity"]["system"] = "a[/red]"
    made_run(Path("runs"), label="gpt-k1", name=f"x{ESC}", rows=[Row("a", score=50.0)])
    done = cts("runs")
    assert (done.code, "\x1b" in done.out) == (0, False)
    assert "�[31mk�fake" in done.out
