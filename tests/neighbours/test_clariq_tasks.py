"""ClariQ's tasks: run files and predictions read, measures by hand and as in the official program."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.errors import InputError
from cts_async.neighbours.clariq.tasks import (
    RunLine,
    document_relevance,
    label_agreement,
    question_relevance,
    ranked,
    read_clariq_evaluation,
    read_predictions,
    read_run,
    selected,
    with_ids,
)

# -- task 2: question relevance -------------------------------------------------------------------------


def test_recall_is_share_of_topic_questions_in_top_k() -> None:
    relevant = {"7": frozenset({"Q1", "Q2", "Q3", "Q00001"}), "9": frozenset({"Q4"})}
    run = [("7", "Q3", 1.0), ("7", "Q1", 3.0), ("7", "Q9", 2.0), ("9", "Q4", 0.5)]
    found = question_relevance(relevant, run, cutoffs=(1, 2, 3))
    assert found.recall == {1: {"7": 0.25, "9": 1.0}, 2: {"7": 0.25, "9": 1.0}, 3: {"7": 0.5, "9": 1.0}}
    assert [found.mean(k) for k in (1, 2, 3)] == [0.625, 0.625, 0.75]


def test_no_question_is_a_relevant_question_as_any_other() -> None:
    found = question_relevance({"7": frozenset({"Q1", "Q00001"})}, [("7", "Q00001", 1.0)], cutoffs=(5,))
    assert found.mean(5) == 0.5


def test_of_equal_scores_the_first_is_kept_and_the_others_take_no_place() -> None:
    assert ranked([("Q1", 1.0), ("Q2", 2.0), ("Q3", 2.0), ("Q4", 1.0), ("Q5", 0.0)]) == ["Q2", "Q1", "Q5"]
    run = [("7", "Q1", 5.0), ("7", "Q2", 5.0), ("7", "Q3", 4.0)]
    found = question_relevance({"7": frozenset({"Q2", "Q3"})}, run, cutoffs=(2,))
    assert found.mean(2) == 0.5


def test_repeated_question_takes_a_rank_each_time_and_is_found_once() -> None:
    # By falling score: a a b (5.0 again: dropped as a tie) c. At 2 only a is found, at 3 a and b, at 4 all three.
    run = [("1", "a", 9.0), ("1", "a", 7.0), ("1", "b", 5.0), ("1", "a", 5.0), ("1", "c", 1.0)]
    found = question_relevance({"1": frozenset("abc")}, run, (2, 3, 4))
    assert [found.mean(k) for k in (2, 3, 4)] == [1 / 3, 2 / 3, 1.0]


def test_topic_that_is_not_in_the_run_counts_zero_and_a_foreign_one_nothing() -> None:
    relevant = {"7": frozenset({"Q1"}), "9": frozenset({"Q4"})}
    found = question_relevance(relevant, [("7", "Q1", 1.0), ("11", "Q4", 1.0)])
    assert (found.mean(5), found.unranked) == (0.5, ("9",))


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5))))
def test_recall_is_a_share_that_grows_with_the_cutoff(lines: list[tuple[str, int]]) -> None:
    run = [("7", question, float(score)) for question, score in lines]
    found = question_relevance({"7": frozenset("abc")}, run, cutoffs=(1, 2, 4, 8))
    values = [found.mean(k) for k in (1, 2, 4, 8)]
    assert values == sorted(values)
    assert 0 <= values[0] <= values[-1] <= 1


# -- task 2: document relevance -------------------------------------------------------------------------

EVALUATION = {
    "MRR100": {
        "F01": {"Q1": 0.5, "Q2": 0.75, "MAX": 1.0, "MIN": 0.25},
        "F02": {"Q1": 0.125, "Q2": 0.5, "MAX": 0.5, "MIN": 0.0},
        "F03": {"Q4": 1.0, "MAX": 1.0, "MIN": 0.5},
    }
}
TOPICS = {"F01": "7", "F02": "7", "F03": "9"}


def test_question_on_top_is_asked_and_of_equal_ones_the_last() -> None:
    run = [("7", "Q1", 1.0), ("7", "Q2", 3.0), ("7", "Q3", 3.0), ("7", "Q4", 2.0), ("9", "Q4", -1.0)]
    assert selected(run) == {"7": "Q3", "9": "Q4"}


def test_one_question_is_asked_for_every_facet_of_its_topic() -> None:
    found = document_relevance(EVALUATION, {"7": "Q2", "9": "Q4"}, TOPICS)
    assert found is not None
    assert found.values == {"MRR100": {"F01": 0.75, "F02": 0.5, "F03": 1.0}}
    assert found.mean("MRR100") == 0.75


@pytest.mark.parametrize("question", ["Q9", "", "MIN", "MAX"])
def test_unjudged_question_and_max_count_as_the_worst(question: str) -> None:
    found = document_relevance(EVALUATION, {"7": question, "9": "Q4"}, TOPICS)
    assert found is not None
    assert found.values["MRR100"] == {"F01": 0.25, "F02": 0.0, "F03": 1.0}
    assert found.unjudged == (() if question.startswith("M") else ("F01", "F02"))


def test_topic_without_a_question_counts_zero() -> None:
    found = document_relevance(EVALUATION, {"7": "Q1"}, TOPICS)
    assert found is not None
    assert (found.values["MRR100"]["F03"], found.unasked) == (0.0, ("F03",))


def test_facets_of_other_files_count_nothing_and_those_without_evaluation_are_named() -> None:
    found = document_relevance(EVALUATION, {"7": "Q1"}, {"F01": "7", "F77": "7"})
    assert found is not None
    assert (found.values, found.unknown) == ({"MRR100": {"F01": 0.5}}, ("F77",))
    assert document_relevance(EVALUATION, {"7": "Q1"}, {"F77": "7"}) is None


def test_in_conversations_questions_are_asked_by_context() -> None:
    found = document_relevance(EVALUATION, {"F01": "Q1", "F03": "Q4"})
    assert found is not None
    assert found.values["MRR100"] == {"F01": 0.5, "F02": 0.0, "F03": 1.0}


# -- task 1: clarification need -------------------------------------------------------------------------


def test_labels_are_averaged_by_how_many_topics_have_them() -> None:
    """Truth 1 1 2 3 against 1 2 2 2: P = 1, 1/3, 0 and R = 1/2, 1, 0 and F = 2/3, 1/2, 0 for 1, 2, 3."""
    found = label_agreement({"a": 1, "b": 1, "c": 2, "d": 3}, {"a": 1, "b": 2, "c": 2, "d": 2, "z": 4})
    assert found.precision == pytest.approx((2 * 1 + 1 / 3) / 4)
    assert found.recall == 0.5
    assert found.f1 == pytest.approx((2 * 2 / 3 + 1 / 2) / 4)


def test_missing_prediction_is_the_label_that_no_topic_has() -> None:
    found = label_agreement({"a": 1, "b": 1}, {"a": 1})
    assert (found.precision, found.recall, found.f1) == (1.0, 0.5, pytest.approx(2 / 3))
    assert (found.n, found.n_missing) == (2, 1)


@settings(deadline=None, max_examples=30)  # the first example imports scikit-learn
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1))
def test_averages_are_those_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not here")
    truth, guesses = zip(*pairs, strict=True)
    expected = metrics.precision_recall_fscore_support(truth, guesses, average="weighted", zero_division=0)
    topics = [str(i) for i in range(len(pairs))]
    found = label_agreement(dict(zip(topics, truth, strict=True)), dict(zip(topics, guesses, strict=True)))
    assert (found.precision, found.recall, found.f1) == pytest.approx(expected[:3])


Write = Callable[..., Path]


def test_run_is_lines_of_topic_question_and_score(write: Write) -> None:
    path = write("run", "170 Q0 Q00380 0 6.5 mine\n\n171\t0  Q00934 1 -1e-3 mine")
    assert list(read_run(path)) == [RunLine("170", "Q00380", 6.5), RunLine("171", "Q00934", -0.001)]


def test_run_of_conversations_quotes_its_questions(write: Write) -> None:
    path = write("run", '784 0 "are you looking for \'reviews\'" 0 13 best\n785 0 "" 0 13 best\n')
    lines = list(read_run(path))
    assert [line.question for line in lines] == ["are you looking for 'reviews'", ""]
    bank = {"Q00001": "", "Q00009": "are you looking for 'reviews'"}
    assert [line.question for line in with_ids(lines, bank)] == ["Q00009", "Q00001"]
    assert [line.question for line in with_ids(lines, {"Q00001": ""})] == ["", "Q00001"]


@pytest.mark.parametrize(
    ("content", "line", "field", "says"),
    [
        ("1 0 Q1 0 2.5\n", 1, None, "has 5 cells, not 6: topic Q0 question rank score tag is expected"),
        ("1 0 Q1 0 high x\n", 1, "score", "must be a finite number, is 'high'"),
        ("1 0 Q1 0 nan x\n", 1, "score", "must be a finite number"),
        ("1 0 Q1 -1 2 x\n", 1, "rank", "must be a whole number from 0, is '-1'"),
        ('1 0 "open 0 2 x\n', 1, None, "has a quote that is not closed"),
        ("", None, None, "holds no lines"),
        (b"1 0 \xb5\xe7 0 2 x\n", 1, None, "not UTF-8"),
        ("1 0 Q1 0 2 " + "x" * 300, 1, None, "longer than 200 bytes"),
    ],
)
def test_broken_run_is_located(
    write: Write, content: str | bytes, line: int | None, field: str | None, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        list(read_run(write("run", content), max_line_bytes=200))
    assert (caught.value.line, caught.value.field) == (line, field)
    assert says in caught.value.problem


def test_repeated_questions_are_kept_and_their_lines_collected(write: Write) -> None:
    path = write("run", "1 0 Q1 0 3 x\n1 0 Q1 1 2 x\n2 0 Q1 0 3 x\n1 0 Q2 2 1 x\n1 0 Q1 3 0 x\n")
    repeats: list[int] = []
    assert [line.question for line in read_run(path, repeats)] == ["Q1", "Q1", "Q1", "Q2", "Q1"]
    assert repeats == [2, 5]


def test_predictions_are_labels_by_topic(write: Write) -> None:
    assert read_predictions(write("need", "171 1\n170 4\n")) == {"171": 1, "170": 4}


@pytest.mark.parametrize(
    ("content", "line", "field", "says"),
    [
        ("171\n", 1, None, "has 1 cells, not 2: topic label is expected"),
        ("171 x\n", 1, "label", "must be a whole number from 0, is 'x'"),
        ("171 1\n171 2\n", 2, "topic", "'171' occurs twice"),
        ("", None, None, "holds no lines"),
        (b"\xb5 1\n", 1, None, "not UTF-8"),
        ("171 " + "1" * 300, 1, None, "longer than 200 bytes"),
    ],
)
def test_broken_predictions_are_located(
    write: Write, content: str | bytes, line: int | None, field: str | None, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_predictions(write("need", content), max_line_bytes=200)
    assert (caught.value.line, caught.value.field) == (line, field)
    assert says in caught.value.problem


# -- evaluations ----------------------------------------------------------------------------------------


def pair(value: Any) -> dict[str, Any]:
    return {"no_answer": 0.1, "with_answer": value}


def test_evaluation_is_read_with_its_answers(write: Write) -> None:
    table = {"NDCG3": {"F01": {"Q00010": pair(0.5), "MAX": pair(1), "MIN": pair(0.25)}}}
    found = read_clariq_evaluation(write("eval.json", table))
    assert found == {"NDCG3": {"F01": {"Q00010": 0.5, "MAX": 1.0, "MIN": 0.25}}}


@pytest.mark.parametrize("name", ["eval.json", "eval.pkl"])
def test_pickle_is_refused_whatever_it_is_called(write: Write, name: str) -> None:
    with pytest.raises(InputError, match="is a pickle, not JSON: reading a pickle runs whatever code"):
        read_clariq_evaluation(write(name, pickle.dumps({"P1": {"F01": {}}})))


@pytest.mark.parametrize(
    ("content", "line", "field", "says"),
    [
        ([], None, None, "must be an object, is a list"),
        ({}, None, None, "is empty"),
        ({"P1": 3}, None, "P1", "must be an object, is a number"),
        ({"P1": {"F01": {"Q1": pair(1)}}}, None, "P1.F01", "has no 'MIN'"),
        ({"P1": {"F01": {"MIN": 0.5}}}, None, "P1.F01.MIN", "must be an object, is a number"),
        (
            {"P1": {"F01": {"MIN": {"no_answer": 1}}}},
            None,
            "P1.F01.MIN.with_answer",
            "must be a number, is null",
        ),
        ({"P1": {"F01": {"MIN": pair(True)}}}, None, "P1.F01.MIN.with_answer", "is true or false"),
        ({"P1": {"F01": {"MIN": pair(1.5)}}}, None, "P1.F01.MIN.with_answer", "must be from 0 to 1, is 1.5"),
        (b'{"P1": {},\n"P1": {}}', None, "P1", "the key"),
        (b'{"P1":\n}', 2, None, "is not valid JSON"),
        (b'{"P1":\n"\xb5"}', 2, None, "is not UTF-8"),
        (b'{"P1": "' + b"x" * 600 + b'"}', None, None, "is larger than 500 bytes"),
    ],
)
def test_broken_evaluation_is_located(
    write: Write, content: Any, line: int | None, field: str | None, says: str
) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content)
    with pytest.raises(InputError) as caught:
        read_clariq_evaluation(write("eval.json", raw), max_bytes=500)
    assert (caught.value.line, caught.value.field) == (line, field)
    assert says in caught.value.problem
