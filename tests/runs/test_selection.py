"""Names, folders and patterns are resolved to runs, of which a folder shows the newest versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import Row, changed_manifest, made_run
from made_talks import made_talk
from written_files import write_lines

from cts_async.errors import InputError, UsageError
from cts_async.runs.finished import read_path, read_run
from cts_async.runs.selection import RunPath, check_same_data, find_runs, run_folders, sibling_origs

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
        RunPath(orig, True, True),
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


def test_orig_beside_a_run_has_its_agent(tmp_path: Path) -> None:
    for label, agent in (("orig", "a"), ("gpt-k1", "a"), ("orig", "b")):
        made_run(tmp_path, label=label, rows=ROWS, players={"agent": agent}, name=f"{label}-{agent}")
    assert sibling_origs([tmp_path / "gpt-k1-a"]) == [tmp_path / "orig-a"]


def version(
    folder: Path, series: str, number: int, *, day: int, label: str = "gpt-k1", gold: str = ""
) -> Path:
    """A version of a run, whose last session began on a day of January; `gold` is another gold than the usual."""
    name = series if number == 1 else f"{series}.v{number}"
    path = made_run(folder, label=label, rows=ROWS, name=name)
    with changed_manifest(path) as manifest:
        manifest["sessions"] = [{"start": f"2026-01-0{day}"}]
        if number > 1:
            manifest["run_version"] = number
        if gold:
            manifest["identity"]["data"]["gold_sha256"] = gold
    return path


def names(words: list[Path | str], **options: bool) -> tuple[list[str], list[str]]:
    """The names of the runs that words select, and the notes."""
    notes: list[str] = []
    runs = find_runs([str(word) for word in words], notes.append, **options)
    return [run.path.name for run in runs], notes


def test_folder_shows_newest_version_of_each_lineage(tmp_path: Path) -> None:
    """v1 was resumed last of a's three; of b there is one."""
    for number, day in ((1, 3), (2, 1), (3, 2)):
        version(tmp_path, "a", number, day=day)
    version(tmp_path, "b", 1, day=1)
    left_out = ["2 older versions left out (--all-versions shows them)"]
    assert names([tmp_path]) == names([tmp_path / "*"]) == (["a", "b"], left_out)
    assert names([tmp_path], all_versions=True) == (["a", "a.v2", "a.v3", "b"], [])
    # By path, in any order of the words, beside the folder or as a shell expands a pattern.
    one_less = ["1 older version left out (--all-versions shows it)"]
    assert names([tmp_path, tmp_path / "a.v2"]) == (["a", "a.v2", "b"], one_less)
    assert names([tmp_path / "a.v2", tmp_path]) == (["a", "a.v2", "b"], one_less)
    assert names(list(tmp_path.iterdir())) == (["a", "a.v2", "a.v3", "b"], [])
    assert names([tmp_path / "a.v*"]) == (["a.v3"], one_less)


def test_newest_version_counts_whatever_name_its_series_has(tmp_path: Path) -> None:
    """Series that differ in the judge are one lineage."""
    version(tmp_path, "a", 1, day=1)
    with changed_manifest(version(tmp_path, "a+judge-kimi", 1, day=2)) as manifest:
        manifest["lineage"] = "a"
    assert names([tmp_path])[0] == ["a+judge-kimi"]


def test_older_orig_stays_for_a_system_that_was_not_run_again(tmp_path: Path) -> None:
    """The gold changed twice: kimi has seen the second one only, and nobody the first one any more."""
    for number, gold in enumerate(("first", "second", "third"), start=1):
        version(tmp_path, "orig", number, day=number, label="orig", gold=gold)
    version(tmp_path, "gpt-k1", 3, day=3, gold="third")
    version(tmp_path, "kimi-k1", 2, day=2, label="kimi-k1", gold="second")
    shown = ["gpt-k1.v3", "kimi-k1.v2", "orig.v2", "orig.v3"]
    assert names([tmp_path]) == (shown, ["1 older version left out (--all-versions shows it)"])


def test_folders_of_runs_to_audit_or_judge_know_versions(tmp_path: Path) -> None:
    for number in (1, 2):
        version(tmp_path, "a", number, day=number)
    notes: list[str] = []
    words = [tmp_path, tmp_path / "nowhere"]
    assert run_folders(words, notes.append, remedy="name them") == [tmp_path / "a.v2", tmp_path / "nowhere"]
    assert notes == ["1 older version left out (name it)"]
    assert len(run_folders(words, all_versions=True)) == 3
    assert run_folders([tmp_path / "a", tmp_path]) == [tmp_path / "a", tmp_path / "a.v2"]


@pytest.mark.parametrize("sessions", [None, 1, {"start": "x"}, [1], ["x"], [{"start": 1}, None]])
def test_malformed_sessions_do_not_matter(tmp_path: Path, sessions: object) -> None:
    for name in "ab":
        path = made_run(tmp_path, label="orig", rows=ROWS, name=name) / "run.json"
        manifest = json.loads(path.read_text()) | {"sessions": sessions}
        path.write_text(json.dumps(manifest))
    for run in find_runs([str(tmp_path)]):
        assert read_run(run.path).models == {}
