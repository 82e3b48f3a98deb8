"""`cts runs`: the runs of a folder listed, compared and removed from the command line."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from made_runs import Row, changed_manifest, made_run
from typed_commands import Cts

from cts_async.runs.directory import locked

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


# --- Removal


def answered(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Make standard input and error a terminal on which somebody types an answer."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def journal(run: Path, origin: str) -> None:
    line = {"key": "0" * 32, "ok": True, "instance": "a", "step": "judge", "response": {}, "reused": origin}
    (run / "steps.jsonl").write_text(json.dumps(line, separators=(",", ":")) + "\n")


def test_removal_asks_and_no_is_no(cts: Cts, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = two_versions(Path("runs"))
    (first / "notes.txt").write_text("mine")
    for answer, left in (("\n", True), ("no\n", True), ("y\n", False)):
        answered(monkeypatch, answer)
        done = cts("runs", "rm", "ask", "runs/ask/")
        assert done.code == 0
        assert done.err.startswith("Remove 1 run (")
        assert "runs/ask stays, with what cts did not write: notes.txt" in done.out
        assert done.out.splitlines()[-1] == ("nothing was removed" if left else "removed 1 run")
        assert (first / "run.json").exists() == left
    assert (first / "notes.txt").read_text() == "mine"
    assert second.exists()


def test_removal_without_a_terminal_is_refused_in_one_line(cts: Cts) -> None:
    first, _ = two_versions(Path("runs"))
    done = cts("runs", "rm", "ask", "ask.v2")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "cts: no terminal to ask on: nothing was removed; add --yes to remove 2 runs ("
    )
    assert first.exists()
    done = cts("runs", "rm", "ask", "ask.v2", "--yes")
    assert (done.code, list(Path("runs").iterdir())) == (0, [])


def test_needed_or_written_run_is_refused_before_any_is_removed(cts: Cts) -> None:
    first, second = two_versions(Path("runs"))
    other = made_run(Path("runs"), label="gpt-k1", name="other", rows=[])
    journal(second, "ask")
    with changed_manifest(second) as manifest:
        manifest["n_expected"] = 5
    done = cts("runs", "rm", "other", "ask", "--yes")
    assert (done.code, done.err) == (
        2,
        "cts: runs/ask: other runs need its steps: ask.v2 is unfinished; finish these runs, or remove them too\n",
    )
    with locked(other):
        done = cts("runs", "rm", "ask", "ask.v2", "other", "--yes")
        assert (done.code, "runs/other: process" in done.err) == (2, True)
    assert (other.exists(), first.exists(), second.exists()) == (True, False, False)


@pytest.mark.parametrize("word", ["nothing", "cts.toml", "/", "."])
def test_what_is_no_run_is_refused_in_one_line(cts: Cts, word: str) -> None:
    two_versions(Path("runs"))
    done = cts("runs", "rm", word, "--yes")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert len(list(Path("runs").rglob("run.json"))) == 2


def test_folder_of_several_judged_systems_is_refused_and_one_of_them_removed(cts: Cts) -> None:
    made_run(Path("runs/judged"), label="gpt-k1", name="a", rows=[])
    Path("runs/judged/run.json").write_text(json.dumps({"identity": {}, "systems": ["a"]}))
    done = cts("runs", "rm", "judged", "--yes")
    assert (done.code, "runs/judged: several judged systems share its journal" in done.err) == (2, True)
    assert cts("runs", "rm", "judged/a", "--yes").code == 0
    assert [path.name for path in Path("runs/judged").iterdir()] == ["run.json"]


def test_run_that_is_a_link_is_refused_and_skipped_by_prune(cts: Cts) -> None:
    first, _ = two_versions(Path("runs"))
    first.rename("elsewhere")
    first.symlink_to(Path("elsewhere").absolute())
    done = cts("runs", "rm", "ask", "--yes")
    assert (done.code, "ask is a symbolic link" in done.err) == (2, True)
    done = cts("runs", "prune", "--keep", "1", "--yes")
    assert (done.code, done.out, done.err) == (0, "", "skipped runs/ask: is a symbolic link\n")
    assert Path("elsewhere/run.json").exists()


def test_prune_keeps_the_newest_versions_and_what_is_needed(cts: Cts) -> None:
    first, second = two_versions(Path("runs"))
    third = made_run(Path("runs"), label="gpt-k1", name="ask.v3", rows=[Row("a", score=50.0)], n_expected=2)
    single = made_run(Path("runs"), label="orig", name="orig", rows=[])
    with changed_manifest(third) as manifest:
        start = "2030-03-19T10:00:00+00:00"
        manifest |= {"run_version": 3, "sessions": [{"start": start, "end": start, "wall_s": 1.0}]}
    journal(third, "ask")
    assert cts("runs", "prune", "--keep", "3").out == (
        "nothing to remove: runs has at most 3 versions of each system\n"
    )
    assert cts("runs", "prune", "--keep", "1").code == 2
    done = cts("runs", "prune", "runs", "--keep", "1", "--yes")
    assert done.err == "skipped runs/ask: other runs need its steps: ask.v3 is unfinished\n"
    assert done.out.splitlines()[-1] == "removed 1 run"
    assert [run.exists() for run in (first, second, third, single)] == [True, False, True, True]


def test_interrupted_removal_is_finished_by_the_next_command(cts: Cts) -> None:
    first, second = two_versions(Path("runs"))
    Path("runs/.removing-ask").mkdir()
    first.rename("runs/.removing-ask/ask")
    assert "ask.v2" in cts("runs").out
    done = cts("runs", "rm", "ask")
    assert (done.code, done.err) == (0, "finished the interrupted removal of ask\n")
    assert list(Path("runs").iterdir()) == [second]
    # The name may be taken again: then its run is meant.
    Path("runs/.removing-ask.v2").mkdir()
    shutil.copytree(second, "runs/.removing-ask.v2/ask.v2")
    assert cts("runs", "rm", "ask.v2", "--yes").code == 0
    assert list(Path("runs").iterdir()) == []


def test_escapes_in_names_are_not_printed_when_removing(cts: Cts) -> None:
    run = made_run(Path("runs"), label="gpt-k1", name=f"x{ESC}", rows=[Row("a", score=50.0)])
    (run / f"y{ESC}").write_text("")
    with changed_manifest(run) as manifest:
        manifest["changed"] = [ESC]
    for words in ([], ["--yes"]):
        done = cts("runs", "rm", f"x{ESC}", *words)
        assert "\x1b" not in done.out + done.err
    assert [path.name for path in Path("runs").rglob("*")] == [f"x{ESC}", f"y{ESC}"]


# --- Differences


def test_version_alone_is_compared_with_its_origin(cts: Cts) -> None:
    two_versions(Path("runs"))
    alone = cts("runs", "diff", "ask.v2", "--json")
    assert (alone.code, alone.err) == (0, "")
    assert alone.out == cts("runs", "diff", "runs/ask", "ask.v2", "--json").out
    assert json.loads(alone.out)["settings"] == [{"name": "k", "before": 1, "after": 2}]
    assert cts("runs", "diff", "ask").err == (
        "cts: runs/ask: is the first version of its series; name the run to compare it with\n"
    )
    assert "version 2 of ask" in cts("runs", "diff", "ask.v2").out


def test_escapes_in_a_manifest_are_visible_in_the_differences(cts: Cts) -> None:
    _, second = two_versions(Path("runs"))
    with changed_manifest(second) as manifest:
        manifest["identity"][f"a{ESC}"] = f"b{ESC}"
        manifest["changed"] = [ESC]
        manifest["command"] = ESC
    done = cts("runs", "diff", "ask.v2")
    assert (done.code, "\x1b" in done.out) == (0, False)
    assert "b[U+001B][31m" in done.out
