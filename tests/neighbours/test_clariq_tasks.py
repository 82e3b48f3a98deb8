"""ClariQ's tasks: run files and predictions read, measures by hand and as in the official program."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import InputError
from cts_async.neighbours.clariq.tasks import (
    DocumentRelevance,
    document_relevance,
    label_agreement,
    question_relevance,
    read_clariq_evaluation,
    read_clariq_run,
    read_predictions,
    top_questions,
)

# -- task 2: question relevance -------------------------------------------------------------------------

RELEVANT = {"7": frozenset({"Q1", "Q2", "Q3", "Q00001"}), "9": frozenset({"Q4"})}


def means(
    relevant: dict[str, frozenset[str]], run: list[tuple[str, str, float]], *cutoffs: int
) -> list[float]:
    recall, _ = question_relevance(relevant, run, cutoffs)
    return [fmean(recall[k].values()) for k in cutoffs]


def test_recall_is_share_of_topic_questions_in_top_k() -> None:
    run = [("7", "Q3", 1.0), ("7", "Q1", 3.0), ("7", "Q9", 2.0), ("9", "Q4", 0.5)]
    recall, unranked = question_relevance(RELEVANT, run, cutoffs=(1, 2, 3))
    assert recall == {1: {"7": 0.25, "9": 1.0}, 2: {"7": 0.25, "9": 1.0}, 3: {"7": 0.5, "9": 1.0}}
    assert unranked == []
    # A topic that the run does not have counts 0, one that only the run has counts nothing.
    recall, unranked = question_relevance(RELEVANT, [("7", "Q00001", 1.0), ("11", "Q4", 1.0)])
    assert (recall[5], unranked) == ({"7": 0.25, "9": 0.0}, ["9"])


def test_ties_are_dropped_but_repeated_questions_take_a_rank_each_time() -> None:
    """By falling score: a a b (the 5.0 after it is dropped) c. At 2 only a is found, at 3 a and b, at 4 all three."""
    run = [("1", "a", 9.0), ("1", "a", 7.0), ("1", "b", 5.0), ("1", "a", 5.0), ("1", "c", 1.0)]
    assert means({"1": frozenset("abc")}, run, 2, 3, 4) == [1 / 3, 2 / 3, 1.0]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5))))
def test_recall_is_a_share_that_grows_with_the_cutoff(lines: list[tuple[str, int]]) -> None:
    run = [("7", question, float(score)) for question, score in lines]
    values = means({"7": frozenset("abc")}, run, 1, 2, 4, 8)
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
    assert top_questions(run) == {"7": "Q3", "9": "Q4"}


@pytest.mark.parametrize(
    ("asked", "topics", "values", "others"),
    [
        # A question is asked for every facet of its topic.
        ({"7": "Q2", "9": "Q4"}, TOPICS, {"F01": 0.75, "F02": 0.5, "F03": 1.0}, {}),
        # An unjudged question and MAX count as the worst.
        ({"7": "Q9", "9": "Q4"}, TOPICS, {"F01": 0.25, "F02": 0.0, "F03": 1.0}, {"unjudged": ("F01", "F02")}),
        ({"7": "MAX", "9": "Q4"}, TOPICS, {"F01": 0.25, "F02": 0.0, "F03": 1.0}, {}),
        # A topic without a question counts 0.
        ({"7": "Q1"}, TOPICS, {"F01": 0.5, "F02": 0.125, "F03": 0.0}, {"unasked": ("F03",)}),
        # Facets of other files count nothing, those without an evaluation are named.
        ({"7": "Q1"}, {"F01": "7", "F77": "7"}, {"F01": 0.5}, {"unknown": ("F77",)}),
        # In conversations questions are asked by context.
        ({"F01": "Q1", "F03": "Q4"}, None, {"F01": 0.5, "F02": 0.0, "F03": 1.0}, {"unasked": ("F02",)}),
    ],
)
def test_document_relevance_by_hand(
    asked: dict[str, str], topics: dict[str, str] | None, values: dict[str, float], others: dict[str, Any]
) -> None:
    unknown = {"unasked": (), "unjudged": (), "unknown": ()} | others
    assert document_relevance(EVALUATION, asked, topics) == DocumentRelevance({"MRR100": values}, **unknown)


def test_facets_without_any_evaluation_have_no_relevance() -> None:
    assert document_relevance(EVALUATION, {"7": "Q1"}, {"F77": "7"}) is None


# -- task 1: clarification need -------------------------------------------------------------------------


def test_labels_are_averaged_by_how_many_topics_have_them() -> None:
    """Truth 1 1 2 3 against 1 2 2 2: P = 1, 1/3, 0 and R = 1/2, 1, 0 and F = 2/3, 1/2, 0 for 1, 2, 3."""
    truth = {"a": 1, "b": 1, "c": 2, "d": 3}
    found = label_agreement(truth, {"a": 1, "b": 2, "c": 2, "d": 2, "z": 4})
    assert found == pytest.approx(((2 * 1 + 1 / 3) / 4, 0.5, (2 * 2 / 3 + 1 / 2) / 4))
    assert label_agreement({"a": 1, "b": 1}, {"a": 1}) == pytest.approx((1.0, 0.5, 2 / 3))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1))
def test_averages_are_those_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not here")
    truth, guesses = zip(*pairs, strict=True)
    expected = metrics.precision_recall_fscore_support(truth, guesses, average="weighted", zero_division=0)
    topics = [str(i) for i in range(len(pairs))]
    found = label_agreement(dict(zip(topics, truth, strict=True)), dict(zip(topics, guesses, strict=True)))
    assert found == pytest.approx(expected[:3])


# -- files ----------------------------------------------------------------------------------------------

Write = Callable[..., Path]


def test_run_is_lines_of_topic_question_and_score(write: Write) -> None:
    content = (
        "170 Q0 Q00380 0 6.5 mine\n\n171\t0  Q00934 1 -1e-3 mine\n784 0 \"looking for 'reviews'\" 0 1 x\n"
    )
    assert read_clariq_run(write("run", content + '785 0 "" 0 2 x\n')) == (
        [
            ("170", "Q00380", 6.5),
            ("171", "Q00934", -0.001),
            ("784", "looking for 'reviews'", 1.0),
            ("785", "", 2.0),
        ],
        [],
    )


def test_repeated_questions_are_kept_and_counted_in_a_note(write: Write) -> None:
    path = write("run", "1 0 Q1 0 3 x\n1 0 Q1 1 2 x\n2 0 Q1 0 3 x\n1 0 Q2 2 1 x\n1 0 Q1 3 0 x\n")
    lines, (note,) = read_clariq_run(path)
    assert [line.question for line in lines] == ["Q1", "Q1", "Q1", "Q2", "Q1"]
    assert note.startswith(f"{path}:2: 2 lines repeat a question of the same topic")


@pytest.mark.parametrize(
    ("read", "content", "line", "says"),
    [
        (read_clariq_run, "1 0 Q1 0 2.5\n", 1, "has 5 cells; topic Q0 question rank score tag is expected"),
        (read_clariq_run, "1 0 Q1 0 high x\n", 1, "must be a valid number"),
        (read_clariq_run, "1 0 Q1 0 nan x\n", 1, "must be a finite number"),
        (read_clariq_run, '1 0 "open 0 2 x\n', 1, "has a broken quote"),
        (read_clariq_run, "", None, "holds no lines"),
        (read_predictions, "171\n", 1, "has 1 cells; topic label is expected"),
        (read_predictions, "171 x\n", 1, "must be a valid integer"),
        (read_predictions, "171 1\n171 2\n", 2, "'171' occurs twice"),
        (read_predictions, "", None, "holds no lines"),
    ],
)
def test_broken_file_is_located(
    write: Write, read: Callable[[Path], Any], content: str, line: int | None, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(write("file", content))
    assert caught.value.line == line
    assert says in caught.value.problem


def pair(value: Any) -> dict[str, Any]:
    return {"no_answer": 0.1, "with_answer": value}


@pytest.mark.parametrize(
    ("content", "field", "says"),
    [
        ([], None, "must be a valid dictionary"),
        ({"P1": {"F01": {"Q1": pair(1)}}}, "P1.F01", "has no 'MIN'"),
        ({"P1": {"F01": {"MIN": 0.5}}}, "P1.F01.MIN", "is 0.5"),
        ({"P1": {"F01": {"MIN": {"no_answer": 1}}}}, "P1.F01.MIN.with_answer", "is missing"),
        ({"P1": {"F01": {"MIN": pair(True)}}}, "P1.F01.MIN.with_answer", "must be a valid number, is True"),
        ({"P1": {"F01": {"MIN": pair(1.5)}}}, "P1.F01.MIN.with_answer", "equal to 1, is 1.5"),
        (b'{"P1": {},\n"P1": {}}', "P1", "the key is repeated"),
        (pickle.dumps({"P1": {"F01": {}}}), None, "is a pickle, not JSON"),
    ],
)
def test_broken_evaluation_is_located(write: Write, content: Any, field: str | None, says: str) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content)
    with pytest.raises(InputError) as caught:
        read_clariq_evaluation(write("eval.json", raw))
    assert caught.value.field == field
    assert says in caught.value.problem
