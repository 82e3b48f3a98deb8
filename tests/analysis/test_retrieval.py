"""Measures of rankings against hand calculation and trec_eval."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis import retrieval
from cts_async.analysis.retrieval import count_hopeless, evaluate, measure, pseudo_qrels
from cts_async.errors import UsageError
from cts_async.search.backends import Ranked


def in_order(*ids: str) -> list[tuple[str, float]]:
    return [(document, float(-place)) for place, document in enumerate(ids)]


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("nDCG@10", "nDCG@10"),
        ("NDCG20", "nDCG@20"),
        ("ndcg", "nDCG"),
        ("P1", "P@1"),
        ("P@5", "P@5"),
        ("MRR100", "RR@100"),
        ("RR@10", "RR@10"),
        ("mrr", "RR"),
        ("MAP", "AP"),
        ("AP@1000", "AP@1000"),
        ("Recall@100", "R@100"),
    ],
)
def test_measure_is_known_by_its_usual_names(name: str, usual: str) -> None:
    assert measure(name) == usual


def test_missing_evaluator_is_reported_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as refused:
        evaluate({"q": {"d": 1}}, {"q": [("d", 1.0)]}, ["P@1"])
    problem = "measures of retrieval need ir-measures and a C compiler: pip install 'cts-async[retrieval]'"
    assert str(refused.value) == problem


@pytest.mark.parametrize("name", ["", "BLEU", "P@", "P", "R", "nDCG@0", "nDCG@-1", "P@5@5", "10", "P@٣"])
def test_unknown_measure_is_refused_with_examples(name: str) -> None:
    with pytest.raises(UsageError, match=r"@10"):
        measure(name)


IDEAL = 3 + 2 / log2(3) + 1 / log2(4)
GRADED = {"a": 3, "b": 2, "c": 1}
SPAM = {"spam": -2, "zero": 0, "good": 2}


@pytest.mark.parametrize(
    ("grades", "ranking", "name", "expected"),
    [
        # linear gains 1, 0, 3 at ranks 1 to 3; the ideal is of all that was judged
        (GRADED, in_order("c", "x", "a", "b"), "nDCG@3", (1 + 3 / log2(4)) / IDEAL),
        (GRADED, in_order("c", "x", "a", "b"), "nDCG@2", 1 / (3 + 2 / log2(3))),
        (GRADED, in_order("c", "x", "a", "b"), "nDCG", (1 + 3 / log2(4) + 2 / log2(5)) / IDEAL),
        (GRADED, in_order("a", "x", "b"), "P@5", 2 / 5),
        (GRADED, in_order("x", "a", "b"), "P@1", 0),
        # relevant at ranks 1 and 3 of three relevant ones
        (GRADED, in_order("a", "x", "b"), "MAP", (1 + 2 / 3) / 3),
        (GRADED, in_order("a", "x", "b"), "R@3", 2 / 3),
        # ties, as 32-bit floats, by descending id
        ({"b": 1}, [("a", 1.0), ("b", 1.0)], "RR@1", 1),
        ({"a": 1}, [("a", 1.0), ("b", 1.0)], "P@1", 0),
        ({"b": 1}, [("a", 1.0 + 1e-9), ("b", 1.0)], "P@1", 1),
        (SPAM, in_order("spam", "zero", "good"), "RR", 1 / 3),
        (SPAM, in_order("spam", "zero", "good"), "nDCG@10", 1 / 2),
    ],
)
def test_value_matches_hand_calculation(
    grades: dict[str, int], ranking: list[tuple[str, float]], name: str, expected: float
) -> None:
    assert evaluate({"q": grades}, {"q": ranking}, [name])[name]["q"] == pytest.approx(expected)


def test_reciprocal_rank_respects_cutoff() -> None:
    ranking = in_order("x", "y", "a")
    both = evaluate({"q": {"a": 1}}, {"q": ranking}, ["RR@2", "MRR@3", "MRR", "MRR100"])
    assert {name: found["q"] for name, found in both.items()} == {
        "RR@2": 0,
        "MRR@3": pytest.approx(1 / 3),
        "MRR": pytest.approx(1 / 3),
        "MRR100": pytest.approx(1 / 3),
    }


def test_relevance_level_does_not_change_ndcg() -> None:
    """At level 2 the relevant a and c stand at ranks 4 and 3, b (grade 1) at rank 1 does not count."""
    qrels, run = {"q": {"a": 3, "b": 1, "c": 2}}, {"q": in_order("b", "x", "c", "a")}
    names = ["RR", "RR@2", "AP", "P@3", "R@3", "nDCG@3"]
    found = {name: by_id["q"] for name, by_id in evaluate(qrels, run, names, level=2).items()}
    assert found == {
        "RR": pytest.approx(1 / 3),
        "RR@2": 0,
        "AP": pytest.approx((1 / 3 + 2 / 4) / 2),
        "P@3": pytest.approx(1 / 3),
        "R@3": pytest.approx(1 / 2),
        "nDCG@3": pytest.approx(evaluate(qrels, run, ["nDCG@3"])["nDCG@3"]["q"]),
    }
    assert evaluate(qrels, run, ["RR", "AP"], level=4) == {"RR": {"q": 0.0}, "AP": {"q": 0.0}}
    assert (count_hopeless(qrels, level=3), count_hopeless(qrels, level=4)) == (0, 1)


def test_empty_ranking_scores_0_and_unjudged_query_is_left_out() -> None:
    qrels = {"empty": {"a": 1}, "absent": {"a": 1}, "nothing relevant": {"a": 0}, "unjudged": {}}
    run = {
        "empty": [],
        "nothing relevant": in_order("a"),
        "unjudged": in_order("a"),
        "unknown": in_order("a"),
    }
    found = evaluate(qrels, run, ["nDCG@10", "P1", "MRR@10"])
    assert found == {
        name: dict.fromkeys(("empty", "absent", "nothing relevant"), 0.0)
        for name in ("nDCG@10", "P1", "MRR@10")
    }
    assert evaluate({}, run, ["P1"]) == {"P1": {}}


def test_hopeless_queries_have_no_relevant_document() -> None:
    assert count_hopeless({"a": {"x": 0, "y": -2}, "b": {"x": 0, "y": 1}, "nobody judged": {}}) == 1


DOCUMENTS = st.sampled_from("abcdefgh")


@given(
    st.dictionaries(DOCUMENTS, st.integers(-2, 4), min_size=1),
    st.dictionaries(DOCUMENTS, st.floats(-9, 9), max_size=8),
    st.randoms(use_true_random=False),
)
def test_values_are_shares_and_do_not_depend_on_order(grades, scores, random) -> None:
    names = ["nDCG@3", "P@3", "RR@2", "MAP"]
    ranking = list(scores.items())
    found = evaluate({"q": grades}, {"q": ranking}, names)
    random.shuffle(ranking)
    assert evaluate({"q": grades}, {"q": ranking}, names) == found
    assert all(0 <= found[name]["q"] <= 1 for name in names)


class Known:
    """Ranks what it was told, and counts how often it was asked."""

    name = "known"

    def __init__(self, rankings: dict[str, list[str]]) -> None:
        self.rankings, self.asked = rankings, 0

    def rank(self, query: str, limit: int) -> list[Ranked]:
        self.asked += 1
        return [Ranked(document, -float(place)) for place, document in enumerate(self.rankings[query])][
            :limit
        ]


def test_pseudo_qrels_have_one_grade_and_rank_each_intent_once() -> None:
    ranker = Known({"red foxes": ["d3", "d1", "d2"], "nothing": []})
    best = {"d3": 1, "d1": 1}
    intents = {"1-1": "red foxes", "1-2": "nothing", "2-1": "red foxes"}
    assert pseudo_qrels(ranker, intents, 2) == {"1-1": best, "2-1": best}
    assert ranker.asked == 2
