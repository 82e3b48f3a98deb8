"""Learned rankings as tables and as JSON: two rankers on four queries, worked by hand."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from cts_async.neighbours.mimics_duo.features import FEATURES
from cts_async.neighbours.mimics_duo.ltr import (
    RANDOM,
    WORST,
    CrossValidated,
    PaneRanking,
    notes,
    ranking_tables,
)
from cts_async.report.tables import print_table

PRECISION = {"mart": [1, 1, 1, 0], "rankboost": [0, 0, 1, 0], RANDOM: [0.5] * 4, WORST: [0] * 4}
RECIPROCAL = {"mart": [1, 1, 1, 0.5], "rankboost": [0.5, 0.5, 1, 0.5], RANDOM: [0.75] * 4, WORST: [0.5] * 4}


def ranking(*rankers: str, test: str = "engagement", unlabelled: int = 0, repeated: int = 0) -> PaneRanking:
    weights = np.zeros(len(FEATURES))
    weights[[2, 5]] = 0.25, -0.75
    names = (*rankers, RANDOM, WORST)
    found = CrossValidated(
        ("q1", "q2", "q3", "q4"),
        8,
        2,
        {name: np.array(PRECISION[name], float) for name in names},
        {name: np.array(RECIPROCAL[name], float) for name in names},
        dict.fromkeys(rankers, weights),
    )
    return PaneRanking(found, "engagement", test, 5, 0, unlabelled, repeated)


def printed(one: PaneRanking) -> str:
    out = StringIO()
    for table in ranking_tables(one, "rankboost"):
        print_table(Console(file=out, width=80, color_system=None), table)
    return out.getvalue()


def rows_of(one: PaneRanking, table: str) -> list[dict[str, Any]]:
    return next(
        [dict(row) for row in found.rows] for found in ranking_tables(one, "rankboost") if found.name == table
    )


def test_the_tables_fit_80_columns_and_say_what_they_are_of() -> None:
    said = printed(ranking("mart", "rankboost", test="quality"))
    assert max(map(len, said.splitlines())) <= 80
    for words in (
        "Rankers trained on engagement, tested on quality",
        "4 queries with 8 panes",
        "Worst possible case",
        "The 10 features with the highest weight in RankBoost",
    ):
        assert words in said


def test_means_stand_beside_the_random_ranker_and_the_worst_case() -> None:
    rows = {row["ranker"]: row for row in rows_of(ranking("mart", "rankboost"), "rankers")}
    assert [(rows[name]["p_at_1"], rows[name]["mrr"]) for name in rows] == [
        (0.75, 0.875),
        (0.25, 0.625),
        (0.5, 0.75),
        (0, 0.5),
    ]
    assert rows[RANDOM]["p_mrr_vs_random"] is None


def test_pairs_are_tested_over_queries() -> None:
    """mart - rankboost in P@1: 1, 1, 0, 0: mean 1/2, sd 1 / sqrt 3, t = sqrt 3, with 3 degrees of freedom."""
    tests = rows_of(ranking("mart", "rankboost"), "tests")
    pair = next(test for test in tests if (test["measure"], test["right"]) == ("P@1", "rankboost"))
    assert (pair["left"], pair["n"], pair["difference"]) == ("mart", 4, 0.5)
    assert pair["t"] == pytest.approx(3**0.5)
    assert pair["p"] == pair["p_holm"] == pytest.approx(0.18169, abs=1e-5)
    assert len(tests) == 2 * (2 + 1)


def test_features_come_by_the_size_of_their_weight() -> None:
    weighed = [row for row in rows_of(ranking("mart", "rankboost"), "features") if row["ranker"] == "mart"]
    assert [(row["feature"], row["weight"]) for row in weighed[:2]] == [
        (FEATURES[5], -0.75),
        (FEATURES[2], 0.25),
    ]
    assert len(weighed) == len(FEATURES)


def test_one_ranker_has_no_matrix() -> None:
    assert "Do they differ?" not in printed(ranking("rankboost"))


def test_no_published_value_is_claimed_and_what_was_left_out_is_told() -> None:
    assert [note[:30] for note in notes(ranking("mart"))] == ["The paper's tables 3 to 5 are "]
    assert [note.split(".")[0] for note in notes(ranking("mart", unlabelled=1200, repeated=3))][:2] == [
        "Left out for want of a label: 1,200 panes",
        "Panes that stand more than once count once, by one row at random: 3 rows left out",
    ]
