"""Tables 5 and 6 over a made scorer, worked by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.stats import paired_t_test
from cts_async.neighbours.at_cot.generation import (
    Generated,
    GeneratedQuestions,
    by_level,
    scheme_scores,
    score_queries,
)


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


def test_a_query_scores_the_greatest_of_the_whole_matrix() -> None:
    found = score_queries(of(cot={"q": ["g1", "g2"]}), {"q": ["a1", "a2"]}, Made(MATRIX))
    best = found["cot"]["q"]
    assert (best.points, best.question, best.annotated) == (pytest.approx(90.0), "g2", "a1")


def test_schemes_that_ask_the_same_share_its_comparison() -> None:
    made = Made(MATRIX)
    found = score_queries(of(standard={"q": ["g1"]}, cot={"q": ["g1", "g2"]}), {"q": ["a1", "a2"]}, made)
    assert [found[scheme]["q"].points for scheme in found] == [pytest.approx(70.0), pytest.approx(90.0)]
    assert sorted(made.asked) == sorted(MATRIX)


def test_what_nobody_annotated_or_asked_is_left_out_and_counted() -> None:
    generated = of(cot={"q": ["g1"], "nobody wrote": ["g1"], "nothing asked": [" "]})
    scores = score_queries(
        generated, {"q": ["a2"], "nothing asked": ["a1"], "nobody wrote": []}, Made(MATRIX)
    )
    (row,) = scheme_scores(scores, generated)
    assert (row.n, row.left_out, row.mean) == (1, 2, pytest.approx(70.0))


def test_a_scheme_without_any_score_has_no_mean() -> None:
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


def test_a_significant_loss_is_no_improvement() -> None:
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


def test_progress_is_told_after_each_query() -> None:
    told: list[tuple[int, int]] = []
    generated = of(cot={"q": ["g1"], "r": ["g2"]})
    score_queries(
        generated, {"q": ["a1"], "r": ["a1"]}, Made(MATRIX), on_progress=lambda *at: told.append(at)
    )
    assert told == [(1, 2), (2, 2)]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.randoms())
def test_the_order_of_questions_changes_no_score(points: list[int], random: Any) -> None:
    questions = [f"g{n}" for n in range(len(points))]
    made = Made({(question, "x"): one / 100 for question, one in zip(questions, points, strict=True)})
    random.shuffle(questions)
    found = score_queries(of(cot={"q": questions}), {"q": ["x"]}, made)
    assert found["cot"]["q"].points == pytest.approx(max(points))
