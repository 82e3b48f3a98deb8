"""Clarification generation (tables 5 to 7, section 7), by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_talks import made_talk

from cts_async.analysis.conversations import Talk, read_talk
from cts_async.analysis.stats import paired_t_test
from cts_async.analysis.turn_retrieval import retrieve_turns
from cts_async.neighbours.at_cot.generation import (
    Best,
    Correlation,
    Generated,
    GeneratedQuestions,
    alignment,
    asked_first,
    by_level,
    pearson,
    retrieved_first,
    scheme_scores,
    score_queries,
    source_of,
    type_distribution,
)
from cts_async.search.rankers import Ranked


class Made:
    """Scores that were made up; counts how often each pair was asked for."""

    name = "made"
    is_bertscore = False

    def __init__(self, scores: Mapping[tuple[str, str], float]) -> None:
        self._scores = scores
        self.asked: list[tuple[str, str]] = []

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Any:
        import numpy as np

        self.asked += [(a, b) for a in generated for b in annotated]
        return np.array([[self._scores.get((a, b), 0.0) for b in annotated] for a in generated])


def of(**schemes: Mapping[str, Sequence[str]]) -> GeneratedQuestions:
    """`of(cot={"q": ["a", "b"]})`."""
    return {
        scheme.replace("_", "-"): {query: Generated(tuple(questions)) for query, questions in queries.items()}
        for scheme, queries in schemes.items()
    }


MATRIX = {("g1", "a1"): 0.2, ("g1", "a2"): 0.7, ("g2", "a1"): 0.9, ("g2", "a2"): 0.1}


def test_query_scores_the_greatest_of_the_whole_matrix() -> None:
    found = score_queries(of(cot={"q": ["g1", "g2"]}), {"q": ["a1", "a2"]}, Made(MATRIX))
    best = found["cot"]["q"]
    assert (best.points, best.question, best.annotated) == (pytest.approx(90.0), "g2", "a1")


def test_schemes_that_ask_the_same_share_its_comparison() -> None:
    made = Made(MATRIX)
    found = score_queries(of(standard={"q": ["g1"]}, cot={"q": ["g1", "g2"]}), {"q": ["a1", "a2"]}, made)
    assert [found[scheme]["q"].points for scheme in found] == [pytest.approx(70.0), pytest.approx(90.0)]
    assert sorted(made.asked) == sorted(MATRIX)


def test_queries_without_annotation_or_question_are_left_out_and_counted() -> None:
    generated = of(cot={"q": ["g1"], "nobody wrote": ["g1"], "nothing asked": [" "]})
    scores = score_queries(
        generated, {"q": ["a2"], "nothing asked": ["a1"], "nobody wrote": []}, Made(MATRIX)
    )
    (row,) = scheme_scores(scores, generated)
    assert (row.n, row.left_out, row.mean) == (1, 2, pytest.approx(70.0))


def test_scheme_without_any_score_has_no_mean() -> None:
    generated = of(cot={"q": ["g1"]})
    (row,) = scheme_scores(score_queries(generated, {}, Made({})), generated)
    assert (row.n, row.left_out, row.mean) == (0, 1, None)


QUERIES = "abcd"
STANDARD, AT_COT = [50, 52, 54, 56], [60, 61, 64, 67]
"""Differences 10, 9, 10, 11: mean 10, variance 2/3, t = 10 / sqrt(2/3/4) = 24.495 with 3 degrees of freedom."""


def two_schemes() -> tuple[GeneratedQuestions, Any]:
    generated = of(
        standard={query: [f"s{query}"] for query in QUERIES},
        at_cot={query: [f"t{query}"] for query in QUERIES},
    )
    made = {(f"s{query}", "x"): points / 100 for query, points in zip(QUERIES, STANDARD, strict=True)}
    made |= {(f"t{query}", "x"): points / 100 for query, points in zip(QUERIES, AT_COT, strict=True)}
    return generated, score_queries(generated, {query: ["x"] for query in QUERIES}, Made(made))


def test_table_5_by_hand() -> None:
    generated, scores = two_schemes()
    standard, at_cot = scheme_scores(scores, generated)
    assert (standard.mean, at_cot.mean) == (pytest.approx(53.0), pytest.approx(63.0))
    test = at_cot.tests["standard"]
    assert (test.n, test.difference, test.t) == (4, pytest.approx(10.0), pytest.approx(10 / (1 / 6) ** 0.5))
    assert test.p == pytest.approx(paired_t_test(AT_COT, STANDARD).p)
    assert at_cot.improves_on("standard")
    assert list(standard.tests) == []
    assert not at_cot.improves_on("cot")


def test_significant_loss_is_no_improvement() -> None:
    generated, scores = two_schemes()
    renamed = {"cot": scores["standard"], "standard": scores["at-cot"]}
    cot, _ = scheme_scores(renamed, generated)
    assert cot.tests["standard"].p < 0.01
    assert not cot.improves_on("standard")


def test_pairs_are_of_the_queries_that_both_have() -> None:
    generated, scores = two_schemes()
    fewer = {"standard": {"a": scores["standard"]["a"]}, "at-cot": scores["at-cot"]}
    _, at_cot = scheme_scores(fewer, generated)
    assert (at_cot.n, at_cot.tests["standard"].n) == (4, 1)


def test_table_6_takes_the_queries_of_each_level() -> None:
    generated, scores = two_schemes()
    found = by_level(scores, generated, {"a": 4, "b": 1, "c": 4, "elsewhere": 2})
    assert list(found) == [1, 4]
    assert [row.mean for row in found[4]] == [pytest.approx(52.0), pytest.approx(62.0)]
    assert [(row.n, row.left_out) for row in found[1]] == [(1, 0), (1, 0)]


def test_progress_is_reported_after_each_query() -> None:
    told: list[tuple[int, int]] = []
    generated = of(cot={"q": ["g1"], "r": ["g2"]})
    score_queries(
        generated, {"q": ["a1"], "r": ["a1"]}, Made(MATRIX), on_progress=lambda *at: told.append(at)
    )
    assert told == [(1, 2), (2, 2)]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.randoms())
def test_order_of_questions_changes_no_score(points: list[int], random: Any) -> None:
    questions = [f"g{n}" for n in range(len(points))]
    made = Made({(question, "x"): one / 100 for question, one in zip(questions, points, strict=True)})
    random.shuffle(questions)
    found = score_queries(of(cot={"q": questions}), {"q": ["x"]}, made)
    assert found["cot"]["q"].points == pytest.approx(max(points))


def best(**points: float) -> dict[str, Best]:
    return {query: Best(one, "g", "a") for query, one in points.items()}


PREDICTED = {
    "a": Generated(("g",), ("semantic", "specify")),
    "b": Generated(("g",), ("specify",)),
    "c": Generated(("g",), ("specify", "specify")),
    "d": Generated(("g",)),
}


def test_shares_are_of_all_predictions_and_add_up_to_one() -> None:
    """Four predictions over three queries: semantic 1, specify 3; a type named twice counts once."""
    semantic, generalize, specify = type_distribution(PREDICTED)
    assert [(one.n, one.of) for one in (semantic, generalize, specify)] == [(1, 4), (0, 4), (3, 4)]
    assert [one.share for one in (semantic, generalize, specify)] == [0.25, 0.0, 0.75]


def test_gains_are_over_the_queries_with_the_type_and_both_scores() -> None:
    """specify: a +4, b -1 (c has no CoT score): mean 1.5; semantic: a alone."""
    found = type_distribution(PREDICTED, best(a=80, b=70, c=90, d=0), best(a=76, b=71, d=50))
    assert [(one.gain.n, one.gain.difference) for one in found] == [
        (1, pytest.approx(4.0)),
        (0, 0.0),
        (2, pytest.approx(1.5)),
    ]


def test_no_predictions_have_no_shares() -> None:
    assert {one.share for one in type_distribution({"d": PREDICTED["d"]})} == {None}


def test_papers_own_tables_give_another_correlation_than_it_prints() -> None:
    """Table 5 (Qulac) and table 8 (TREC 09-12, respond, turn 1); printed are r = 0.92 and p = 0.08."""
    found = pearson([77.9, 77.0, 79.2, 80.6], [0.232, 0.230, 0.238, 0.244])
    assert (found.n, round(found.r or 0, 3), round(found.p or 0, 3)) == (4, 0.994, 0.006)


def test_published_r_and_p_are_consistent() -> None:
    """With n = 4 the t distribution has 2 degrees of freedom, where p = 1 - |r|: 0.92 goes with 0.08."""
    found = pearson([0, 1, 2, 3], [0, 3, 1, 2])
    assert (found.r, found.p) == (pytest.approx(0.4), pytest.approx(0.6))


def test_two_points_show_nothing_and_a_constant_has_no_correlation() -> None:
    assert pearson([1, 2], [5, 3]) == Correlation(2, pytest.approx(-1.0), 1.0)
    assert pearson([1, 1, 1], [1, 2, 3]) == Correlation(3, None, None)
    assert pearson([1], [1]) == Correlation(1, None, None)
    assert pearson([1, 2, 3], [2, 4, 6]) == Correlation(3, 1.0, 0.0)


def scores(**points: float) -> dict[str, Best]:
    return {query: Best(one, "g", "a") for query, one in points.items()}


def test_schemes_and_queries_are_aligned_by_hand() -> None:
    """cot retrieves (0.1 + 0.3 + 0.5) / 3 over its intents; over queries it has (60, 0.2) and (80, 0.5)."""
    generated = {"standard": scores(a=50, b=60), "cot": scores(a=60, b=80), "at-cot": scores(a=90)}
    retrieval = {"standard": {"a": [0.2], "b": [0.2]}, "cot": {"a": [0.1, 0.3], "b": [0.5], "c": []}}
    found = alignment(generated, retrieval)
    assert [(one.scheme, one.generation, one.retrieval) for one in found.schemes] == [
        ("standard", 55.0, pytest.approx(0.2)),
        ("cot", 70.0, pytest.approx(0.3)),
    ]
    assert found.over_schemes == Correlation(2, 1.0, 1.0)
    assert [one.over_queries.r for one in found.schemes] == [None, pytest.approx(1.0)]


BLURRED = {"1-1": "jaguar", "1-2": "jaguar", "2-1": "ferry"}


def talk(folder: Path, scheme: str, mode: str, asked: dict[str, list[str]]) -> Talk:
    rows = {
        id: [
            {"offered": [question], "types": ["specify"], "query": f"{BLURRED[id]} {n}"}
            for n, question in enumerate(questions)
        ]
        for id, questions in asked.items()
    }
    return read_talk(made_talk(folder, scheme=scheme, mode=mode, rows=rows, queries=BLURRED))


def test_first_intent_that_was_talked_about_speaks_for_its_query(tmp_path: Path) -> None:
    asked = {"2-1": ["When?"], "1-2": ["Which?", "Why?"]}
    cot = talk(tmp_path, "cot", "respond", asked)
    assert asked_first([cot], BLURRED) == {
        "cot": {"jaguar": Generated(("Which?",), ("specify",)), "ferry": Generated(("When?",), ("specify",))}
    }
    assert asked_first([cot], {"1-2": "jaguar"}) == {"cot": {"jaguar": Generated(("Which?",), ("specify",))}}


def test_questions_asked_at_once_go_before_first_turns(tmp_path: Path) -> None:
    respond = talk(tmp_path, "cot", "respond", {"1-1": ["Which?"]})
    at_once = talk(tmp_path, "standard", "at-once", {"1-1": ["Who?"]})
    select = talk(tmp_path, "at-cot", "select", {"1-1": ["jaguar cat"]})
    assert source_of([respond, at_once, select]) == "at-once"
    assert asked_first([respond, at_once, select], BLURRED) == {
        "standard": {"jaguar": Generated(("Who?",), ("specify",))}
    }
    assert source_of([respond, select]) == "respond"


def test_offered_queries_are_no_questions(tmp_path: Path) -> None:
    select = talk(tmp_path, "at-cot", "select", {"1-1": ["jaguar cat"]})
    assert source_of([select]) is None
    assert asked_first([select], BLURRED) == {}


def test_retrieval_is_that_of_every_intent_after_the_first_response(tmp_path: Path) -> None:
    talks = [
        talk(tmp_path, "cot", "respond", {"1-1": ["a", "b"], "1-2": ["a", "b"]}),
        talk(tmp_path, "cot", "select", {"1-1": ["a", "b"]}),
    ]
    found_at = {"jaguar": [], "ferry": [], "jaguar 0": [Ranked("x", 1.0)], "jaguar 1": []}
    qrels = {"1-1": {"x": 1}, "1-2": {"y": 1}}
    found = retrieve_turns(talks, BLURRED, found_at, qrels, ["MRR@10"])
    assert retrieved_first(found, "MRR@10", BLURRED) == {"cot": {"jaguar": [1.0, 0.0]}}
