"""Run files, predictions and evaluation dictionaries of ClariQ."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cts_async.errors import InputError
from cts_async.neighbours.clariq.tasks import (
    RunLine,
    read_clariq_evaluation,
    read_predictions,
    read_run,
    with_ids,
)

Write = Callable[..., Path]


def test_a_run_is_lines_of_topic_question_and_score(write: Write) -> None:
    path = write("run", "170 Q0 Q00380 0 6.5 mine\n\n171\t0  Q00934 1 -1e-3 mine")
    assert list(read_run(path)) == [RunLine("170", "Q00380", 6.5), RunLine("171", "Q00934", -0.001)]


def test_a_run_of_conversations_quotes_its_questions(write: Write) -> None:
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
def test_a_broken_run_is_located(
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
        ("171 1\n171 2\n", 2, "topic", "'171' stands twice"),
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


def test_an_evaluation_is_read_with_its_answers(write: Write) -> None:
    table = {"NDCG3": {"F01": {"Q00010": pair(0.5), "MAX": pair(1), "MIN": pair(0.25)}}}
    found = read_clariq_evaluation(write("eval.json", table))
    assert found == {"NDCG3": {"F01": {"Q00010": 0.5, "MAX": 1.0, "MIN": 0.25}}}


@pytest.mark.parametrize("name", ["eval.json", "eval.pkl"])
def test_a_pickle_is_refused_whatever_it_is_called(write: Write, name: str) -> None:
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
        (b'{"P1": {},\n"P1": {}}', 2, "P1", "the key is repeated"),
        (b'{"P1":\n}', 2, None, "is not valid JSON"),
        (b'{"P1":\n"\xb5"}', 2, None, "is not UTF-8"),
        (b'{"P1": "' + b"x" * 600 + b'"}', None, None, "is larger than 500 bytes"),
    ],
)
def test_a_broken_evaluation_is_located(
    write: Write, content: Any, line: int | None, field: str | None, says: str
) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content)
    with pytest.raises(InputError) as caught:
        read_clariq_evaluation(write("eval.json", raw), max_bytes=500)
    assert (caught.value.line, caught.value.field) == (line, field)
    assert says in caught.value.problem
