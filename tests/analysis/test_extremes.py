"""Instances worth a look: the extremes of scores and of gains."""

from __future__ import annotations

from pathlib import Path

from made_runs import SCORING, Row, made_run

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.compare import Extreme, extremes
from cts_async.analysis.runs import read_run


def board(folder: Path, **scores: list[float | None]) -> Board:
    """Systems (`gpt_k1` is gpt-k1) with their scores of a, b, c, ...; None is a failure."""
    runs = []
    for label, values in scores.items():
        rows = [
            Row(id, error="search") if value is None else Row(id, score=value)
            for id, value in zip("abcdefgh", values, strict=False)
        ]
        runs.append(read_run(made_run(folder, label=label.replace("_", "-"), rows=rows)))
    return make_board(runs)


def test_losses_gains_and_scores_each_instance_once_with_its_reasons(tmp_path: Path) -> None:
    found = extremes(
        board(tmp_path, orig=[50, 50, 50, 50], gpt_k1=[10, 60, 50, 90]), SCORING, "gpt-k1", "orig", 1
    )
    assert found == (
        Extreme("a", 10.0, -40.0, ("greatest loss", "lowest score")),
        Extreme("d", 90.0, 40.0, ("greatest gain", "highest score")),
    )


def test_a_failure_has_no_score_and_what_the_baseline_lacks_no_gain(tmp_path: Path) -> None:
    found = extremes(
        board(tmp_path, orig=[None, 50, 50], gpt_k1=[10, None, 60]), SCORING, "gpt-k1", "orig", 5
    )
    assert found == (
        Extreme("c", 60.0, 10.0, ("greatest gain", "highest score")),
        Extreme("a", 10.0, None, ("lowest score",)),
    )


def test_the_baseline_gains_nothing_over_itself(tmp_path: Path) -> None:
    made = board(tmp_path, orig=[10, 20])
    expected = (Extreme("a", 10.0, None, ("lowest score",)), Extreme("b", 20.0, None, ("highest score",)))
    assert extremes(made, SCORING, "orig", "orig", 5) == expected
    assert extremes(made, SCORING, "orig", "", 5) == expected


def test_equal_instances_come_by_name_and_none_is_lowest_and_highest(tmp_path: Path) -> None:
    found = extremes(board(tmp_path, orig=[20, 20, 20]), SCORING, "orig", "", 2)
    assert [(one.id, one.why) for one in found] == [("a", ("lowest score",)), ("b", ("lowest score",))]
