"""Agreement between judges, against tables worked by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isclose, sqrt
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import Row, made_run

from cts_async.analysis.agreement import (
    Weights,
    agreement_of,
    cohen_kappa,
    kendall_tau,
    krippendorff_alpha,
    robustness,
)
from cts_async.analysis.board import Board, make_board
from cts_async.analysis.runs import read_run
from cts_async.analysis.stats import correlation
from cts_async.records import COVERAGES

SCORES = st.integers(0, 700).map(lambda sevenths: sevenths / 7)
LABELS = st.lists(st.sampled_from(COVERAGES), min_size=1, max_size=30)


def kappa(a: Sequence[str], b: Sequence[str], weights: Weights = None) -> float | None:
    """Kappa of labels of the same nuggets."""
    return cohen_kappa(Counter(zip(a, b, strict=True)), weights)


def test_kappa_of_two_readers_matches_hand_calculation() -> None:
    """Yes/yes 20, yes/no 5, no/yes 10, no/no 15: observed 35/50 = 0.7; by chance (25*30 + 25*20)/2500 = 0.5."""
    table = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    assert cohen_kappa(table) == pytest.approx(0.4, abs=1e-15)


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


def test_opposite_labels_have_kappa_minus_one() -> None:
    assert kappa(["full", "none"], ["none", "full"]) == -1.0
    assert kappa(["full", "none"], ["none", "full"], "quadratic") == -1.0


@pytest.mark.parametrize("weights", [None, "quadratic"])
def test_kappa_is_none_when_chance_explains_everything(weights: Weights) -> None:
    assert kappa([], [], weights) is None
    assert kappa(["none"] * 9, ["none"] * 9, weights) is None
    assert kappa(["none"] * 9, ["full"] * 9, weights) == 0.0


@given(LABELS, st.data())
def test_kappa_is_symmetric_and_never_above_one(a: list[str], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from(COVERAGES), min_size=len(a), max_size=len(a)))
    for weights in (None, "quadratic"):
        found = kappa(a, b, weights)
        assert found == kappa(b, a, weights)
        assert found is None or found <= 1.0
        assert (found == 1.0) <= (a == b)


@given(LABELS)
def test_a_judge_agrees_with_itself(a: list[str]) -> None:
    expected = None if len(set(a)) == 1 else 1.0
    assert kappa(a, a) == kappa(a, a, "quadratic") == expected


@given(LABELS.filter(lambda a: "partial" not in a), st.data())
def test_weights_do_not_matter_with_two_labels(a: list[str], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from(["full", "none"]), min_size=len(a), max_size=len(a)))
    assert kappa(a, b) == kappa(a, b, "quadratic")


def test_correlation_matches_hand_calculation() -> None:
    # Deviations -1 0 1 and -2 1 1: products 2 + 0 + 1 = 3; squares 2 and 6.
    assert correlation([1.0, 2.0, 3.0], [0.0, 3.0, 3.0]) == pytest.approx(3 / sqrt(12))
    assert correlation([5.0], [5.0]) is None
    assert correlation([1.0, 2.0], [7.0, 7.0]) is None
    with pytest.raises(ValueError, match="same answers"):
        correlation([1.0], [])


@given(st.lists(st.integers(0, 100), min_size=2, max_size=20, unique=True))
def test_points_on_a_line_correlate_fully(a: list[int]) -> None:
    r = correlation([float(x) for x in a], [3.0 - 2.0 * x for x in a])
    assert r is not None
    assert isclose(r, -1.0, abs_tol=1e-12)


def test_agreement_of_two_judges_has_all_coefficients() -> None:
    found = agreement_of("ernie", "lexical", Counter(THREE), [100.0, 50.0, 0.0], [50.0, 25.0, 0.0])
    assert (found.judge, found.other, found.n_answers, found.n_nuggets) == ("ernie", "lexical", 3, 20)
    assert found.exact == 15 / 20
    assert found.kappa == cohen_kappa(THREE)
    assert found.kappa_quadratic == cohen_kappa(THREE, "quadratic")
    assert found.score_r == pytest.approx(1.0)
    assert found.as_json()["kappa"] == found.kappa


def test_judges_without_common_answers_have_no_coefficients() -> None:
    found = agreement_of("ernie", "lexical", {}, [], [])
    assert (found.n_nuggets, found.exact, found.kappa, found.score_r) == (0, None, None, None)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=30), st.randoms())
def test_correlation_does_not_depend_on_order_of_pairs(pairs: list[tuple[float, float]], rng: Random) -> None:
    shuffled = rng.sample(pairs, len(pairs))
    assert correlation(*zip(*shuffled, strict=True)) == correlation(*zip(*pairs, strict=True))


def test_orders_of_paper_table_9_have_tau_one() -> None:
    ernie, gpt, claude = [19.43, 23.46, 26.47], [27.74, 29.54, 29.79], [32.19, 33.80, 34.62]
    assert kendall_tau(ernie, gpt) == kendall_tau(gpt, claude) == 1.0


def test_reverse_order_has_tau_minus_one() -> None:
    assert kendall_tau([1.0, 2.0, 3.0], [9.0, 8.0, 7.0]) == -1.0


def test_tau_of_one_swap_matches_hand_calculation() -> None:
    """Five pairs agree, one does not: (5 - 1) / 6."""
    assert kendall_tau([1, 2, 3, 4], [2, 1, 3, 4]) == pytest.approx(4 / 6)


def test_tau_with_tie_matches_hand_calculation() -> None:
    """Two pairs agree; one is tied in a: 2 / sqrt(2 * 3)."""
    assert kendall_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(6))


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [2.0]), ([5.0, 5.0], [1.0, 2.0])])
def test_tau_is_none_without_an_order(a: list[float], b: list[float]) -> None:
    assert kendall_tau(a, b) is None


def test_tau_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="same systems"):
        kendall_tau([1.0], [1.0, 2.0])


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


def test_alpha_matches_published_example_of_two_observers() -> None:
    """Krippendorff 2011, section A: ten units, four of them in dispute, alpha = 0.095."""
    meg = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    owen = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha(np.array([meg, owen]).T, "nominal", 2) == pytest.approx(0.095, abs=0.0005)


def test_alpha_of_one_dispute_matches_hand_calculation() -> None:
    """Labels (0,0) (1,1) (0,1): three of each value, D_o = 2/6, D_e = 18/30, so alpha = 1 - 5/9."""
    labels = np.array([[0, 0], [1, 1], [0, 1]])
    assert krippendorff_alpha(labels, "nominal", 3) == pytest.approx(4 / 9)


def test_ordinal_alpha_penalises_larger_differences_more() -> None:
    near = np.array([[0, 0], [1, 1], [2, 2], [0, 1]])
    far = np.array([[0, 0], [1, 1], [2, 2], [0, 2]])
    assert krippendorff_alpha(near, "nominal", 3) == krippendorff_alpha(far, "nominal", 3)
    near_ordinal, far_ordinal = (krippendorff_alpha(labels, "ordinal", 3) for labels in (near, far))
    assert near_ordinal is not None
    assert far_ordinal is not None
    assert near_ordinal > far_ordinal


def test_alpha_of_full_agreement_is_one() -> None:
    assert krippendorff_alpha(np.array([[0, 0], [2, 2]]), "ordinal", 3) == 1.0


@pytest.mark.parametrize(
    "labels",
    [[[1, 1], [1, 1]], [[0, -1], [-1, 1]], []],
    ids=["one value", "nothing shared", "nothing"],
)
def test_alpha_is_none_without_two_labels_or_two_values(labels: list[list[int]]) -> None:
    assert krippendorff_alpha(np.array(labels, int).reshape(-1, 2), "nominal", 3) is None


def test_alpha_ignores_things_with_one_label() -> None:
    labels = np.array([[0, 0, 1], [1, 1, 1], [0, -1, -1]])
    assert krippendorff_alpha(labels, "nominal", 2) == krippendorff_alpha(labels[:2], "nominal", 2)


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
        rows = [Row(f"q{i}", labels=dict(zip(by_judge, said, strict=True))) for i, said in enumerate(words)]
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


def test_agreement_on_a_board_matches_hand_calculation(tmp_path: Path) -> None:
    """Of 8 labels 6 agree; by chance (4 * 2 + 3 * 4 + 1 * 2) / 64 = 22/64 would: kappa (48 - 22) / (64 - 22)."""
    board = board_of(
        tmp_path,
        orig={"ernie": ["nn", "np"], "gpt": ["nn", "pp"]},
        gpt_k1={"ernie": ["fn", "pp"], "gpt": ["ff", "pp"]},
    )
    found = robustness(board, ["ernie", "gpt"])
    assert found is not None
    (both,) = found.agreements
    assert (both.n_nuggets, both.n_answers, both.exact) == (8, 4, 0.75)
    assert both.kappa == pytest.approx(26 / 42)
    # Alpha, nominal: 2 * 2 of 16 coincidences differ; totals 6 7 3 differ in 16^2 - 36 - 49 - 9 = 162 of 240.
    assert found.alpha_nominal == pytest.approx(1 - (4 / 16) / (162 / 240))


def test_different_orderings_of_judges_are_reported(tmp_path: Path) -> None:
    board = board_of(tmp_path, a_k1={"ernie": ["f"], "gpt": ["n"]}, b_k1={"ernie": ["p"], "gpt": ["p"]})
    found = robustness(board, ["ernie", "gpt"])
    assert found is not None
    assert [judge.ordering for judge in found.judges] == ["a-k1 > b-k1", "b-k1 > a-k1"]
    assert (found.same_order, found.orders[0].tau) == (False, -1.0)


def test_equal_means_have_no_tau(tmp_path: Path) -> None:
    board = board_of(tmp_path, a_k1={"x": ["f"], "y": ["f"]}, b_k1={"x": ["f"], "y": ["f"]})
    found = robustness(board, ["x", "y"])
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


def test_single_judge_has_no_robustness(tmp_path: Path) -> None:
    assert robustness(board_of(tmp_path, a_k1={"x": ["f"]}), ["x"]) is None


def test_orderings_use_means_over_common_instances(tmp_path: Path) -> None:
    """By own means a-k1 has 50 and b-k1 100 / 3; on q0, which both have, b-k1 has 100."""
    both = {"x": "pp", "y": "pp"}
    rows = [Row("q0", labels=both), Row("q1", error="search"), Row("q2", error="search")]
    one = made_run(tmp_path, label="a-k1", rows=rows)
    labels = [{"x": word, "y": word} for word in ("ff", "nn", "nn")]
    other = made_run(tmp_path, label="b-k1", rows=[Row(f"q{i}", labels=of) for i, of in enumerate(labels)])
    found = robustness(make_board(map(read_run, (one, other))), ["x", "y"])
    assert found is not None
    assert found.judges[0].means == (50.0, pytest.approx(100 / 3))
    assert (found.n_common, found.judges[0].common_means) == (1, (50.0, 100.0))
    assert [judge.ordering for judge in found.judges] == ["b-k1 > a-k1"] * 2
    assert found.orders[0].tau == 1.0


def test_systems_without_common_instances_have_no_ordering(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, label=label, rows=[Row(id, labels={"x": "f", "y": "p"})])
        for label, id in (("a-k1", "q0"), ("b-k1", "q1"))
    ]
    found = robustness(make_board(map(read_run, runs)), ["x", "y"])
    assert found is not None
    assert (found.n_common, found.same_order, found.orders[0].tau) == (0, None, None)
    assert found.judges[0].ordering == ""
