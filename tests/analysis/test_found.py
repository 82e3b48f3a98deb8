"""What a user names is found, each once; runs of different data are not mixed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import Row, made_run
from made_talks import made_talk

from cts_async.analysis.selection import check_same_data, find_all, find_runs, reader
from cts_async.errors import InputError, UsageError

ROWS = [Row("q1", score=10.0)]


def candidates(folder: Path, name: str, gold_sha256: str) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"identity": {"system": name, "gold_sha256": gold_sha256}}))
    return path


def test_a_folder_stands_for_the_runs_in_it(tmp_path: Path) -> None:
    made = [made_run(tmp_path, label=label, rows=ROWS) for label in ("gpt-k1", "orig")]
    (tmp_path / "notes").mkdir()
    (tmp_path / ".gitkeep").touch()
    assert find_runs([str(tmp_path)], print) == made


def test_a_pattern_stands_for_what_matches_and_nothing_is_named_twice(tmp_path: Path) -> None:
    orig, gpt = (made_run(tmp_path, label=label, rows=ROWS) for label in ("orig", "gpt-k1"))
    made_run(tmp_path, label="orig", rows=ROWS, data="other")
    assert find_runs([str(orig), str(tmp_path / "made-*"), str(orig)], print) == [gpt, orig]


def test_a_pattern_within_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs", label="orig", rows=ROWS)
    monkeypatch.chdir(tmp_path)
    assert find_runs(["runs/*"], print) == [Path("runs/made-orig")]


@pytest.mark.parametrize("word", ["nowhere", "nowhere/*"])
def test_what_is_not_there_is_named(word: str) -> None:
    with pytest.raises(InputError, match="nowhere.*: no such run, folder or file"):
        find_runs([word], print)


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run found \(neither run\.json nor per_item\.jsonl"):
        find_runs([str(tmp_path)], print)


def test_a_folder_with_nothing_but_the_releases_output_is_read(tmp_path: Path) -> None:
    (tmp_path / "ebk1").mkdir()
    nugget = {"id": "N1", "weight": 1, "coverage": "full"}
    (tmp_path / "ebk1" / "per_item.jsonl").write_text(json.dumps({"id": "q1", "nuggets": [nugget]}) + "\n")
    (path,) = find_runs([str(tmp_path)], print)
    assert reader(path)().label == reader(path / "per_item.jsonl")().label == "ebk1"


def test_several_judged_candidates_are_found_below_their_common_manifest(tmp_path: Path) -> None:
    out = candidates(tmp_path, "judged", "abc")
    below = [candidates(out, name, "abc") for name in ("ebk1", "gptk1")]
    for path in below:
        (path / "per_item.jsonl").touch()
    assert find_runs([str(out)], print) == below


def test_a_run_that_has_just_begun_is_one(tmp_path: Path) -> None:
    begun = candidates(tmp_path, "begun", "abc")
    assert find_runs([str(begun)], print) == [begun]


def test_runs_of_the_same_data_and_candidates_of_its_gold_go_together(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=ROWS)
    check_same_data([orig, candidates(tmp_path, "theirs-k1", "sha of made gold")])


def test_runs_of_different_data_are_refused_with_their_names(tmp_path: Path) -> None:
    one, two = (made_run(tmp_path, label="orig", rows=ROWS, data=data) for data in ("this", "that"))
    with pytest.raises(
        UsageError, match=r"this \(sha256 sha of t, gold sha of t\): .*this-orig; that .*that-orig"
    ):
        check_same_data([one, two])


def test_candidates_of_another_gold_are_refused(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=ROWS)
    with pytest.raises(UsageError, match="gold fedcba98: .*theirs-k1"):
        check_same_data([orig, candidates(tmp_path, "theirs-k1", "fedcba9876543210")])


def test_conversations_alone_are_found_by_those_who_want_them(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a", score=50)])
    talk = made_talk(tmp_path, scheme="cot", rows={"a": []})
    assert find_runs([str(tmp_path)], print) == [run]
    assert sorted(find_all([str(tmp_path)], print)) == sorted([run, talk])
