"""Finished runs are read as they were written: the last line of an id counts, and a failure is no score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.runs import FinishedRun, named_system, read_run
from cts_async.errors import InputError


def append(path: Path, *lines: object) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def verdict(id: str, coverage: str, score: float, **fields: object) -> dict[str, object]:
    nuggets = [{"id": "N1", "weight": 2, "coverage": coverage}]
    return {"id": id, "nuggets": nuggets, "restore_score_100": score, **fields}


def test_a_run_is_read_with_what_it_was_and_what_it_says(tmp_path: Path) -> None:
    row = Row("q1", ["Where?", "When?"], ["unknown", "May"], labels={"ernie": "fpn"}, weights=[3, 2, 1])
    run = read_run(made_run(tmp_path, label="gpt-k2", rows=[row]))
    assert (run.label, run.clarifier, run.k, run.judges) == ("gpt-k2", "gpt", 2, ("ernie",))
    assert run.players["support"] == "ernie"
    assert run.data["sha256"] == "sha of made"
    item = run.items["q1"]
    assert item.unknown == (True, False)
    assert item.verdicts["ernie"].score == pytest.approx(100 * 4 / 6)
    assert dict(item.verdicts["ernie"].coverage) == {"N1": "full", "N2": "partial", "N3": "none"}
    assert dict(item.verdicts["ernie"].weights) == {"N1": 3.0, "N2": 2.0, "N3": 1.0}


def test_failed_and_missing_instances_are_counted_apart(tmp_path: Path) -> None:
    rows = [Row("q1", score=10.0), Row("q2", error="clarify"), Row("q3", score=0.0)]
    run = read_run(made_run(tmp_path, label="orig", rows=rows, n_expected=8))
    assert (len(run.items), run.n_failed, run.n_missing, run.n_expected) == (2, 1, 5, 8)
    assert run.scores("ernie") == {"q1": 10.0, "q3": 0.0}


def test_a_retried_failure_is_a_score_and_a_later_failure_takes_one_away(tmp_path: Path) -> None:
    rows = [Row("q1", error="search"), Row("q2", score=40.0), Row("q1", score=30.0), Row("q2", error="judge")]
    run = read_run(made_run(tmp_path, label="orig", rows=rows))
    assert run.scores("ernie") == {"q1": 30.0}
    assert list(run.items) == ["q1"]
    assert run.n_failed == 1


def test_the_scoring_judge_stands_first_and_further_ones_by_name(tmp_path: Path) -> None:
    labels = {"kimi": "f", "gpt": "p", "claude": "n"}
    run = read_run(made_run(tmp_path, label="orig", rows=[Row("q1", labels=labels)]))
    assert run.judges == ("kimi", "claude", "gpt")
    assert [run.scores(judge)["q1"] for judge in run.judges] == [100.0, 0.0, 50.0]


def test_a_further_judges_failure_is_counted_and_its_retry_counts_instead(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0), Row("q2", score=2.0)])
    error = {"error": {"step": "judge", "kind": "rejected", "message": "no"}, "judge": "gpt"}
    path = directory / "judgments" / "gpt.jsonl"
    append(path, {"id": "q1", **error}, {"id": "q2", **error}, verdict("q2", "full", 100.0, judge="gpt"))
    run = read_run(directory)
    assert run.scores("gpt") == {"q2": 100.0}
    assert run.judge_failures == {"gpt": 1}


def test_a_verdict_on_an_answer_that_is_not_there_does_not_count(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0), Row("q2", error="search")])
    lines = [verdict(id, "full", 100.0, judge="gpt") for id in ("q1", "q2", "q3")]
    append(directory / "judgments" / "gpt.jsonl", *lines)
    assert read_run(directory).scores("gpt") == {"q1": 100.0}


def test_an_unjudged_run_has_answers_and_no_judges(tmp_path: Path) -> None:
    run = read_run(made_run(tmp_path, label="orig", rows=[Row("q1")]))
    assert run.judges == ()
    assert run.items["q1"].answer == "an answer"


def test_answers_can_be_left_out(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0)])
    assert read_run(directory, without=["answer"]).items["q1"].answer == ""


def test_equal_labels_are_held_once(tmp_path: Path) -> None:
    rows = [Row(id, labels={"ernie": "fp"}) for id in ("q1", "q2")]
    items = read_run(made_run(tmp_path, label="orig", rows=rows)).items
    assert items["q1"].verdicts["ernie"].coverage is items["q2"].verdicts["ernie"].coverage


def judged_candidates(folder: Path) -> FinishedRun:
    folder.mkdir()
    identity = {"system": "gpt-k1", "candidates": "x.jsonl", "gold_sha256": "abc", "judges": ["ernie"]}
    (folder / "run.json").write_text(json.dumps({"identity": identity, "n_expected": 2}))
    append(
        folder / "per_item.jsonl", verdict("q1", "partial", 50.0, judge="ernie"), verdict("q2", "none", 0.0)
    )
    return read_run(folder)


def test_judged_candidates_are_read_too_and_the_manifest_names_their_judge(tmp_path: Path) -> None:
    run = judged_candidates(tmp_path / "out")
    assert (run.label, run.k, run.judges, run.n_missing) == ("gpt-k1", 1, ("ernie",), 0)
    assert run.data == {"gold_sha256": "abc"}


def test_no_run_is_said_with_the_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json not found"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("ebk1__cand_hard518", ("ebk1", 1)),
        ("orig__cand_hard518", ("orig", 0)),
        ("gpt-k3", ("gpt-k3", 3)),
        ("k2-gpt", ("k2-gpt", 0)),
        ("__cand", ("__cand", 0)),
    ],
)
def test_the_name_of_answers_says_system_and_budget(name: str, system: tuple[str, int]) -> None:
    assert named_system(name) == system
