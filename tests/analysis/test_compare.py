"""Leaderboards, paired tests, agreement of judges and extreme instances, against tables worked by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import SCORING, Row, made_run

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.compare import (
    Extreme,
    Judged,
    PairTest,
    Weights,
    cohen_kappa,
    compare_pairs,
    compare_under,
    extremes,
    kendall_tau,
    krippendorff_alpha,
    leaderboard,
    robustness,
)
from cts_async.protocol.judge import self_judged_roles
from cts_async.records import COVERAGES
from cts_async.runs.finished import FinishedRun, read_run

LABELS = st.lists(st.sampled_from(COVERAGES), min_size=1, max_size=30)


def scored(folder: Path, **scores: Sequence[float | None]) -> Board:
    """Systems (`gpt_k1` is gpt-k1) with their scores of a, b, c, ...; None is a failure."""
    runs = []
    for label, values in scores.items():
        rows = [
            Row(f"q{i:02}", error="search") if value is None else Row(f"q{i:02}", score=value)
            for i, value in enumerate(values)
        ]
        runs.append(read_run(made_run(folder, label=label.replace("_", "-"), rows=rows)))
    return make_board(runs)


def test_differences_are_over_common_instances(tmp_path: Path) -> None:
    board = scored(tmp_path, orig=[0.0, None, 20.0, 30.0], gpt_k1=[10.0, 90.0, 30.0], kimi_k1=[None])
    _, gpt = leaderboard(board, "ernie", "orig")  # a system without scores has no row
    assert (gpt.scores.n_scored, gpt.scores.n_failed, gpt.scores.n_expected) == (3, 0, 3)
    assert gpt.scores.mean == pytest.approx(130 / 3)
    assert gpt.gain is not None
    assert (gpt.gain.n, gpt.gain.mean) == (2, 10.0)


def names(judged: Judged) -> list[str]:
    return [one.system for one in judged.best]


def test_best_is_over_common_instances_with_its_ties(tmp_path: Path) -> None:
    """a has 90 on ten instances, b 80 on them and 100 on twenty more, so b has the higher mean of its own (93.3).

    a - b is 10 ten times: p = 2 / 2^10 = .002; of ten pairs two have a smaller p, so Holm gives 8 * .002. a - c is 1
    once and 0 nine times: p = 1. gold has the highest mean of all, and does not compete.
    """
    a, c = [90.0] * 10, [89.0] + [90.0] * 9
    board = scored(
        tmp_path, orig=[0.0] * 30, a_k1=a, b_k3=[80.0] * 10 + [100.0] * 20, c_k1=c, gold=[100.0] * 30
    )
    judged = compare_under(board, "ernie", "orig")
    found = {one.system: one for one in judged.standings}
    assert names(judged) == ["a-k1", "c-k1"]
    assert [found[name].best for name in ("orig", "gold", "b-k3")] == [None, None, False]
    assert found["b-k3"].scores.mean == pytest.approx(280 / 3)
    assert (found["b-k3"].common_mean, found["a-k1"].n_common) == (80.0, 10)
    assert [one.system for one in judged.ranked] == ["orig", "gold", "a-k1", "c-k1", "b-k3"]
    against = compare_under(board, "ernie", "b-k3", against_baseline=True)
    assert (names(against), len(against.pairs)) == (["a-k1", "c-k1"], 4)
    p = {one.system: one.p_holm for one in against.standings}
    assert p["a-k1"] == 3 * 2 / 1024  # orig's is smaller, those of c and gold are equal
    assert p["b-k3"] is None


def test_systems_without_common_instance_have_no_best_one(tmp_path: Path) -> None:
    judged = compare_under(scored(tmp_path, a_k1=[90.0, None], b_k1=[None, 10.0]), "ernie", "")
    assert [(one.best, one.common_mean) for one in judged.standings] == [(None, None)] * 2


def test_judge_of_its_own_text_is_found_by_name_or_model_id(tmp_path: Path) -> None:
    """ernie by name as agent, and as Clarifier under another name with the same model id; code has no id."""
    ids = {"judge ernie": "ernie-4.5", "agent": "webdancer-32b", "clarifier": "ernie-4.5"}
    players = {"judge ernie": "ernie", "agent": "webdancer", "clarifier": "mine"}
    assert self_judged_roles("ernie", players, ids) == ("clarifier",)
    assert self_judged_roles("ernie", {**players, "agent": "ernie"}, ids) == ("clarifier", "agent")
    assert self_judged_roles("gpt", players, ids) == ()
    assert self_judged_roles("mine", players, {"agent": "webdancer-32b"}) == ()


SCORE_ROWS = st.lists(st.tuples(*[st.sampled_from([0.0, 25.0, 50.0, 100.0])] * 3), min_size=1, max_size=8)
PARTIAL_ROWS = st.lists(
    st.tuples(*[st.sampled_from([0.0, 50.0, 100.0, math.nan])] * 3).filter(lambda row: math.isnan(sum(row))),
    max_size=8,
)


ENTRANTS = tuple(FinishedRun(Path(name), name, name, ("ernie",), 0, 0, 0) for name in ("a", "b", "c"))


@given(SCORE_ROWS, PARTIAL_ROWS)
def test_first_does_not_change_with_instances_that_another_system_lacks(
    common: list[tuple[float, ...]], partial: list[tuple[float, ...]]
) -> None:
    def first(rows: list[tuple[float, ...]]) -> str:
        board = Board(tuple(map(str, range(len(rows)))), ENTRANTS, ("ernie",), {"ernie": np.array(rows)}, {})
        return compare_under(board, "ernie", "").best[0].system

    assert first(common + partial) == first(common)


# Paired tests


def by_name(pairs: tuple[PairTest, ...]) -> dict[tuple[str, str], PairTest]:
    return {(pair.system, pair.other): pair for pair in pairs}


def test_tests_of_all_pairs_match_hand_calculation(tmp_path: Path) -> None:
    """Differences: a - orig 1 2 3, b - orig 4 4 4, b - a 3 2 1: each has p = 2/8, times 3 by Holm."""
    board = scored(tmp_path, orig=[0, 0, 0], a_k1=[1, 2, 3], b_k1=[4, 4, 4])
    pairs = by_name(compare_pairs(board, "ernie"))
    assert set(pairs) == {("a-k1", "orig"), ("b-k1", "orig"), ("b-k1", "a-k1")}  # the better one first
    for pair in pairs.values():
        assert (pair.n, pair.p, pair.exact, pair.p_holm) == (3, 0.25, True, 0.75)
        assert (pair.p_floor, pair.n_differ, pair.detectable_holm) == (0.25, 3, None)  # no p below 2/8
        assert pair.hopeless
    assert (pairs["a-k1", "orig"].difference, pairs["a-k1", "orig"].sd) == (2.0, 1.0)
    against = by_name(compare_pairs(board, "ernie", "a-k1"))
    assert set(against) == {("orig", "a-k1"), ("b-k1", "a-k1")}  # the baseline second
    assert (against["orig", "a-k1"].difference, against["orig", "a-k1"].p_holm) == (-2.0, 0.5)


def test_pair_that_is_significant_after_holm_is_not_hopeless(tmp_path: Path) -> None:
    """Seven differ: p = 2/2^7 is above .05 / 6, the strictest level, and below .05 / 2, its own after five of 2/2^10."""
    board = scored(tmp_path, orig=[0.0] * 10, a_k1=[5.0] * 10, b_k1=[10.0] * 10, c_k1=[11.0] * 7 + [10.0] * 3)
    pair = by_name(compare_pairs(board, "ernie"))["c-k1", "b-k1"]
    assert (pair.n_differ, pair.n_tests, pair.p) == (7, 6, 2 / 2**7)
    assert pair.significant
    assert not pair.hopeless


def test_detectable_difference_of_eight_instances_matches_hand_calculation(tmp_path: Path) -> None:
    """Differences 1 to 8 have the mean 4.5 and the variance 6. 2 / 2^8 reaches .05, and .05 / 3 as well."""
    gains = [float(i) for i in range(1, 9)]
    board = scored(tmp_path, orig=[0.0] * 8, a_k1=gains, b_k1=[20.0] * 8)
    pair = by_name(compare_pairs(board, "ernie"))["a-k1", "orig"]
    assert (pair.difference, pair.sd) == (4.5, pytest.approx(6**0.5))
    # z(1 - .05/6) = 2.39398 for 3 tests: (2.39398 + 0.841621) * sqrt(6 / (8 - 2.39398^2 / 2))
    assert pair.detectable_holm == pytest.approx(3.235601 * (6 / 5.134430) ** 0.5, abs=1e-5)
    # (3.235601 * sqrt(6) / 4.5)^2 + 2.87 = 5.97, but 2 / 2^6 is above .05 / 3
    assert (pair.n_tests, pair.n_needed_holm, pair.hopeless) == (3, 7, False)
    # All 8 differ by the same: nothing is known of other differences.
    same = by_name(compare_pairs(board, "ernie"))["b-k1", "orig"]
    assert (same.sd, same.detectable_holm, same.n_needed_holm) == (0.0, None, 7)


def test_large_family_can_be_significant_after_holm(tmp_path: Path) -> None:
    """33 systems make 528 pairs; with 10,000 flips the smallest p would be 528 / 10,001 = .053 after correction."""
    scores = {f"s{i:02d}_k1": [float(i == 32)] * 21 for i in range(33)}
    pairs = compare_pairs(scored(tmp_path, **scores), "ernie")
    assert len(pairs) == 528
    best = [pair for pair in pairs if pair.system == "s32-k1"]
    assert len(best) == 32
    assert all(pair.p_floor == 1 / 211_201 for pair in best)
    assert all(pair.p_holm <= 528 * 5 / 211_201 for pair in best)  # 2 / 2^21 of all flips are as large


def test_pairs_without_differences_or_instances_have_no_power(tmp_path: Path) -> None:
    (single,) = compare_pairs(scored(tmp_path / "single", orig=[5], a_k1=[9]), "ernie")
    assert (single.n, single.difference, single.p, single.sd, single.n_needed_holm) == (
        1,
        4.0,
        1.0,
        None,
        None,
    )
    (equal,) = compare_pairs(scored(tmp_path / "equal", a_k1=[1, 2], b_k1=[1, 2]), "ernie")
    assert (equal.p, equal.difference, equal.n_needed_holm) == (1.0, 0.0, None)
    assert compare_pairs(scored(tmp_path / "apart", a_k1=[1, None], b_k1=[None, 1]), "ernie") == ()


# Extreme instances


def test_extremes_list_each_instance_once_with_reasons(tmp_path: Path) -> None:
    board = scored(tmp_path / "all", orig=[50, 50, 50, 50], gpt_k1=[10, 60, 50, 90])
    assert extremes(board, SCORING, "gpt-k1", "orig", 1) == (
        Extreme("q00", 10.0, -40.0, ("greatest loss", "lowest score")),
        Extreme("q03", 90.0, 40.0, ("greatest gain", "highest score")),
    )
    # A failed instance is no extreme, and one without a baseline has no gain.
    board = scored(tmp_path / "some", orig=[None, 50, 50], gpt_k1=[10, None, 60])
    assert extremes(board, SCORING, "gpt-k1", "orig", 5) == (
        Extreme("q02", 60.0, 10.0, ("greatest gain", "highest score")),
        Extreme("q00", 10.0, None, ("lowest score",)),
    )


def test_extremes_without_gains_are_lowest_or_highest(tmp_path: Path) -> None:
    board = scored(tmp_path / "two", orig=[10, 20])
    expected = (
        Extreme("q00", 10.0, None, ("lowest score",)),
        Extreme("q01", 20.0, None, ("highest score",)),
    )
    assert extremes(board, SCORING, "orig", "orig", 5) == extremes(board, SCORING, "orig", "", 5) == expected
    equal = extremes(scored(tmp_path / "equal", orig=[20, 20, 20]), SCORING, "orig", "", 2)
    assert [(one.id, one.why) for one in equal] == [("q00", ("lowest score",)), ("q01", ("lowest score",))]


# Agreement of judges


def kappa(a: Sequence[str], b: Sequence[str], weights: Weights = None) -> float | None:
    """Kappa of labels of the same nuggets."""
    return cohen_kappa(Counter(zip(a, b, strict=True)), weights)


THREE = {
    ("full", "full"): 4, ("full", "partial"): 1, ("full", "none"): 1,
    ("partial", "partial"): 2, ("partial", "none"): 2,
    ("none", "partial"): 1, ("none", "none"): 9,
}  # fmt: skip
"""Rows full 6, partial 4, none 10; columns full 4, partial 4, none 12; 20 in all."""


def test_kappa_of_three_labels_matches_hand_calculation() -> None:
    # Unlike: 5 observed. By chance, times 20: 400 - (6*4 + 4*4 + 10*12) = 240. 1 - 5 * 20 / 240.
    assert cohen_kappa(THREE) == pytest.approx(1 - 100 / 240, abs=1e-15)
    # One step apart weighs 1, two steps 4. Observed: 1 + 4*1 + 2 + 1 = 8.
    # By chance: full 6 x (4 + 4*12), partial 4 x (4 + 12), none 10 x (4*4 + 4) = 312 + 64 + 200 = 576.
    assert cohen_kappa(THREE, "quadratic") == pytest.approx(1 - 160 / 576, abs=1e-15)


@pytest.mark.parametrize("weights", [None, "quadratic"])
def test_kappa_of_extreme_cases(weights: Weights) -> None:
    assert kappa([], [], weights) is None
    assert kappa(["none"] * 9, ["none"] * 9, weights) is None
    assert kappa(["none"] * 9, ["full"] * 9, weights) == 0.0
    assert kappa(["full", "none"], ["none", "full"], weights) == -1.0
    assert kappa(["full", "none"], ["full", "none"], weights) == 1.0


@given(LABELS, st.data())
def test_kappa_is_symmetric_and_never_above_one(a: list[str], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from(COVERAGES), min_size=len(a), max_size=len(a)))
    for weights in (None, "quadratic"):
        found = kappa(a, b, weights)
        assert found == kappa(b, a, weights)
        assert found is None or found <= 1.0
        assert (found == 1.0) <= (a == b)


@pytest.mark.parametrize(
    ("a", "b", "tau"),
    [
        ([19.43, 23.46, 26.47], [27.74, 29.54, 29.79], 1.0),  # the paper's table 9: ERNIE and GPT
        ([1.0, 2.0, 3.0], [9.0, 8.0, 7.0], -1.0),
        ([1, 2, 3, 4], [2, 1, 3, 4], (5 - 1) / 6),  # five pairs agree, one does not
        ([1, 1, 2], [1, 2, 3], 2 / math.sqrt(6)),  # two pairs agree; one is tied in a: 2 / sqrt(2 * 3)
        ([], [], None),
        ([5.0, 5.0], [1.0, 2.0], None),
    ],
)
def test_tau_matches_hand_calculation(a: list[float], b: list[float], tau: float | None) -> None:
    assert kendall_tau(a, b) == (None if tau is None else pytest.approx(tau))
    with pytest.raises(ValueError, match="same systems"):
        kendall_tau([*a, 1.0], b)


PUBLISHED = """
    1 2 3 3 2 1 4 1 2 . . .
    1 2 3 3 2 2 4 1 2 5 . 3
    . 3 3 3 2 3 4 2 2 5 1 .
    1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Krippendorff 2011, section C: four observers, twelve units, values 1 to 5, with gaps."""


def published() -> np.ndarray:
    rows = [line.split() for line in PUBLISHED.split("\n") if line.strip()]
    return np.array([[-1 if word == "." else int(word) - 1 for word in row] for row in rows]).T


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_alpha_matches_published_example(level: str, alpha: float) -> None:
    found = krippendorff_alpha(published(), level, 5)  # type: ignore[arg-type]
    assert found == pytest.approx(alpha, abs=0.0005)


@pytest.mark.parametrize(
    "labels",
    [[[1, 1], [1, 1]], [[0, -1], [-1, 1]], []],
    ids=["one value", "nothing shared", "nothing"],
)
def test_alpha_is_none_without_two_labels_or_two_values(labels: list[list[int]]) -> None:
    assert krippendorff_alpha(np.array(labels, int).reshape(-1, 2), "nominal", 3) is None


@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=10))
def test_alpha_is_at_most_one_and_does_not_depend_on_order(rows: list[list[int]]) -> None:
    labels = np.array(rows)
    for level in ("nominal", "ordinal"):
        found = krippendorff_alpha(labels, level, 3)
        if found is not None:
            assert found <= 1
            turned = labels[::-1, ::-1]
            assert krippendorff_alpha(turned, level, 3) == pytest.approx(found)


def board_of(folder: Path, **labels: dict[str, list[str]]) -> Board:
    """By system and judge, a word of labels for each instance."""
    made = []
    for system, by_judge in labels.items():
        words = zip(*by_judge.values(), strict=True)
        rows = [
            Row(f"q{i}", labels=dict(zip(by_judge, letters, strict=True))) for i, letters in enumerate(words)
        ]
        made.append(made_run(folder, label=system.replace("_", "-"), rows=rows))
    return make_board(read_run(path) for path in made)


def test_robustness_of_two_judges_matches_hand_calculation(tmp_path: Path) -> None:
    board = board_of(
        tmp_path,
        orig={"ernie": ["nn", "np"], "gpt": ["nn", "pp"]},
        gpt_k1={"ernie": ["fn", "pp"], "gpt": ["ff", "pp"]},
    )
    found = robustness(board, ["ernie", "gpt"])
    assert found is not None
    ernie, gpt = found.judges
    assert ernie.means == (12.5, 50.0)  # orig (0 + 25) / 2, gpt-k1 (50 + 50) / 2
    assert gpt.means == (25.0, 75.0)
    assert ernie.ordering == gpt.ordering == "gpt-k1 > orig"
    assert found.same_order is True
    assert found.orders[0].tau == 1.0
    assert ernie.shares == {"none": 4 / 8, "partial": 3 / 8, "full": 1 / 8}
    assert gpt.shares == {"none": 2 / 8, "partial": 4 / 8, "full": 2 / 8}
    # Of 8 labels 6 agree; by chance (4 * 2 + 3 * 4 + 1 * 2) / 64 = 22/64 would: kappa (48 - 22) / (64 - 22).
    (both,) = found.agreements
    assert (both.n_nuggets, both.n_answers, both.exact) == (8, 4, 0.75)
    assert both.kappa == pytest.approx(26 / 42)
    # Alpha, nominal: 2 * 2 of 16 coincidences differ; totals 6 7 3 differ in 16^2 - 36 - 49 - 9 = 162 of 240.
    assert found.alpha_nominal == pytest.approx(1 - (4 / 16) / (162 / 240))
    assert robustness(board, ["ernie"]) is None


def test_equal_means_tie_despite_rounding_of_sums(tmp_path: Path) -> None:
    """Both scored 100/3, 200/3, 0, 50, 400/7 and 100/7, whose sums differ in the last digit."""
    of_a = ["fnn", "ffn", "n" * 7, "fffpnnn", "f" * 12 + "n" * 9, "fff" + "n" * 18]
    of_b = ["nnn", "fpn", "f" + "n" * 6, "ffffnnn", "f" * 14 + "n" * 7, "f" * 7 + "n" * 14]
    for label, words in (("a-k1", of_a), ("b-k1", of_b)):
        rows = [Row(f"q{i}", labels={"ernie": word}) for i, word in enumerate(words)]
        made_run(tmp_path, label=label, rows=rows)
    board = make_board(read_run(path) for path in sorted(tmp_path.iterdir()))
    board = replace(
        board,
        judges=("ernie", "gpt"),
        scores={**board.scores, "gpt": board.scores["ernie"]},
        labels={**board.labels, "gpt": board.labels["ernie"]},
    )
    found = robustness(board, ["ernie", "gpt"])
    assert found is not None
    assert found.judges[0].ordering == "a-k1 = b-k1"
    assert found.orders[0].tau is None


def test_system_without_scores_of_a_judge_is_not_ordered(tmp_path: Path) -> None:
    board = board_of(
        tmp_path, a_k1={"x": ["f"], "y": ["p"]}, b_k1={"x": ["n"], "y": ["n"]}, c_k1={"x": ["p"]}
    )
    found = robustness(board, ["x", "y"])
    assert found is not None
    assert [judge.ordering for judge in found.judges] == ["a-k1 > b-k1"] * 2
    assert found.judges[1].means == (50.0, 0.0, None)
    assert found.judges[1].n_scored == (1, 1, 0)
    turned = board_of(tmp_path / "turned", a_k1={"x": ["f"], "y": ["n"]}, b_k1={"x": ["p"], "y": ["p"]})
    found = robustness(turned, ["x", "y"])
    assert found is not None
    assert (found.same_order, found.orders[0].tau) == (False, -1.0)
