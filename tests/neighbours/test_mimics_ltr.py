"""Learning to rank panes: cross-validation without leaks, tests of pairs, tables."""

from __future__ import annotations

from io import StringIO
from math import sqrt
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from cts_async.errors import UsageError
from cts_async.neighbours.mimics_duo.features import FEATURES, PaneText
from cts_async.neighbours.mimics_duo.ltr import (
    RANDOM,
    WORST,
    CrossValidated,
    LabelledPanes,
    PaneRanking,
    cross_validate,
    folds_of,
    notes,
    one_of_each,
    ranking_tables,
    t_tests,
)
from cts_async.neighbours.mimics_duo.rankers import LearnedRanking, PaneRanker, RankingLists, chosen
from cts_async.report.tables import print_table

LINEAR = chosen(["pairwise-logistic"])
NAME = "pairwise-logistic"


def panes_of(queries: int) -> tuple[list[PaneText], list[float]]:
    """Three panes for each query; the label is the number of options, 2 to 4, in an order that varies."""
    rng = np.random.default_rng(5)
    counts = [int(n) for _ in range(queries) for n in rng.permutation([2, 3, 4])]
    panes = [
        PaneText(
            f"q{i // 3}", "Select one to refine your search", tuple(f"o{rng.integers(50)}" for _ in range(n))
        )
        for i, n in enumerate(counts)
    ]
    return panes, [float(n) for n in counts]


def test_deciding_feature_is_learned_for_unseen_queries() -> None:
    panes, labels = panes_of(30)
    found = cross_validate(LabelledPanes(panes, labels, labels), chosen(["rankboost", NAME]))
    for name in ("rankboost", NAME):
        assert found.precision[name].mean() == found.reciprocal[name].mean() == 1
        assert FEATURES[int(np.argmax(found.weights[name]))] == "The Number of Candidate Answers"
    assert (len(found.queries), found.panes, found.tied) == (30, 90, 0)


def test_random_and_worst_rankers_are_included() -> None:
    """One ideal pane of three: 1/3 and 11/18 at random, 0 and 1/3 at worst."""
    panes, labels = panes_of(10)
    found = cross_validate(LabelledPanes(panes, labels, labels), {})
    assert found.precision[RANDOM] == pytest.approx(np.full(10, 1 / 3))
    assert found.reciprocal[RANDOM] == pytest.approx(np.full(10, 11 / 18))
    assert found.precision[WORST] == pytest.approx(np.zeros(10))
    assert found.reciprocal[WORST] == pytest.approx(np.full(10, 1 / 3))


def test_labels_without_meaning_teach_nothing() -> None:
    """P@1 of 100 lists of three at random is 1/3 with a standard error of 0.047: it stays within three of them."""
    panes, _ = panes_of(100)
    labels = np.random.default_rng(11).permuted(np.tile([1.0, 2.0, 3.0], (100, 1)), axis=1).ravel().tolist()
    rankers = chosen(["mart", "rankboost", NAME])
    found = cross_validate(LabelledPanes(panes, labels, labels), rankers)
    for name in rankers:
        assert abs(found.precision[name].mean() - 1 / 3) < 3 * 0.047


