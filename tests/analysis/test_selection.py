"""Names, folders and patterns are resolved to runs over the same data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import Row, made_run
from made_talks import made_talk

from cts_async.analysis.selection import (
    check_same_data,
    find_all,
    find_runs,
    read_run_set,
    reader,
    run_directories,
)
from cts_async.errors import InputError, UsageError

ROWS = [Row("q1", score=10.0)]


def candidates(folder: Path, name: str, gold_sha256: str) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"identity": {"system": name, "gold_sha256": gold_sha256}}))
    return path


def test_folder_stands_for_its_runs(tmp_path: Path) -> None:
    made = [made_run(tmp_path, label=label, rows=ROWS) for label in ("gpt-k1", "orig")]
    (tmp_path / "notes").mkdir()
    (tmp_path / ".gitkeep").touch()
    assert find_runs([str(tmp_path)], print) == made


def test_pattern_stands_for_matches_without_duplicates(tmp_path: Path) -> None:
    orig, gpt = (made_run(tmp_path, label=label, rows=ROWS) for label in ("orig", "gpt-k1"))
    made_run(tmp_path, label="orig", rows=ROWS, data="other")
    assert find_runs([str(orig), str(tmp_path / "made-*"), str(orig)], print) == [gpt, orig]


def test_pattern_is_relative_to_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs", label="orig", rows=ROWS)
    monkeypatch.chdir(tmp_path)
    assert find_runs(["runs/*"], print) == [Path("runs/made-orig")]


@pytest.mark.parametrize("word", ["nowhere", "nowhere/*"])
def test_missing_path_is_reported(word: str) -> None:
    with pytest.raises(InputError, match="nowhere.*: no such run, folder or file"):
        find_runs([word], print)


def test_folder_without_runs_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run found \(neither run\.json nor per_item\.jsonl"):
        find_runs([str(tmp_path)], print)


def test_folder_of_release_output_is_found(tmp_path: Path) -> None:
    (tmp_path / "ebk1").mkdir()
    nugget = {"id": "N1", "weight": 1, "coverage": "full"}
    (tmp_path / "ebk1" / "per_item.jsonl").write_text(json.dumps({"id": "q1", "nuggets": [nugget]}) + "\n")
    (path,) = find_runs([str(tmp_path)], print)
    assert reader(path)().label == reader(path / "per_item.jsonl")().label == "ebk1"


def test_candidates_below_common_manifest_are_found(tmp_path: Path) -> None:
    out = candidates(tmp_path, "judged", "abc")
    below = [candidates(out, name, "abc") for name in ("ebk1", "gptk1")]
    for path in below:
        (path / "per_item.jsonl").touch()
    assert find_runs([str(out)], print) == below


def test_run_without_results_is_found(tmp_path: Path) -> None:
    begun = candidates(tmp_path, "begun", "abc")
    assert find_runs([str(begun)], print) == [begun]


def test_runs_and_candidates_of_same_gold_pair(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=ROWS)
    check_same_data([orig, candidates(tmp_path, "theirs-k1", "sha of made gold")])


def test_runs_of_different_data_are_refused(tmp_path: Path) -> None:
    one, two = (made_run(tmp_path, label="orig", rows=ROWS, data=data) for data in ("this", "that"))
    with pytest.raises(
        UsageError, match=r"this \(sha256 sha of t, gold sha of t\): .*this-orig; that .*that-orig"
    ):
        check_same_data([one, two])


def test_candidates_of_other_gold_are_refused(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=ROWS)
    with pytest.raises(UsageError, match="gold fedcba98: .*theirs-k1"):
        check_same_data([orig, candidates(tmp_path, "theirs-k1", "fedcba9876543210")])


def test_conversations_are_found_by_find_all_only(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a", score=50)])
    talk = made_talk(tmp_path, scheme="cot", rows={"a": []})
    assert find_runs([str(tmp_path)], print) == [run]
    assert sorted(find_all([str(tmp_path)], print)) == sorted([run, talk])


ASKED = Row("a", ["when?"], ["unknown"], score=20.0)
ORIG = Row("a", score=10.0)


def made(folder: Path, *labels: str, data: str = "made") -> list[Path]:
    return [
        made_run(folder, label=label, data=data, rows=[ORIG if label == "orig" else ASKED])
        for label in labels
    ]


def test_run_set_takes_directory_folder_or_pattern(tmp_path: Path) -> None:
    gpt, kimi = made(tmp_path, "gpt-k1", "kimi-k1")
    assert run_directories([str(gpt)], print) == ((gpt,), ())
    assert run_directories([str(tmp_path)], print) == ((), (gpt, kimi))
    assert run_directories([str(tmp_path / "made-*-k1"), str(gpt)], print) == ((gpt, kimi), ())
    assert run_directories([str(tmp_path), str(kimi)], print) == ((kimi,), (gpt,))


@pytest.mark.parametrize(
    ("path", "problem"),
    [("nowhere", "no such run directory"), (".", "run.json not found"), ("x-*", "matches no run directory")],
)
def test_run_set_without_runs_is_refused(tmp_path: Path, path: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        run_directories([str(tmp_path / path)], print)


def test_run_set_is_sorted_by_k_and_label(tmp_path: Path) -> None:
    paths = made(tmp_path, "qwen-k2", "qwen-k1", "gpt-k1", "orig")
    found = read_run_set([str(path) for path in paths])
    assert [run.label for run in found.runs] == ["gpt-k1", "qwen-k1", "qwen-k2"]
    assert found.orig is not None
    assert found.notes == ()


def test_orig_beside_runs_is_found_over_same_data(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path, "gpt-k1", "orig")
    made(tmp_path, "orig", data="other")
    found = read_run_set([str(gpt)])
    assert found.orig is not None
    assert found.orig.directory == orig
    assert found.notes == (f"gains are over {orig}",)


def test_missing_orig_is_noted_with_option(tmp_path: Path) -> None:
    [gpt] = made(tmp_path, "gpt-k1")
    [other] = made(tmp_path / "elsewhere", "orig")
    found = read_run_set([str(gpt)])
    assert found.orig is None
    assert "no gains: there is no orig run over the same data here; name one with --orig DIR" in found.notes
    named = read_run_set([str(gpt)], other)
    assert named.orig is not None
    assert named.notes == ()


def test_two_origs_are_refused(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path, "gpt-k1", "orig")
    again = made_run(tmp_path, label="orig", rows=[ORIG], name="again")
    with pytest.raises(UsageError, match=r"are both orig: choose one with --orig DIR"):
        read_run_set([str(gpt), str(orig), str(again)])
    beside = read_run_set([str(gpt)])
    assert beside.orig is None
    assert "could both be meant" in beside.notes[0]


def test_run_set_over_different_data_is_refused(tmp_path: Path) -> None:
    [hard] = made(tmp_path, "gpt-k1", data="hard518")
    [sample] = made(tmp_path, "gpt-k1", data="sample")
    with pytest.raises(
        UsageError, match=r"hard518 \(sha256 .*hard518-gpt-k1; sample \(sha256 .*sample-gpt-k1"
    ):
        read_run_set([str(hard), str(sample)])


def test_run_set_over_other_gold_is_refused(tmp_path: Path) -> None:
    one, two = made(tmp_path, "gpt-k1", "kimi-k1")
    text = (two / "run.json").read_text().replace("sha of made gold", "another gold")
    (two / "run.json").write_text(text)
    with pytest.raises(UsageError, match=r"gold sha of m.*made-gpt-k1; .*gold another.*made-kimi-k1"):
        read_run_set([str(one), str(two)])


def test_unfinished_run_is_read_only_when_named(tmp_path: Path) -> None:
    [gpt, _] = made(tmp_path, "gpt-k1", "orig")
    part = made_run(tmp_path, label="kimi-k1", rows=[ASKED], n_expected=5)
    named = read_run_set([str(gpt), str(part)])
    assert [run.label for run in named.runs] == ["gpt-k1", "kimi-k1"]
    assert f"{part}: not finished (1 of 5 instances)" in named.notes
    folder = read_run_set([str(tmp_path)])
    assert [run.label for run in folder.runs] == ["gpt-k1"]
    assert f"{part}: not finished, left out (1 of 5 instances)" in folder.notes


def test_failed_instances_count_as_finished(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", rows=[ASKED, Row("b", error="search")])
    made(tmp_path, "orig")
    assert [found.n_failed for found in read_run_set([str(tmp_path)]).runs] == [1]
    assert read_run_set([str(run)]).runs[0].n_failed == 1


def test_reference_run_alone_is_refused(tmp_path: Path) -> None:
    [orig] = made(tmp_path, "orig")
    with pytest.raises(UsageError, match="orig asks nothing; name a Clarifier's run"):
        read_run_set([str(orig)])


def test_folder_without_finished_runs_is_refused(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=[ASKED], n_expected=5)
    with pytest.raises(UsageError, match="none of its 1 runs has finished"):
        read_run_set([str(tmp_path)])


def test_runs_with_equal_labels_are_named_after_directories(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=[ASKED], name="first")
    made_run(tmp_path, label="gpt-k1", rows=[ASKED], name="second")
    assert [run.label for run in read_run_set([str(tmp_path)]).runs] == ["first", "second"]


def test_clarifier_run_as_orig_is_refused(tmp_path: Path) -> None:
    gpt, kimi = made(tmp_path, "gpt-k1", "kimi-k1")
    with pytest.raises(UsageError, match=r"kimi-k1: a Clarifier's run \(kimi-k1\)"):
        read_run_set([str(gpt)], kimi)


def test_damaged_directory_beside_runs_is_ignored(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path, "gpt-k1", "orig")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"identity":')
    found = read_run_set([str(gpt)])
    assert found.orig is not None
    assert found.orig.directory == orig


def test_run_without_finished_instances_is_refused(tmp_path: Path) -> None:
    gpt = made_run(tmp_path, label="gpt-k1", rows=[])
    with pytest.raises(
        UsageError, match=r"no instance has finished yet; the command that began it resumes it"
    ):
        read_run_set([str(gpt)])
