"""Which runs are meant, that they belong together, and which orig goes with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.selection import read_run_set, run_directories
from cts_async.errors import InputError, UsageError

ASKED = Row("a", ["when?"], ["unknown"], score=20.0)
ORIG = Row("a", score=10.0)


def made(folder: Path, *labels: str, data: str = "made") -> list[Path]:
    return [
        made_run(folder, label=label, data=data, rows=[ORIG if label == "orig" else ASKED])
        for label in labels
    ]


def test_runs_are_named_by_directory_folder_and_pattern(tmp_path: Path) -> None:
    gpt, kimi = made(tmp_path, "gpt-k1", "kimi-k1")
    assert run_directories([str(gpt)], print) == ((gpt,), ())
    assert run_directories([str(tmp_path)], print) == ((), (gpt, kimi))
    assert run_directories([str(tmp_path / "made-*-k1"), str(gpt)], print) == ((gpt, kimi), ())
    assert run_directories([str(tmp_path), str(kimi)], print) == ((kimi,), (gpt,))


@pytest.mark.parametrize(
    ("path", "problem"),
    [("nowhere", "no such run directory"), (".", "run.json not found"), ("x-*", "matches no run directory")],
)
def test_where_there_is_no_run_it_is_said(tmp_path: Path, path: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        run_directories([str(tmp_path / path)], print)


def test_runs_are_sorted_by_k_and_label(tmp_path: Path) -> None:
    paths = made(tmp_path, "qwen-k2", "qwen-k1", "gpt-k1", "orig")
    found = read_run_set([str(path) for path in paths])
    assert [run.label for run in found.runs] == ["gpt-k1", "qwen-k1", "qwen-k2"]
    assert found.orig is not None
    assert found.notes == ()


def test_orig_is_found_beside_the_runs_when_it_is_over_the_same_data(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path, "gpt-k1", "orig")
    made(tmp_path, "orig", data="other")
    found = read_run_set([str(gpt)])
    assert found.orig is not None
    assert found.orig.directory == orig
    assert found.notes == (f"gains are over {orig}",)


def test_without_orig_it_is_said_how_to_name_one(tmp_path: Path) -> None:
    [gpt] = made(tmp_path, "gpt-k1")
    [other] = made(tmp_path / "elsewhere", "orig")
    found = read_run_set([str(gpt)])
    assert found.orig is None
    assert "no gains: there is no orig run over the same data here; name one with --orig DIR" in found.notes
    named = read_run_set([str(gpt)], other)
    assert named.orig is not None
    assert named.notes == ()


def test_two_origs_are_not_chosen_between(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path, "gpt-k1", "orig")
    again = made_run(tmp_path, label="orig", rows=[ORIG], name="again")
    with pytest.raises(UsageError, match=r"are both orig: choose one with --orig DIR"):
        read_run_set([str(gpt), str(orig), str(again)])
    beside = read_run_set([str(gpt)])
    assert beside.orig is None
    assert "could both be meant" in beside.notes[0]


def test_runs_over_different_data_are_refused_with_both_names(tmp_path: Path) -> None:
    [hard] = made(tmp_path, "gpt-k1", data="hard518")
    [sample] = made(tmp_path, "gpt-k1", data="sample")
    with pytest.raises(
        UsageError, match=r"hard518-gpt-k1 is over hard518, but .*sample-gpt-k1 is over sample"
    ):
        read_run_set([str(hard), str(sample)])


def test_another_gold_is_other_data(tmp_path: Path) -> None:
    one, two = made(tmp_path, "gpt-k1", "kimi-k1")
    text = (two / "run.json").read_text().replace("sha of made gold", "another gold")
    (two / "run.json").write_text(text)
    with pytest.raises(UsageError, match=r"with gold sha of made .* with gold another gold"):
        read_run_set([str(one), str(two)])


def test_a_run_that_has_not_finished_is_read_when_named_and_left_out_of_a_folder(tmp_path: Path) -> None:
    [gpt, _] = made(tmp_path, "gpt-k1", "orig")
    part = made_run(tmp_path, label="kimi-k1", rows=[ASKED], n_expected=5)
    named = read_run_set([str(gpt), str(part)])
    assert [run.label for run in named.runs] == ["gpt-k1", "kimi-k1"]
    assert f"{part}: not finished (1 of 5 instances)" in named.notes
    folder = read_run_set([str(tmp_path)])
    assert [run.label for run in folder.runs] == ["gpt-k1"]
    assert f"{part}: not finished, left out (1 of 5 instances)" in folder.notes


def test_failures_are_finished_instances(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", rows=[ASKED, Row("b", error="search")])
    made(tmp_path, "orig")
    assert [found.n_failed for found in read_run_set([str(tmp_path)]).runs] == [1]
    assert read_run_set([str(run)]).runs[0].n_failed == 1


def test_a_reference_alone_asks_nothing(tmp_path: Path) -> None:
    [orig] = made(tmp_path, "orig")
    with pytest.raises(UsageError, match="orig asks nothing; name a Clarifier's run"):
        read_run_set([str(orig)])


def test_a_folder_where_nothing_has_finished_says_so(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=[ASKED], n_expected=5)
    with pytest.raises(UsageError, match="none of its 1 runs has finished"):
        read_run_set([str(tmp_path)])


def test_runs_with_the_same_label_are_called_by_their_directories(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=[ASKED], name="first")
    made_run(tmp_path, label="gpt-k1", rows=[ASKED], name="second")
    assert [run.label for run in read_run_set([str(tmp_path)]).runs] == ["first", "second"]


def test_an_orig_that_asked_questions_is_refused(tmp_path: Path) -> None:
    gpt, kimi = made(tmp_path, "gpt-k1", "kimi-k1")
    with pytest.raises(UsageError, match=r"kimi-k1: a Clarifier's run \(kimi-k1\)"):
        read_run_set([str(gpt)], kimi)


def test_a_broken_directory_that_nobody_named_stops_nobody(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path, "gpt-k1", "orig")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"identity":')
    found = read_run_set([str(gpt)])
    assert found.orig is not None
    assert found.orig.directory == orig


def test_a_run_in_which_nothing_has_finished_has_no_tables(tmp_path: Path) -> None:
    gpt = made_run(tmp_path, label="gpt-k1", rows=[])
    with pytest.raises(
        UsageError, match=r"no instance has finished yet; the command that began it resumes it"
    ):
        read_run_set([str(gpt)])
