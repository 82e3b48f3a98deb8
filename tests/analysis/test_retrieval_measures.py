"""Rankings against judgments: every value worked by hand from trec_eval's definitions."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.retrieval import count_hopeless, evaluate, measure
from cts_async.errors import UsageError


def value(grades: dict[str, int], ranking: list[tuple[str, float]], name: str) -> float:
    return evaluate({"q": grades}, {"q": ranking}, [name])[name]["q"]


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
def test_a_measure_is_known_by_every_usual_name(name: str, usual: str) -> None:
    assert measure(name) == usual


@pytest.mark.parametrize("name", ["", "BLEU", "P@", "P", "R", "nDCG@0", "nDCG@-1", "P@5@5", "10", "P@٣"])
def test_another_name_is_refused_with_examples(name: str) -> None:
    with pytest.raises(UsageError, match=r"@10"):
        measure(name)


def test_graded_ndcg_has_linear_gains_and_the_ideal_of_all_that_was_judged() -> None:
    """Gains 1, 0, 3 at ranks 1 to 3; the ideal is 3, 2, 1 for a, b, c, and 3, 2 at a cutoff of 2."""
    grades = {"a": 3, "b": 2, "c": 1}
    ranking = in_order("c", "x", "a", "b")
    ideal = 3 + 2 / log2(3) + 1 / log2(4)
    assert value(grades, ranking, "nDCG@3") == pytest.approx((1 + 3 / log2(4)) / ideal)
    assert value(grades, ranking, "nDCG@2") == pytest.approx(1 / (3 + 2 / log2(3)))
    assert value(grades, ranking, "nDCG") == pytest.approx((1 + 3 / log2(4) + 2 / log2(5)) / ideal)


def test_precision_divides_by_the_cutoff_however_short_the_ranking() -> None:
    assert value({"a": 1, "b": 4}, in_order("a", "x", "b"), "P@5") == pytest.approx(2 / 5)
    assert value({"a": 1, "b": 4}, in_order("x", "a", "b"), "P@1") == 0


def test_average_precision_and_recall_divide_by_all_that_is_relevant() -> None:
    """Relevant at ranks 1 and 3 of three relevant ones: (1/1 + 2/3) / 3."""
    grades = {"a": 1, "b": 2, "c": 1}
    assert value(grades, in_order("a", "x", "b"), "MAP") == pytest.approx((1 + 2 / 3) / 3)
    assert value(grades, in_order("a", "x", "b"), "R@3") == pytest.approx(2 / 3)


def test_a_reciprocal_rank_sees_no_further_than_its_cutoff() -> None:
    ranking = in_order("x", "y", "a")
    both = evaluate({"q": {"a": 1}}, {"q": ranking}, ["RR@2", "MRR@3", "MRR", "MRR100"])
    assert {name: found["q"] for name, found in both.items()} == {
        "RR@2": 0,
        "MRR@3": pytest.approx(1 / 3),
        "MRR": pytest.approx(1 / 3),
        "MRR100": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize("name", ["RR@1", "P@1"])
def test_ties_go_by_descending_id_as_in_trec_eval(name: str) -> None:
    assert value({"b": 1}, [("a", 1.0), ("b", 1.0)], name) == 1
    assert value({"a": 1}, [("a", 1.0), ("b", 1.0)], name) == 0


@pytest.mark.parametrize("name", ["RR@1", "P@1"])
def test_scores_are_compared_as_32_bit_floats_as_in_trec_eval(name: str) -> None:
    assert value({"b": 1}, [("a", 1.0 + 1e-9), ("b", 1.0)], name) == 1


def test_grades_below_one_are_not_relevant() -> None:
    grades = {"spam": -2, "zero": 0, "good": 2}
    assert value(grades, in_order("spam", "zero", "good"), "RR") == pytest.approx(1 / 3)
    assert value(grades, in_order("spam", "zero", "good"), "nDCG@10") == pytest.approx(1 / 2)


def test_a_relevance_level_decides_what_is_relevant_and_leaves_the_gains_of_ndcg() -> None:
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


def test_what_found_nothing_counts_zero_and_what_nobody_judged_is_left_out() -> None:
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


def test_hopeless_are_the_judged_without_a_relevant_document() -> None:
    assert count_hopeless({"a": {"x": 0, "y": -2}, "b": {"x": 0, "y": 1}, "nobody judged": {}}) == 1


def test_values_stand_under_the_names_that_were_asked_for() -> None:
    found = evaluate({"q": {"a": 1}}, {"q": in_order("a")}, ["NDCG20", "nDCG@20", "P1"])
    assert found == {"NDCG20": {"q": 1.0}, "nDCG@20": {"q": 1.0}, "P1": {"q": 1.0}}


DOCUMENTS = st.sampled_from("abcdefgh")


@given(
    st.dictionaries(DOCUMENTS, st.integers(-2, 4), min_size=1),
    st.dictionaries(DOCUMENTS, st.floats(-9, 9), max_size=8),
    st.randoms(use_true_random=False),
)
def test_values_are_shares_and_the_order_of_the_lines_says_nothing(grades, scores, random) -> None:
    names = ["nDCG@3", "P@3", "RR@2", "MAP"]
    ranking = list(scores.items())
    found = evaluate({"q": grades}, {"q": ranking}, names)
    random.shuffle(ranking)
    assert evaluate({"q": grades}, {"q": ranking}, names) == found
    assert all(0 <= found[name]["q"] <= 1 for name in names)
