"""Runs side by side: every score and label stands in the row of its instance, whatever order it came in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_runs import Row, made_run

from cts_async.analysis.board import Board, make_board
from cts_async.errors import UsageError
from cts_async.runs.finished import FinishedRun, Item, JudgedLabels, read_run


def board_of(*directories: Path) -> Board:
    return make_board(read_run(directory, without=["answer"]) for directory in directories)


def test_board_holds_scores_by_instance_and_run(tmp_path: Path) -> None:
    gpt = made_run(tmp_path, label="gpt-k1", rows=[Row("q2", score=20.0), Row("q1", score=10.0)])
    orig = made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0), Row("q3", score=3.0)])
    board = board_of(gpt, orig)
    assert board.ids == ("q1", "q2", "q3")
    assert board.systems == ("orig", "gpt-k1")
    nan = float("nan")
    np.testing.assert_equal(board.scores["ernie"], [[1.0, 10.0], [nan, 20.0], [3.0, nan]])


def test_board_holds_labels_by_nugget(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=[Row("q1", labels={"ernie": "fp"})])
    rows = [Row("q0", labels={"ernie": "pnf", "gpt": "nnn"}), Row("q1", labels={"ernie": "nf"})]
    board = board_of(orig, made_run(tmp_path, label="gpt-k1", rows=rows))
    assert board.labels["ernie"].T.tolist() == [[-1, -1, -1, 2, 1], [1, 0, 2, 0, 2]]
    assert board.labels["gpt"].T.tolist() == [[-1] * 5, [0, 0, 0, -1, -1]]


def test_entrants_are_ordered_by_reference_budget_and_name(tmp_path: Path) -> None:
    labels = ("gpt-k3", "kimi-k1", "gold", "gpt-k1", "orig")
    made = [made_run(tmp_path, label=label, rows=[Row("q1", score=1.0)]) for label in labels]
    assert board_of(*made).systems == ("orig", "gold", "gpt-k1", "kimi-k1", "gpt-k3")


def test_runs_of_one_system_are_named_after_directories(tmp_path: Path) -> None:
    made = [made_run(tmp_path, label="gpt-k1", rows=[Row("q1", score=1.0)], name=name) for name in ("a", "b")]
    other = made_run(tmp_path / "c", label="kimi-k1", rows=[Row("q1", score=1.0)])
    assert board_of(*made, other).systems == ("a", "b", "kimi-k1")


def test_most_frequent_scoring_judge_comes_first(tmp_path: Path) -> None:
    one = made_run(tmp_path, label="a-k1", rows=[Row("q1", labels={"zoe": "f", "adam": "f"})])
    two = made_run(tmp_path, label="b-k1", rows=[Row("q1", labels={"zoe": "f", "adam": "f"})])
    three = made_run(tmp_path, label="c-k1", rows=[Row("q1", labels={"adam": "f", "bob": "f"})])
    assert board_of(one, two, three).judges == ("zoe", "adam", "bob")


def test_different_nuggets_for_one_instance_are_refused(tmp_path: Path) -> None:
    one = made_run(tmp_path, label="orig", rows=[Row("q1", labels={"ernie": "fp"})])
    two = made_run(tmp_path, label="gpt-k1", rows=[Row("q1", labels={"ernie": "fpn"})])
    with pytest.raises(UsageError, match="q1 was judged by other nuggets"):
        board_of(one, two)


def known_by_query(query: str, coverage: dict[str, str]) -> FinishedRun:
    verdict = JudgedLabels(50.0, coverage, dict.fromkeys(coverage, 1.0))  # type: ignore[arg-type]
    item = Item(query, query, verdicts={"ernie": verdict})
    return FinishedRun(Path("x"), "theirs", "theirs", ("ernie",), 1, 0, 1, {query: item})


def test_file_without_ids_is_joined_by_query(tmp_path: Path) -> None:
    ours = made_run(tmp_path, label="orig", rows=[Row("q1", labels={"ernie": "fn"}, fused_query="winter")])
    board = make_board([read_run(ours), known_by_query("winter", {"N2": "full", "N1": "none"})])
    assert board.ids == ("q1",)
    assert board.labels["ernie"].tolist() == [[2, 0], [0, 2]]


def test_join_by_query_does_not_depend_on_file_order(tmp_path: Path) -> None:
    rows = [Row(id, labels={"ernie": "fn"}, fused_query="winter") for id in ("q1", "q2")]
    ours = read_run(made_run(tmp_path, label="orig", rows=rows))
    board = make_board([known_by_query("winter", {"N2": "full", "N1": "none"}), ours])
    assert board.ids == ("q1", "q2")
    assert np.isnan(board.scores["ernie"]).sum(axis=1).tolist() == [0, 1]


def changed(directory: Path, id: str, **fields: object) -> None:
    """Put other values into the line of an instance, as an editor may."""
    path = directory / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line | fields if line["id"] == id else line) + "\n" for line in lines))


def test_contradicting_stored_scores_are_recomputed_and_reported(tmp_path: Path) -> None:
    """Full and none of equal weights are 50, whatever is stored; a superseded line is not reported."""
    rows = [Row(f"q{i}", labels={"ernie": "fn", "gpt": "ff"}) for i in range(5)]
    run = made_run(tmp_path, label="orig", rows=rows)
    right = (run / "results.jsonl").read_text().splitlines(keepends=True)
    for id in ("q4", "q1", "q2"):
        changed(run, id, restore_score_100=99)
    with (run / "results.jsonl").open("a") as file:
        file.write(right[4])
    verdicts = run / "judgments" / "gpt.jsonl"
    verdicts.write_text(verdicts.read_text().replace("100.0", "3.0", 2))
    board = board_of(run)
    assert board.scores["ernie"].tolist() == [[50.0]] * 5
    assert board.scores["gpt"].tolist() == [[100.0]] * 5
    assert board.remarks == (
        f"{run / 'results.jsonl'}: 2 stored scores contradict their nuggets, and are recomputed: 'q1' says 99, its "
        "nuggets give 50; 'q2' says 99, its nuggets give 50.",
        f"{verdicts}: 2 stored scores contradict their nuggets, and are recomputed: 'q0' says 3, its nuggets give 100; "
        "'q1' says 3, its nuggets give 100.",
    )


def test_different_weights_are_reported_and_one_gold_is_used(tmp_path: Path) -> None:
    """Full at 3 and none at 1 is 75; the other run's weights of 1 and 1 would make it 50."""
    one, other = (
        made_run(tmp_path, label=label, rows=[Row("q1", labels={"ernie": "fn"}, weights=weights)])
        for label, weights in (("a-k1", (3, 1)), ("b-k1", (1, 1)))
    )
    board = board_of(one, other)
    assert board.scores["ernie"].tolist() == [[75.0, 75.0]]
    assert board.remarks == (
        "Weights differ between runs, so not all were judged by the same gold: "
        f"nugget 'N1' of 'q1' weighs 3 in {one} and 1 in {other}. Scores are recomputed with the weights named first.",
    )
