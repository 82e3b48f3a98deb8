"""Families of tests between systems, on scores whose p-values can be counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.compare import Pair, compare_pairs
from cts_async.analysis.runs import read_run


def board_of(folder: Path, **scores: list[float]) -> Board:
    made = []
    for label, values in scores.items():
        rows = [Row(f"q{i}", score=score) for i, score in enumerate(values)]
        made.append(made_run(folder, label=label.replace("_", "-"), rows=rows))
    return make_board(read_run(path) for path in made)


def by_name(pairs: tuple[Pair, ...]) -> dict[tuple[str, str], Pair]:
    return {(pair.system, pair.other): pair for pair in pairs}


def test_all_pairs_by_hand(tmp_path: Path) -> None:
    """Differences: a - orig 1 2 3, b - orig 4 4 4, b - a 3 2 1: each has p = 2/8, times 3 by Holm."""
    board = board_of(tmp_path, orig=[0, 0, 0], a_k1=[1, 2, 3], b_k1=[4, 4, 4])
    pairs = by_name(compare_pairs(board, "ernie"))
    assert set(pairs) == {("a-k1", "orig"), ("b-k1", "orig"), ("b-k1", "a-k1")}
    for pair in pairs.values():
        assert (pair.n, pair.p, pair.exact, pair.p_holm) == (3, 0.25, True, 0.75)
    assert (pairs["a-k1", "orig"].difference, pairs["a-k1", "orig"].sd) == (2.0, 1.0)
    for pair in pairs.values():
        assert (pair.p_floor, pair.detectable, pair.detectable_holm) == (0.25, None, None)  # no p below 2/8


def test_what_eight_instances_can_show_by_hand(tmp_path: Path) -> None:
    """Differences 1 to 8 have the mean 4.5 and the variance 6. 2 / 2^8 reaches .05, and .05 / 3 as well."""
    gains = [float(i) for i in range(1, 9)]
    board = board_of(tmp_path, orig=[0.0] * 8, a_k1=gains, b_k1=[20.0] * 8)
    pair = by_name(compare_pairs(board, "ernie"))["a-k1", "orig"]
    assert (pair.difference, pair.sd) == (4.5, pytest.approx(6**0.5))
    # (1.959964 + 0.841621) * sqrt(6 / 8), and z(1 - .05/6) = 2.39398 in its place for 3 tests
    assert pair.detectable == pytest.approx(2.801585 * 0.75**0.5, abs=1e-5)
    assert pair.detectable_holm == pytest.approx(3.235601 * 0.75**0.5, abs=1e-5)
    # (2.801585 * sqrt(6) / 4.5)^2 = 2.3, but 2 / 2^5 is above .05
    assert pair.n_needed == 6


def test_501_pairs_can_be_significant_after_holm(tmp_path: Path) -> None:
    """33 systems make 528 pairs; with 10,000 flips the smallest p would be 528 / 10,001 = .053 after correction."""
    scores = {f"s{i:02d}_k1": [float(i == 32)] * 21 for i in range(33)}
    pairs = compare_pairs(board_of(tmp_path, **scores), "ernie")
    assert len(pairs) == 528
    best = [pair for pair in pairs if pair.system == "s32-k1"]
    assert len(best) == 32
    assert all(pair.p_floor == 1 / 211_201 for pair in best)
    assert all(pair.p_holm <= 528 * 5 / 211_201 for pair in best)  # 2 / 2^21 of all flips are as large


def test_a_baseline_makes_a_smaller_family_and_stands_second(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[5, 5, 5], a_k1=[4, 3, 2], b_k1=[9, 9, 9])
    pairs = by_name(compare_pairs(board, "ernie", "orig"))
    assert set(pairs) == {("a-k1", "orig"), ("b-k1", "orig")}
    assert pairs["a-k1", "orig"].difference == -2.0
    assert pairs["a-k1", "orig"].p_holm == 0.5


def test_a_single_instance_shows_no_spread_and_promises_nothing(tmp_path: Path) -> None:
    (pair,) = compare_pairs(board_of(tmp_path, orig=[5], a_k1=[9]), "ernie")
    assert (pair.n, pair.difference, pair.p) == (1, 4.0, 1.0)
    assert (pair.sd, pair.detectable, pair.detectable_holm, pair.n_needed) == (None, None, None, None)


def test_the_better_system_of_a_pair_stands_first(tmp_path: Path) -> None:
    (pair,) = compare_pairs(board_of(tmp_path, a_k1=[1, 2, 3], b_k1=[2, 3, 4]), "ernie")
    assert (pair.system, pair.other, pair.difference) == ("b-k1", "a-k1", 1.0)


def test_pairs_without_a_shared_instance_are_left_out(tmp_path: Path) -> None:
    one = made_run(tmp_path, label="a-k1", rows=[Row("q1", score=1.0)])
    two = made_run(tmp_path, label="b-k1", rows=[Row("q2", score=1.0)])
    assert compare_pairs(make_board(map(read_run, (one, two))), "ernie") == ()


def test_equal_systems_are_not_told_apart(tmp_path: Path) -> None:
    (pair,) = compare_pairs(board_of(tmp_path, a_k1=[1, 2], b_k1=[1, 2]), "ernie")
    assert (pair.p, pair.difference, pair.n_needed) == (1.0, 0.0, None)
