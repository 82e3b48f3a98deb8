"""A leaderboard of three systems over four instances, every number worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.compare import leaderboard
from cts_async.analysis.runs import read_run


def board_of(folder: Path, **scores: list[float | None]) -> Board:
    made = []
    for label, values in scores.items():
        rows = [
            Row(f"q{i}", error="search") if score is None else Row(f"q{i}", score=score)
            for i, score in enumerate(values)
        ]
        made.append(made_run(folder, label=label.replace("_", "-"), rows=rows, n_expected=4))
    return make_board(read_run(path) for path in made)


def test_means_differences_and_percentiles_by_hand(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[0.0, 10.0, 20.0, 30.0], gpt_k1=[5.0, 15.0, 25.0, 35.0])
    orig, gpt = leaderboard(board, "ernie", "orig")
    assert (orig.system, orig.scores.mean, orig.delta) == ("orig", 15.0, None)
    # 0 10 20 30: p50 lies between 10 and 20, p90 at 2.7 places: 20 + 0.7 * 10
    assert (orig.scores.p50, orig.scores.p90, orig.scores.min, orig.scores.max) == (15.0, 27.0, 0.0, 30.0)
    assert gpt.delta is not None
    assert (gpt.k, gpt.scores.mean, gpt.delta.mean, gpt.delta.low, gpt.delta.high) == (1, 20.0, 5.0, 5.0, 5.0)
    assert not gpt.partly_paired


def test_differences_are_over_the_instances_that_both_have(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[0.0, None, 20.0, 30.0], gpt_k1=[10.0, 90.0, 30.0])
    _, gpt = leaderboard(board, "ernie", "orig")
    assert (gpt.scores.n_scored, gpt.scores.n_failed, gpt.scores.n_expected) == (3, 0, 4)
    assert gpt.scores.mean == pytest.approx(130 / 3)
    assert gpt.delta is not None
    assert (gpt.delta.n, gpt.delta.mean) == (2, 10.0)
    assert gpt.partly_paired


def test_references_come_first_then_budgets_and_in_each_the_best(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[9.0], b_k1=[1.0], a_k1=[2.0], c_k1=[3.0], a_k2=[8.0])
    assert [one.system for one in leaderboard(board, "ernie", "orig")] == [
        "orig",
        "c-k1",
        "a-k1",
        "b-k1",
        "a-k2",
    ]
    assert leaderboard(board, "ernie", "a-k2")[0].system == "a-k2"


def test_a_system_without_a_score_is_no_row(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[9.0], gpt_k1=[None])
    assert [one.system for one in leaderboard(board, "ernie", "orig")] == ["orig"]


def test_the_order_in_which_instances_finished_changes_nothing(tmp_path: Path) -> None:
    values = [float(7 * i % 31) for i in range(40)]
    rows = [Row(f"q{i}", score=score) for i, score in enumerate(values)]
    orig = made_run(tmp_path, label="orig", rows=[Row(f"q{i}", score=1.0) for i in range(40)])
    one = made_run(tmp_path / "one", label="gpt-k1", rows=rows)
    two = made_run(tmp_path / "two", label="gpt-k1", rows=rows[::-1])
    found = [leaderboard(make_board(read_run(p) for p in (orig, gpt)), "ernie", "orig") for gpt in (one, two)]
    assert found[0] == found[1]


def test_without_a_baseline_nothing_has_a_difference(tmp_path: Path) -> None:
    made = made_run(tmp_path, label="gpt-k1", rows=[Row("a", score=50), Row("b", score=70)])
    (standing,) = leaderboard(make_board([read_run(made)]), "ernie", "")
    assert (standing.scores.mean, standing.delta) == (60, None)


def test_means_over_common_instances_and_with_failures_as_0_by_hand(tmp_path: Path) -> None:
    """a lacks the hardest instance: 50 before 45 by own means, 50 after 60 where both have a score, 37.5 with a 0."""
    board = board_of(tmp_path, a_k1=[50.0, 50.0, 50.0, None], b_k1=[60.0, 60.0, 60.0, 0.0])
    a, b = leaderboard(board, "ernie", "")
    assert (a.system, a.scores.mean, a.common_mean, a.scores.mean_failed_as_0) == (
        "a-k1",
        50.0,
        60.0 - 10,
        37.5,
    )
    assert (b.system, b.scores.mean, b.common_mean, b.scores.mean_failed_as_0) == ("b-k1", 45.0, 60.0, 45.0)
    assert (a.n_common, b.n_common) == (3, 3)