def test_query_s_own_labels_never_reach_its_ranking() -> None:
    """Labels to train on are turned round for one fold's queries: theirs is the only fold that ranks as before."""
    panes, labels = panes_of(20)
    fold = folds_of(20, 5, 0)
    turned = [6 - label if fold[i // 3] == 2 else label for i, label in enumerate(labels)]
    seen = {}
    for name, train in (("before", labels), ("after", turned)):
        scores = Recorded()
        cross_validate(LabelledPanes(panes, train, labels), {"recorded": PaneRanker("r", scores.fit)})
        seen[name] = scores
    assert (seen["before"].labels[2] == seen["after"].labels[2]).all()
    assert all((seen["before"].labels[k] != seen["after"].labels[k]).any() for k in (0, 1, 3, 4))


def test_held_out_words_never_reach_the_features() -> None:
    """Training rows stay the same whatever the panes held out say; each column of them runs from 0 to 1."""
    panes, labels = panes_of(20)
    panes = [PaneText(f"win {pane.query}", f"{pane.query}: which win?", pane.options) for pane in panes]
    fold = folds_of(20, 5, 0)
    other = [
        PaneText(pane.query, "What else would you like to have?", ("mac", "mac"))
        if fold[i // 3] == 2
        else pane
        for i, pane in enumerate(panes)
    ]
    before, after = Recorded(), Recorded()
    for recorded, shown in ((before, panes), (after, other)):
        cross_validate(LabelledPanes(shown, labels, labels), {"recorded": PaneRanker("r", recorded.fit)})
    assert (before.features[2] == after.features[2]).all()
    assert (before.features[1] != after.features[1]).any()
    for rows in before.features:
        assert rows.min() == 0
        assert set(np.unique(rows.max(axis=0))) <= {0, 1}


def test_panes_of_a_query_need_not_be_contiguous() -> None:
    panes, labels = panes_of(12)
    order = np.random.default_rng(1).permutation(len(panes))
    # The first pane of each query keeps its place among first panes, so that queries fall into the same folds.
    order = sorted(order.tolist(), key=lambda i: i % 3)
    order[:12] = range(0, 36, 3)
    mixed = LabelledPanes([panes[i] for i in order], [labels[i] for i in order], [labels[i] for i in order])
    found = cross_validate(mixed, LINEAR)
    assert found.queries == tuple(f"q{i}" for i in range(12))
    assert found.precision[NAME].tolist() == [1] * 12


def test_one_label_can_train_for_another() -> None:
    """Trained on the opposite, it ranks the ideal pane last."""
    panes, labels = panes_of(15)
    found = cross_validate(LabelledPanes(panes, [-label for label in labels], labels), LINEAR)
    assert found.precision[NAME].mean() == 0
    assert found.reciprocal[NAME] == pytest.approx(found.reciprocal[WORST])


def test_queries_whose_panes_are_all_tied_are_left_out() -> None:
    panes, labels = panes_of(10)
    tied = [1.0] * 6 + labels[6:]
    found = cross_validate(LabelledPanes(panes, labels, tied), LINEAR)
    assert (len(found.queries), found.panes, found.tied) == (8, 24, 2)
    assert "q0" not in found.queries


def test_folds_are_even_seeded_and_by_query() -> None:
    assert np.bincount(folds_of(13, 5, 0)).tolist() == [3, 3, 3, 2, 2]
    assert folds_of(13, 5, 0).tolist() == folds_of(13, 5, 0).tolist() != folds_of(13, 5, 1).tolist()


@pytest.mark.parametrize("folds", [1, 4])
def test_impossible_folds_are_refused(folds: int) -> None:
    panes, labels = panes_of(3)
    with pytest.raises(UsageError, match=f"from 2 to the number of queries, 3; not {folds}"):
        cross_validate(LabelledPanes(panes, labels, labels), LINEAR, folds=folds)


def test_labels_all_alike_are_refused() -> None:
    panes, labels = panes_of(3)
    flat = [1.0] * len(panes)
    with pytest.raises(UsageError, match="nothing to learn from"):
        cross_validate(LabelledPanes(panes, flat, labels), LINEAR, folds=2)
    with pytest.raises(UsageError, match="nothing to test on"):
        cross_validate(LabelledPanes(panes, labels, flat), LINEAR, folds=2)


class Recorded:
    """Notes what each fold is trained on, and ranks nothing."""

    def __init__(self) -> None:
        self.features: list[np.ndarray] = []  # type: ignore[type-arg]
        self.labels: list[np.ndarray] = []  # type: ignore[type-arg]

    def fit(self, lists: RankingLists, seed: int) -> LearnedRanking:
        self.features.append(lists.features)
        self.labels.append(lists.labels)
        return LearnedRanking(lambda rows: np.zeros(len(rows)), np.zeros(len(FEATURES)))


A, B = PaneText("q", "s", ("a", "b")), PaneText("q", "s", ("b", "a"))


def test_repeated_pane_keeps_the_labels_of_one_of_its_rows() -> None:
    data = LabelledPanes([A, B, A, A], [1, 2, 3, 4], [10, 20, 30, 40])
    kept = [one_of_each(data, seed) for seed in range(30)]
    assert all(one.panes == [A, B] for one in kept)
    assert {(one.train[0], one.test[0]) for one in kept} == {(1, 10), (3, 30), (4, 40)}
    assert {(one.train[1], one.test[1]) for one in kept} == {(2, 20)}
    assert one_of_each(data, 3) == one_of_each(data, 3)


def test_every_pane_needs_both_labels() -> None:
    with pytest.raises(ValueError, match="one to test on"):
        LabelledPanes([A], [1], [])


VALUES = {"a": np.array([2.0, 4, 7]), "b": np.array([1.0, 2, 4]), "c": np.array([1.0, 2, 4])}


def test_family_is_corrected_as_one() -> None:
    """a - b is 1, 2, 3: p = 1 - sqrt(12 / 14), the smaller of two, so doubled; b and c are the same."""
    first, second = t_tests("P@1", VALUES, [("a", "b"), ("b", "c")])
    assert (first["left"], first["right"], second["left"], second["right"]) == ("a", "b", "b", "c")
    assert first["difference"] == 2
    assert first["p"] == pytest.approx(1 - sqrt(12 / 14))
    assert first["p_holm"] == pytest.approx(2 * (1 - sqrt(12 / 14)))
    assert second["p_holm"] == 1


def test_no_pair_is_no_test() -> None:
    assert t_tests("P@1", VALUES, []) == []


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


def test_ltr_tables_fit_80_columns_and_name_their_data() -> None:
    said = printed(ranking("mart", "rankboost", test="quality"))
    assert max(map(len, said.splitlines())) <= 80
    for words in (
        "Rankers trained on engagement, tested on quality",
        "4 queries with 8 panes",
        "Worst possible case",
        "The 10 features with the highest weight in RankBoost",
    ):
        assert words in said


def test_rankers_table_includes_random_ranker_and_worst_case() -> None:
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


def test_features_are_ordered_by_absolute_weight() -> None:
    weighed = [row for row in rows_of(ranking("mart", "rankboost"), "features") if row["ranker"] == "mart"]
    assert [(row["feature"], row["weight"]) for row in weighed[:2]] == [
        (FEATURES[5], -0.75),
        (FEATURES[2], 0.25),
    ]
    assert len(weighed) == len(FEATURES)


def test_one_ranker_has_no_matrix() -> None:
    assert "Do they differ?" not in printed(ranking("rankboost"))


def test_notes_name_left_out_panes_and_claim_no_published_value() -> None:
    assert [note[:30] for note in notes(ranking("mart"))] == ["The paper's tables 3 to 5 are "]
    assert [note.split(".")[0] for note in notes(ranking("mart", unlabelled=1200, repeated=3))][:2] == [
        "Left out for want of a label: 1,200 panes",
        "Panes that stand more than once count once, by one row at random: 3 rows left out",
    ]
