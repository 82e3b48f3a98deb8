"""Learning to rank panes: features by hand, cross-validation without leaks, tests of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UsageError
from cts_async.neighbours.mimics_duo.ltr import (
    FEATURES,
    RANDOM,
    WORST,
    Collection,
    HeldOutScores,
    LabelledPanes,
    PaneText,
    bm25,
    collections,
    cross_validate,
    features,
    folds_of,
    labelled_panes,
    matching_terms,
    pane_words,
    read_labelled,
    t_tests,
    tf_idf_cosine,
    transfer,
)
from cts_async.neighbours.mimics_duo.rankers import LearnedRanking, PaneRanker, RankingLists, rankers_named

LINEAR = rankers_named(["pairwise-logistic"])
NAME = "pairwise-logistic"


def labelled(
    panes: Sequence[PaneText], train: Sequence[float], test: Sequence[float] | None = None
) -> LabelledPanes:
    return labelled_panes(dict(zip(panes, zip(train, test or train, strict=True), strict=True)))


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
    found = cross_validate(labelled(panes, labels), rankers_named(["rankboost", NAME]))
    for name in ("rankboost", NAME):
        assert found.by_measure["P@1"][name].mean() == found.by_measure["MRR"][name].mean() == 1
        assert FEATURES[int(np.argmax(found.weights[name]))] == "The Number of Candidate Answers"
    assert (len(found.queries), found.panes) == (30, 90)


def test_ranker_is_trained_on_one_collection_and_tested_on_another_without_shared_queries() -> None:
    """q20 to q29 are in both collections, where all their labels are turned round: nothing of them may be learned."""
    panes, labels = panes_of(30)
    turned = [*labels[:60], *(6 - label for label in labels[60:])]
    reached, shared = transfer(labelled(panes, turned), labelled(panes[60:], labels[60:]), LINEAR)
    assert (reached.queries, shared) == (tuple(f"q{i}" for i in range(20, 30)), 10)
    assert reached.by_measure["P@1"][NAME].tolist() == [1] * 10
    recorded = Recorded()
    transfer(
        labelled(panes, turned),
        labelled(panes[60:], labels[60:]),
        {"recorded": PaneRanker("r", recorded.fit)},
    )
    alone = Recorded()
    transfer(
        labelled(panes[:60], labels[:60]),
        labelled([PaneText("other", pane.question, pane.options) for pane in panes[60:]], labels[60:]),
        {"recorded": PaneRanker("r", alone.fit)},
    )
    assert (recorded.features[0] == alone.features[0]).all()
    with pytest.raises(UsageError, match="no query that the test data does not have"):
        transfer(labelled(panes, labels), labelled(panes, labels), LINEAR)


def test_random_and_worst_rankers_are_included() -> None:
    """One ideal pane of three: 1/3 and 11/18 at random, 0 and 1/3 at worst."""
    panes, labels = panes_of(10)
    found = cross_validate(labelled(panes, labels), {})
    assert found.by_measure["P@1"][RANDOM] == pytest.approx(np.full(10, 1 / 3))
    assert found.by_measure["MRR"][RANDOM] == pytest.approx(np.full(10, 11 / 18))
    assert found.by_measure["P@1"][WORST] == pytest.approx(np.zeros(10))
    assert found.by_measure["MRR"][WORST] == pytest.approx(np.full(10, 1 / 3))


def test_what_is_held_out_never_reaches_labels_or_features_of_its_fold() -> None:
    """In one fold labels to train on are turned round and panes reworded: theirs is the only one that stays as before.

    Each column of the features to train on runs from 0 to 1.
    """
    panes, labels = panes_of(20)
    panes = [PaneText(f"win {pane.query}", f"{pane.query}: which win?", pane.options) for pane in panes]
    held_out = [folds_of(20, 5, 0)[i // 3] == 2 for i in range(len(panes))]
    turned = [6 - label if out else label for label, out in zip(labels, held_out, strict=True)]
    other = [
        PaneText(pane.query, "What else would you like to have?", ("mac", f"mac{i}")) if held_out[i] else pane
        for i, pane in enumerate(panes)
    ]
    before, after = Recorded(), Recorded()
    for recorded, shown, train in ((before, panes, labels), (after, other, turned)):
        cross_validate(labelled(shown, train, labels), {"recorded": PaneRanker("r", recorded.fit)})
    assert (before.labels[2] == after.labels[2]).all()
    assert all((before.labels[k] != after.labels[k]).any() for k in (0, 1, 3, 4))
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
    mixed = labelled([panes[i] for i in order], [labels[i] for i in order])
    found = cross_validate(mixed, LINEAR)
    assert found.queries == tuple(f"q{i}" for i in range(12))
    assert found.by_measure["P@1"][NAME].tolist() == [1] * 12


def test_queries_whose_panes_are_all_tied_are_left_out() -> None:
    panes, labels = panes_of(10)
    tied = [1.0] * 6 + labels[6:]
    found = cross_validate(labelled(panes, labels, tied), LINEAR)
    assert (len(found.queries), found.panes) == (8, 24)
    assert "q0" not in found.queries


def test_folds_are_even_seeded_and_by_query() -> None:
    assert np.bincount(folds_of(13, 5, 0)).tolist() == [3, 3, 3, 2, 2]
    assert folds_of(13, 5, 0).tolist() == folds_of(13, 5, 0).tolist() != folds_of(13, 5, 1).tolist()


def test_data_that_cannot_be_validated_are_refused() -> None:
    panes, labels = panes_of(3)
    flat = [1.0] * len(panes)
    for train, test, folds, message in (
        (labels, labels, 1, "from 2 to the number of queries, 3; not 1"),
        (labels, labels, 4, "from 2 to the number of queries, 3; not 4"),
        (flat, labels, 2, "nothing to learn from"),
        (labels, flat, 2, "nothing to test on"),
    ):
        with pytest.raises(UsageError, match=message):
            cross_validate(labelled(panes, train, test), LINEAR, folds=folds)


class Recorded:
    """Notes what each fold is trained on, and ranks nothing."""

    def __init__(self) -> None:
        self.features: list[np.ndarray] = []  # type: ignore[type-arg]
        self.labels: list[np.ndarray] = []  # type: ignore[type-arg]

    def fit(self, lists: RankingLists, seed: int) -> LearnedRanking:
        self.features.append(lists.features)
        self.labels.append(lists.labels)
        return LearnedRanking(lambda rows: np.zeros(len(rows)), np.zeros(len(FEATURES)))


def test_repeated_pane_keeps_the_labels_of_one_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "panes.tsv"
    header = "query\tquestion\toption_1\toption_2\toption_3\toption_4\toption_5\tengagement_level\toffline rating\n"
    rows = [("a", 1, 10), ("b", 2, 20), ("a", 3, 30), ("a", 4, 40), ("a", 5, "")]
    path.write_text(header + "".join(f"q\ts\t{o}\tx\t\t\t\t{train}\t{test}\n" for o, train, test in rows))
    kept = [read_labelled(path, ("engagement", "rating"), seed) for seed in range(30)]
    assert {(len(one.words), one.unlabelled, one.repeated) for one in kept} == {(2, 1, 2)}
    assert {(one.train[0], one.test[0]) for one in kept} == {(1, 10), (3, 30), (4, 40)}
    assert {(one.train[1], one.test[1]) for one in kept} == {(2, 20)}


def test_pairs_are_tested_over_queries_as_one_family() -> None:
    """a - b is 1, 2, 3: p = 1 - sqrt(12 / 14), the smaller of two, so doubled; b and c are the same."""
    values = {"a": np.array([2.0, 4, 7]), "b": np.array([1.0, 2, 4]), "c": np.array([1.0, 2, 4])}
    found = HeldOutScores(("x", "y", "z"), 9, {"P@1": values}, {})
    first, second = t_tests(found, [("a", "b"), ("b", "c")])
    assert (first["left"], first["right"], first["difference"]) == ("a", "b", 2)
    assert first["p"] == pytest.approx(1 - sqrt(12 / 14))
    assert first["p_holm"] == pytest.approx(2 * (1 - sqrt(12 / 14)))
    assert second["p_holm"] == 1
    assert t_tests(found, []) == []


# --- Features --------------------------------------------------------------------------------------------

PANE = PaneText("win 10", "Which win do you run?", ("win 10", "", "win 7"))
KNOWN = Collection.from_texts([["a", "b"], ["a", "c", "c", "d"]])
"""Two texts of three words on average; "a" occurs in both."""
WORDS = st.lists(st.sampled_from("abcde"), max_size=6)


def test_pane_is_its_question_with_all_options_and_with_each() -> None:
    words = pane_words(PANE)
    question = ["which", "win", "do", "you", "run"]
    assert words.query == ["win", "10"]
    assert words.fields == (
        [*question, "win", "10", "win", "7"],
        [*question, "win", "10"],
        None,
        [*question, "win", "7"],
        None,
        None,
    )
    assert (words.options, words.is_question) == (2, True)


def test_bm25_by_hand() -> None:
    """c: idf ln(1 + 1.5 / 1.5), tf 2 in a text of 4 where 3 is usual; a: idf ln(1 + .5 / 2.5), tf 1 in one of 3."""
    assert bm25(["c"], ["a", "c", "c", "d"], KNOWN) == pytest.approx(
        log(2) * 2 * 2.2 / (2 + 1.2 * (0.25 + 1))
    )
    assert bm25(["a"], ["a", "x", "y"], KNOWN) == pytest.approx(log(1.2))
    assert bm25(["a", "a", "z"], ["a", "x", "y"], KNOWN) == pytest.approx(log(1.2))


def test_tf_idf_cosine_by_hand() -> None:
    """idf a = 1 + ln(3/3) = 1, of c 1 + ln(3/2): (1, 0) against (1, 2 (1 + ln 1.5))."""
    idf = 1 + log(1.5)
    assert tf_idf_cosine(["a"], ["a", "c", "c"], KNOWN) == pytest.approx(1 / sqrt(1 + 4 * idf * idf))
    assert tf_idf_cosine(["a", "c"], ["c", "a"], KNOWN) == pytest.approx(1)
    assert tf_idf_cosine(["a"], [], KNOWN) == 0


def test_matching_terms_by_hand() -> None:
    """ "7 win" in "7 win xp" leaves out 3 of 5 + 8 characters, and the order of words does not matter."""
    assert matching_terms(["win", "7"], ["xp", "win", "7"]) == pytest.approx(10 / 13)
    assert matching_terms(["win", "7"], ["7", "win"]) == 1
    assert matching_terms(["ab"], ["xy"]) == 0


def test_missing_option_scores_nothing() -> None:
    words = pane_words(PANE)
    row = dict(zip(FEATURES, features([words], collections([words]))[0], strict=True))
    for name, value in row.items():
        assert (value == 0) == ("Option2" in name or "Option4" in name or "Option5" in name), name
    assert row["The Number of Candidate Answers"] == 2
    assert row["The clarification is a Statement or a Question"] == 1


@given(WORDS, WORDS, st.lists(WORDS, max_size=4))
def test_similarities_are_bounded_and_silent_on_nothing_in_common(
    query: list[str], words: list[str], texts: list[list[str]]
) -> None:
    known = Collection.from_texts(texts)
    assert bm25(query, words, known) >= 0
    assert 0 <= tf_idf_cosine(query, words, known) <= 1 + 1e-9
    assert 0 <= matching_terms(query, words) <= 1
    if not set(query) & set(words):
        assert bm25(query, words, known) == tf_idf_cosine(query, words, known) == 0
