"""Leaderboards, paired tests and extreme instances of made runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import SCORING, Row, made_run

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.compare import Extreme, Pair, compare_pairs, extremes, leaderboard
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


def test_leaderboard_matches_hand_calculation(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[0.0, 10.0, 20.0, 30.0], gpt_k1=[5.0, 15.0, 25.0, 35.0])
    orig, gpt = leaderboard(board, "ernie", "orig")
    assert (orig.system, orig.scores.mean, orig.delta) == ("orig", 15.0, None)
    # 0 10 20 30: p50 lies between 10 and 20, p90 at 2.7 places: 20 + 0.7 * 10
    assert (orig.scores.p50, orig.scores.p90, orig.scores.min, orig.scores.max) == (15.0, 27.0, 0.0, 30.0)
    assert gpt.delta is not None
    assert (gpt.k, gpt.scores.mean, gpt.delta.mean, gpt.delta.low, gpt.delta.high) == (1, 20.0, 5.0, 5.0, 5.0)
    assert not gpt.partly_paired


def test_differences_are_over_common_instances(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[0.0, None, 20.0, 30.0], gpt_k1=[10.0, 90.0, 30.0])
    _, gpt = leaderboard(board, "ernie", "orig")
    assert (gpt.scores.n_scored, gpt.scores.n_failed, gpt.scores.n_expected) == (3, 0, 4)
    assert gpt.scores.mean == pytest.approx(130 / 3)
    assert gpt.delta is not None
    assert (gpt.delta.n, gpt.delta.mean) == (2, 10.0)
    assert gpt.partly_paired


def test_leaderboard_orders_references_budgets_and_means(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[9.0], b_k1=[1.0], a_k1=[2.0], c_k1=[3.0], a_k2=[8.0])
    assert [one.system for one in leaderboard(board, "ernie", "orig")] == [
        "orig",
        "c-k1",
        "a-k1",
        "b-k1",
        "a-k2",
    ]
    assert leaderboard(board, "ernie", "a-k2")[0].system == "a-k2"


def test_system_without_scores_has_no_row(tmp_path: Path) -> None:
    board = board_of(tmp_path, orig=[9.0], gpt_k1=[None])
    assert [one.system for one in leaderboard(board, "ernie", "orig")] == ["orig"]


def test_leaderboard_does_not_depend_on_finishing_order(tmp_path: Path) -> None:
    values = [float(7 * i % 31) for i in range(40)]
    rows = [Row(f"q{i}", score=score) for i, score in enumerate(values)]
    orig = made_run(tmp_path, label="orig", rows=[Row(f"q{i}", score=1.0) for i in range(40)])
    one = made_run(tmp_path / "one", label="gpt-k1", rows=rows)
    two = made_run(tmp_path / "two", label="gpt-k1", rows=rows[::-1])
    found = [leaderboard(make_board(read_run(p) for p in (orig, gpt)), "ernie", "orig") for gpt in (one, two)]
    assert found[0] == found[1]


def test_no_differences_without_a_baseline(tmp_path: Path) -> None:
    made = made_run(tmp_path, label="gpt-k1", rows=[Row("a", score=50), Row("b", score=70)])
    (standing,) = leaderboard(make_board([read_run(made)]), "ernie", "")
    assert (standing.scores.mean, standing.delta) == (60, None)


def test_common_means_and_failures_as_0_match_hand_calculation(tmp_path: Path) -> None:
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


def scored_board(folder: Path, **scores: list[float]) -> Board:
    made = []
    for label, values in scores.items():
        rows = [Row(f"q{i}", score=score) for i, score in enumerate(values)]
        made.append(made_run(folder, label=label.replace("_", "-"), rows=rows))
    return make_board(read_run(path) for path in made)


def by_name(pairs: tuple[Pair, ...]) -> dict[tuple[str, str], Pair]:
    return {(pair.system, pair.other): pair for pair in pairs}


def test_tests_of_all_pairs_match_hand_calculation(tmp_path: Path) -> None:
    """Differences: a - orig 1 2 3, b - orig 4 4 4, b - a 3 2 1: each has p = 2/8, times 3 by Holm."""
    board = scored_board(tmp_path, orig=[0, 0, 0], a_k1=[1, 2, 3], b_k1=[4, 4, 4])
    pairs = by_name(compare_pairs(board, "ernie"))
    assert set(pairs) == {("a-k1", "orig"), ("b-k1", "orig"), ("b-k1", "a-k1")}
    for pair in pairs.values():
        assert (pair.n, pair.p, pair.exact, pair.p_holm) == (3, 0.25, True, 0.75)
    assert (pairs["a-k1", "orig"].difference, pairs["a-k1", "orig"].sd) == (2.0, 1.0)
    for pair in pairs.values():
        assert (pair.p_floor, pair.detectable, pair.detectable_holm) == (0.25, None, None)  # no p below 2/8


def test_detectable_difference_of_eight_instances_matches_hand_calculation(tmp_path: Path) -> None:
    """Differences 1 to 8 have the mean 4.5 and the variance 6. 2 / 2^8 reaches .05, and .05 / 3 as well."""
    gains = [float(i) for i in range(1, 9)]
    board = scored_board(tmp_path, orig=[0.0] * 8, a_k1=gains, b_k1=[20.0] * 8)
    pair = by_name(compare_pairs(board, "ernie"))["a-k1", "orig"]
    assert (pair.difference, pair.sd) == (4.5, pytest.approx(6**0.5))
    # (1.959964 + 0.841621) * sqrt(6 / 8), and z(1 - .05/6) = 2.39398 in its place for 3 tests
    assert pair.detectable == pytest.approx(2.801585 * 0.75**0.5, abs=1e-5)
    assert pair.detectable_holm == pytest.approx(3.235601 * 0.75**0.5, abs=1e-5)
    # (2.801585 * sqrt(6) / 4.5)^2 = 2.3, but 2 / 2^5 is above .05
    assert pair.n_needed == 6


def test_large_family_can_be_significant_after_holm(tmp_path: Path) -> None:
    """33 systems make 528 pairs; with 10,000 flips the smallest p would be 528 / 10,001 = .053 after correction."""
    scores = {f"s{i:02d}_k1": [float(i == 32)] * 21 for i in range(33)}
    pairs = compare_pairs(scored_board(tmp_path, **scores), "ernie")
    assert len(pairs) == 528
    best = [pair for pair in pairs if pair.system == "s32-k1"]
    assert len(best) == 32
    assert all(pair.p_floor == 1 / 211_201 for pair in best)
    assert all(pair.p_holm <= 528 * 5 / 211_201 for pair in best)  # 2 / 2^21 of all flips are as large


def test_baseline_makes_a_smaller_family_and_comes_second(tmp_path: Path) -> None:
    board = scored_board(tmp_path, orig=[5, 5, 5], a_k1=[4, 3, 2], b_k1=[9, 9, 9])
    pairs = by_name(compare_pairs(board, "ernie", "orig"))
    assert set(pairs) == {("a-k1", "orig"), ("b-k1", "orig")}
    assert pairs["a-k1", "orig"].difference == -2.0
    assert pairs["a-k1", "orig"].p_holm == 0.5


def test_single_instance_has_no_spread_and_no_power(tmp_path: Path) -> None:
    (pair,) = compare_pairs(scored_board(tmp_path, orig=[5], a_k1=[9]), "ernie")
    assert (pair.n, pair.difference, pair.p) == (1, 4.0, 1.0)
    assert (pair.sd, pair.detectable, pair.detectable_holm, pair.n_needed) == (None, None, None, None)


def test_better_system_of_a_pair_comes_first(tmp_path: Path) -> None:
    (pair,) = compare_pairs(scored_board(tmp_path, a_k1=[1, 2, 3], b_k1=[2, 3, 4]), "ernie")
    assert (pair.system, pair.other, pair.difference) == ("b-k1", "a-k1", 1.0)


def test_pairs_without_common_instances_are_left_out(tmp_path: Path) -> None:
    one = made_run(tmp_path, label="a-k1", rows=[Row("q1", score=1.0)])
    two = made_run(tmp_path, label="b-k1", rows=[Row("q2", score=1.0)])
    assert compare_pairs(make_board(map(read_run, (one, two))), "ernie") == ()


def test_equal_systems_have_p_one(tmp_path: Path) -> None:
    (pair,) = compare_pairs(scored_board(tmp_path, a_k1=[1, 2], b_k1=[1, 2]), "ernie")
    assert (pair.p, pair.difference, pair.n_needed) == (1.0, 0.0, None)


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


def test_extremes_list_each_instance_once_with_reasons(tmp_path: Path) -> None:
    found = extremes(
        board(tmp_path, orig=[50, 50, 50, 50], gpt_k1=[10, 60, 50, 90]), SCORING, "gpt-k1", "orig", 1
    )
    assert found == (
        Extreme("a", 10.0, -40.0, ("greatest loss", "lowest score")),
        Extreme("d", 90.0, 40.0, ("greatest gain", "highest score")),
    )


def test_failed_instance_is_no_extreme_and_missing_baseline_no_gain(tmp_path: Path) -> None:
    found = extremes(
        board(tmp_path, orig=[None, 50, 50], gpt_k1=[10, None, 60]), SCORING, "gpt-k1", "orig", 5
    )
    assert found == (
        Extreme("c", 60.0, 10.0, ("greatest gain", "highest score")),
        Extreme("a", 10.0, None, ("lowest score",)),
    )


def test_baseline_has_no_gains_over_itself(tmp_path: Path) -> None:
    made = board(tmp_path, orig=[10, 20])
    expected = (Extreme("a", 10.0, None, ("lowest score",)), Extreme("b", 20.0, None, ("highest score",)))
    assert extremes(made, SCORING, "orig", "orig", 5) == expected
    assert extremes(made, SCORING, "orig", "", 5) == expected


def test_equal_extremes_are_ordered_by_name_and_not_both_lowest_and_highest(tmp_path: Path) -> None:
    found = extremes(board(tmp_path, orig=[20, 20, 20]), SCORING, "orig", "", 2)
    assert [(one.id, one.why) for one in found] == [("a", ("lowest score",)), ("b", ("lowest score",))]
