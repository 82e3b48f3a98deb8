"""Names, folders and patterns are resolved to runs over the same data, and of one agent where a folder has several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import Row, changed_manifest, made_run
from made_talks import made_talk
from written_files import write_lines

from cts_async.errors import InputError, UsageError
from cts_async.runs.finished import read_path, read_run
from cts_async.runs.selection import RunPath, check_same_data, find_runs, runs_of_latest_agent, sibling_origs

ROWS = [Row("q1", score=10.0)]
FULL = {"id": "N1", "weight": 3, "coverage": "full"}


def paths(*words: object) -> list[Path]:
    return [run.path for run in find_runs([str(word) for word in words])]


def candidates(folder: Path, name: str, gold_sha256: str) -> Path:
    write_lines(folder / name / "run.json", {"identity": {"system": name, "gold_sha256": gold_sha256}})
    return folder / name


def test_folder_pattern_and_name_stand_for_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpt, orig = (made_run(tmp_path / "runs", label=label, rows=ROWS) for label in ("gpt-k1", "orig"))
    talk = made_talk(tmp_path / "runs", scheme="cot", rows={"a": []})
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / ".gitkeep").touch()
    folder = tmp_path / "runs"
    assert find_runs([str(folder), str(orig)]) == [
        RunPath(gpt, False),
        RunPath(orig, True),
        RunPath(talk, False),
    ]
    assert find_runs([str(orig), str(folder)]) == find_runs([str(folder), str(orig)])
    assert paths(folder / "made-*-k1", gpt, folder / "made-o*") == [gpt, orig]
    monkeypatch.chdir(tmp_path)
    assert paths("runs/made-o*") == [Path("runs/made-orig")]


def test_words_without_runs_are_refused(tmp_path: Path) -> None:
    for word in ("nowhere", "nowhere/*"):
        with pytest.raises(InputError, match="nowhere.*: no such run, folder or file"):
            find_runs([word])
    with pytest.raises(InputError, match=r"run\.json not found, here or one folder below"):
        find_runs([str(tmp_path)])


def test_judged_files_and_candidates_are_found(tmp_path: Path) -> None:
    release = write_lines(tmp_path / "release" / "ebk1" / "per_item.jsonl", {"id": "q1", "nuggets": [FULL]})
    (path,) = paths(tmp_path / "release")
    assert read_path(path).label == read_path(release).label == "ebk1"
    out = candidates(tmp_path, "judged", "abc")
    assert paths(out) == [out]  # a run that has just begun
    below = [candidates(out, name, "abc") for name in ("ebk1", "gptk1")]
    for directory in below:
        (directory / "per_item.jsonl").touch()
    assert paths(out) == below


def test_only_runs_of_same_data_and_gold_pair(tmp_path: Path) -> None:
    this, that = (made_run(tmp_path, label="orig", rows=ROWS, data=data) for data in ("this", "that"))
    check_same_data([this, candidates(tmp_path, "theirs-k1", "sha of this gold")])
    with pytest.raises(
        UsageError, match=r"this \(sha256 sha of t, gold sha of t\): .*this-orig; that .*that-"
    ):
        check_same_data([this, that])
    with pytest.raises(UsageError, match=r"gold fedcba98\): .*others-k1"):
        check_same_data([this, candidates(tmp_path, "others-k1", "fedcba9876543210")])


def run_of_agent(folder: Path, label: str, agent: str, *, day: int) -> Path:
    """A run whose last session began on a day of January."""
    row = Row("q", score=1.0)
    path = made_run(folder, label=label, rows=[row], players={"agent": agent}, name=f"{label}-{agent}-{day}")
    with changed_manifest(path) as manifest:
        manifest["sessions"] = [{"start": f"2026-01-0{day}"}]
    return path


def test_folder_with_origs_of_two_agents_gives_runs_of_one_agent(tmp_path: Path) -> None:
    """The latest agent's, and those that are named themselves; a lone orig, or one agent, changes nothing."""
    for label, agent, day in (("orig", "a", 1), ("gpt-k1", "a", 1), ("orig", "b", 2), ("gpt-k2", "b", 2)):
        run_of_agent(tmp_path, label, agent, day=day)
    notes: list[str] = []
    compared = runs_of_latest_agent(find_runs([str(tmp_path)]), notes.append)
    assert [run.path.name for run in compared] == ["gpt-k2-b-2", "orig-b-2"]
    left_out = f"{tmp_path / 'gpt-k1-a-1'} {tmp_path / 'orig-a-1'}"
    assert notes == [f"Left out, since their agent is a, not b (name them to see them): {left_out}"]
    words = [str(tmp_path / name) for name in ("orig-a-1", "gpt-k1-a-1")]
    assert len(runs_of_latest_agent(find_runs([*words, str(tmp_path)]), notes.append)) == 4
    assert len(runs_of_latest_agent(find_runs(words), notes.append)) == 2
    assert sibling_origs([tmp_path / "gpt-k1-a-1"]) == [tmp_path / "orig-a-1"]


def test_agent_of_the_orig_begun_last_is_compared_even_if_it_had_an_earlier_orig(tmp_path: Path) -> None:
    for agent, day in (("a", 1), ("b", 2), ("a", 3)):
        run_of_agent(tmp_path, "orig", agent, day=day)
    runs = runs_of_latest_agent(find_runs([str(tmp_path)]), lambda note: None)
    assert [run.path.name for run in runs] == ["orig-a-1", "orig-a-3"]


@pytest.mark.parametrize("sessions", [None, 1, {"start": "x"}, [1], ["x"], [{"start": 1}, None]])
def test_malformed_sessions_do_not_matter(tmp_path: Path, sessions: object) -> None:
    for agent in "ab":
        path = made_run(tmp_path, label="orig", rows=ROWS, players={"agent": agent}, name=agent) / "run.json"
        manifest = json.loads(path.read_text()) | {"sessions": sessions}
        path.write_text(json.dumps(manifest))
    (run,) = runs_of_latest_agent(find_runs([str(tmp_path)]), lambda note: None)
    assert read_run(run.path).models == {}
