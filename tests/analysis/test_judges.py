"""Judges of the same answers compared: table 9, and agreement worked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.analysis.agreement import robustness
from cts_async.analysis.board import Board, make_board
from cts_async.analysis.runs import read_run


def board_of(folder: Path, **labels: dict[str, list[str]]) -> Board:
    """By system and judge, a word of labels for each instance."""
    made = []
    for system, by_judge in labels.items():
        words = zip(*by_judge.values(), strict=True)
        rows = [Row(f"q{i}", labels=dict(zip(by_judge, said, strict=True))) for i, said in enumerate(words)]
        made.append(made_run(folder, label=system.replace("_", "-"), rows=rows))
    return make_board(read_run(path) for path in made)


def test_two_judges_by_hand(tmp_path: Path) -> None:
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


def test_equal_means_are_equal_in_whatever_order_they_are_summed(tmp_path: Path) -> None:
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


def test_agreement_by_hand(tmp_path: Path) -> None:
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


def test_judges_that_order_systems_differently_are_said_to(tmp_path: Path) -> None:
    board = board_of(tmp_path, a_k1={"ernie": ["f"], "gpt": ["n"]}, b_k1={"ernie": ["p"], "gpt": ["p"]})
    found = robustness(board, ["ernie", "gpt"])
    assert found is not None
    assert [judge.ordering for judge in found.judges] == ["a-k1 > b-k1", "b-k1 > a-k1"]
    assert (found.same_order, found.orders[0].tau) == (False, -1.0)


def test_equal_means_are_no_order(tmp_path: Path) -> None:
    board = board_of(tmp_path, a_k1={"x": ["f"], "y": ["f"]}, b_k1={"x": ["f"], "y": ["f"]})
    found = robustness(board, ["x", "y"])
    assert found is not None
    assert found.judges[0].ordering == "a-k1 = b-k1"
    assert found.orders[0].tau is None


def test_a_system_that_one_judge_has_not_seen_is_out_of_the_ordering(tmp_path: Path) -> None:
    board = board_of(
        tmp_path, a_k1={"x": ["f"], "y": ["p"]}, b_k1={"x": ["n"], "y": ["n"]}, c_k1={"x": ["p"]}
    )
    found = robustness(board, ["x", "y"])
    assert found is not None
    assert [judge.ordering for judge in found.judges] == ["a-k1 > b-k1"] * 2
    assert found.judges[1].means == (50.0, 0.0, None)
    assert found.judges[1].n_scored == (1, 1, 0)


def test_one_judge_alone_agrees_with_nobody(tmp_path: Path) -> None:
    assert robustness(board_of(tmp_path, a_k1={"x": ["f"]}), ["x"]) is None


def test_orders_are_by_the_instances_that_all_have(tmp_path: Path) -> None:
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


def test_systems_without_a_common_instance_have_no_order(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, label=label, rows=[Row(id, labels={"x": "f", "y": "p"})])
        for label, id in (("a-k1", "q0"), ("b-k1", "q1"))
    ]
    found = robustness(make_board(map(read_run, runs)), ["x", "y"])
    assert found is not None
    assert (found.n_common, found.same_order, found.orders[0].tau) == (0, None, None)
    assert found.judges[0].ordering == ""
