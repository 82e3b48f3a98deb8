"""The list of a folder's runs: what a row says, from which file, and in which order."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run
from rich.console import Console

from cts_async.errors import InputError
from cts_async.tables import run_list
from cts_async.tables.run_list import (
    ListedRun,
    RunCounts,
    list_runs,
    listed_directories,
    notes_on,
    run_list_table,
)
from cts_async.tables.table import print_table

NOON = 1_900_000_000.0
"""2030-03-17 17:46:40 UTC."""


def version(folder: Path, name: str, start: str = "", **notes: Any) -> Path:
    """A run of one scored instance, 50 points, whose last session began and ended at a time of 2030-03-17."""
    run = made_run(folder, label="gpt-k1", name=name, rows=[Row("a", score=50.0)])
    with changed_manifest(run) as manifest:
        manifest.update(notes)
        if start:
            stamp = f"2030-03-17T{start}:40+00:00"
            manifest["sessions"] = [{"start": stamp, "end": stamp, "wall_s": 1.0}]
    return run


def summarised(run: Path, **values: Any) -> Path:
    """Give a run a summary, newer than its results."""
    summary = {"n_expected": 4, "n_scored": 2, "n_failed": 1, "n_unjudged": 0, "mean": 12.5, "judge": "ernie"}
    summary |= {"priced_usd": 1.5, "unpriced_models": 0, "cost_usd": 1.5}
    (run / "summary.json").write_text(json.dumps(summary | values))
    return run


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [dict(row) for row in run_list_table(list_runs(listed_directories(folder)), folder, NOON).rows]


def counts(run: Path, *, exact: bool = False) -> RunCounts:
    (listed,) = list_runs([run], exact=exact)
    return listed.counts


def test_versions_stand_under_their_lineage_the_newest_first(tmp_path: Path) -> None:
    version(tmp_path, "zeta", "10:00")
    version(tmp_path, "ask", "12:00")
    version(tmp_path, "ask.v2", "14:00", run_version=2, changed=["k (2, now 3)", "gold"], changed_from="ask")
    # Resumed after the second version was made: it is the newest now.
    version(tmp_path, "ask.v3", "13:00", run_version=3)
    version(tmp_path, "ask-ernie", "15:00", lineage="ask")
    # Named so by its user.
    version(tmp_path, "zeta.v2", "09:00")
    rows = rows_of(tmp_path)
    assert [(row["run"], row["version"], row["older"]) for row in rows] == [
        ("ask-ernie", 1, False),
        ("ask.v2", 2, True),
        ("ask.v3", 3, True),
        ("ask", 1, True),
        ("zeta", 1, False),
        ("zeta.v2", 1, False),
    ]
    assert rows[1]["changed"] == "k (2, now 3), gold"


def test_current_summary_is_shown_and_an_older_one_is_not(tmp_path: Path) -> None:
    run = summarised(version(tmp_path, "ask"), reused=7)
    known = RunCounts(
        judge="ernie", mean=12.5, n_expected=4, n_scored=2, n_failed=1, priced_usd=1.5, n_reused=7
    )
    assert counts(run) == known
    read = RunCounts(judge="ernie", mean=50.0, n_expected=1, n_scored=1, priced_usd=0.0, n_reused=0)
    assert counts(run, exact=True) == read
    later = (run / "summary.json").stat().st_mtime + 10
    (run / "steps.jsonl").write_text("")
    os.utime(run / "steps.jsonl", (later, later))
    assert counts(run) == read


def test_reused_steps_are_those_of_the_summary(tmp_path: Path) -> None:
    run = version(tmp_path, "ask")
    for reused, n_reused in ((7, 7), ({"steps": 41, "of_steps": 60}, 41), ({}, 0), ("x", 0), (None, 0)):
        assert counts(summarised(run, reused=reused)).n_reused == n_reused


def test_older_versions_are_dim_on_a_terminal(tmp_path: Path) -> None:
    version(tmp_path, "ask")
    version(tmp_path, "ask.v2", "10:00", run_version=2)
    file = io.StringIO()
    console = Console(file=file, width=120, force_terminal=True, color_system="standard", emoji=False)
    print_table(console, run_list_table(list_runs(listed_directories(tmp_path)), tmp_path, NOON))
    newest, older = [line for line in file.getvalue().splitlines() if "1/1" in line]
    assert "\x1b[2m" not in newest
    assert "\x1b[2m  ask" in older


@pytest.mark.parametrize(
    "values", [{"mean": 1e300}, {"mean": -1}, {"priced_usd": 1e300}, {"n_scored": None, "mean": "x"}, "[]"]
)
def test_summary_with_impossible_values_is_not_believed(tmp_path: Path, values: Any) -> None:
    run = version(tmp_path, "ask")
    if isinstance(values, str):
        (run / "summary.json").write_text(values)
    else:
        summarised(run, **values)
    listed = counts(run)
    assert listed.mean in (50.0, None)
    assert listed.priced_usd in (0.0, 1.5)


def test_link_in_place_of_a_summary_is_not_read(tmp_path: Path) -> None:
    run = version(tmp_path / "runs", "ask")
    summarised(tmp_path)
    (run / "summary.json").symlink_to(tmp_path / "summary.json")
    assert counts(run).mean == 50.0


def test_damaged_run_has_a_row_and_a_note(tmp_path: Path) -> None:
    version(tmp_path, "ask")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "steps.jsonl").write_text("")
    (tmp_path / "notes").mkdir()
    listed = list_runs(listed_directories(tmp_path))
    assert {run.directory.name: run.state for run in listed} == {
        "ask": "finished",
        "bare": "damaged",
        "broken": "damaged",
    }
    bare, broken = notes_on(listed)
    assert bare == f"{tmp_path}/bare: not a run directory: run.json not found"
    assert broken.startswith(f"{tmp_path}/broken/run.json: not a manifest")


def test_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run found: no run\.json in this folder"):
        listed_directories(tmp_path)
    with pytest.raises(InputError, match="nothing: no such folder of runs"):
        listed_directories(tmp_path / "nothing")


def test_running_command_is_shown_without_reading_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = version(tmp_path, "ask", sessions=[{"start": "2030-03-17T17:46:40+00:00", "end": None}])
    (run / ".lock").write_text(f"process {os.getpid()}")
    monkeypatch.setattr(run_list, "summarise_run", None)
    (listed,) = list_runs([run])
    assert (listed.state, listed.counts.mean, listed.counts.priced_usd) == ("running", 50.0, None)
    (run / ".lock").write_text("process 99999999")
    monkeypatch.undo()
    (listed,) = list_runs([run])
    assert listed.state == "finished"


def test_systems_of_judged_candidates_are_rows(tmp_path: Path) -> None:
    version(tmp_path / "judged", "a")
    version(tmp_path / "judged", "b")
    (tmp_path / "judged" / "run.json").write_text(json.dumps({"systems": ["a", "b"], "identity": {}}))
    assert [row["run"] for row in rows_of(tmp_path)] == ["judged/a", "judged/b"]
    assert [row["run"] for row in rows_of(tmp_path / "judged")] == ["a", "b"]


CELLS = {
    "scored": [({"state": "finished", "scored": 3, "expected": 4}, "3/4"), ({"state": "damaged"}, "-")],
    "cost": [
        ({"priced_usd": 1.5, "unpriced_models": 0}, "$1.50"),
        ({"priced_usd": 1.5, "unpriced_models": 2}, "$1.50+?"),
        ({"priced_usd": 0.0, "unpriced_models": 1}, "?"),
        ({"priced_usd": None, "unpriced_models": 0}, "-"),
    ],
    "age": [
        ({"last_worked": "2030-03-17T17:46:35+00:00"}, "now"),
        ({"last_worked": "2030-03-17T17:40:35+00:00"}, "6 min"),
        ({"last_worked": "2030-03-16T16:46:40+00:00"}, "25 h"),
        ({"last_worked": "2030-03-07T17:46:40+00:00"}, "10 d"),
        ({"last_worked": "2031-03-07T17:46:40+00:00"}, "now"),
        ({"last_worked": None}, "-"),
    ],
    "state": [
        ({"state": "running"}, "running"),
        ({"state": "finished", "failed": 2, "unjudged": 0}, "2 failed"),
        ({"state": "finished", "failed": 0, "unjudged": 4}, "not judged"),
        ({"state": "finished", "failed": 0, "unjudged": 0}, ""),
    ],
}


@pytest.mark.parametrize("heading", CELLS)
def test_cells(tmp_path: Path, heading: str) -> None:
    table = run_list_table([], tmp_path, NOON)
    (column,) = [column for column in table.columns if column.heading == heading]
    for row, shown in CELLS[heading]:
        assert column.show(row) == shown


def test_times_that_no_clock_shows_are_left_out(tmp_path: Path) -> None:
    stamps = ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "soon"]
    for place, stamp in enumerate(stamps):
        version(tmp_path, f"r{place}", sessions=[{"start": stamp, "end": stamp}])
    listed = list_runs(listed_directories(tmp_path))
    assert len(run_list_table(listed, tmp_path, NOON).rows) == 3
    assert all(isinstance(run, ListedRun) and run.last_worked for run in listed)
