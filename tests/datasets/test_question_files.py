"""Files of questions with answers, and of question types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cts_async.datasets.candidates import QuestionedInstance, read_question_file, read_type_labels
from cts_async.errors import InputError

Write = Callable[..., Path]


def test_list_cells_are_json_or_python_literals(write: Write) -> None:
    text = (
        'id,clarification_questions,ua_answers\na,"[""which year?"",""where?""]","[""2024"",""unknown""]"\n'
    )
    text += "b,\"['who?', 'why?']\",\"['unknown', 'it''s late']\"\n".replace("it''s", "it is")
    assert read_question_file(write("k2.csv", text)) == [
        QuestionedInstance("a", ("which year?", "where?"), ("2024", "unknown")),
        QuestionedInstance("b", ("who?", "why?"), ("unknown", "it is late")),
    ]


@pytest.mark.parametrize("word", ["", "False", "nan", "None"])
def test_error_cell_that_denies_an_error_is_none(write: Write, word: str) -> None:
    path = write("k1.csv", f"id,question,answer,error\na,when?,now,{word}\nb,when?,now,timeout\n")
    assert read_question_file(path) == [
        QuestionedInstance("a", ("when?",), ("now",)),
        QuestionedInstance("b", (), ()),
    ]


@pytest.mark.parametrize("header", ["question1,question2,answer1,answer2", "Q_1,Q_2,A_1,A_2"])
def test_numbered_columns_are_turns(write: Write, header: str) -> None:
    text = f"id,{header}\na,when?,where?,now,unknown\nb,when?,,now,\n"
    assert read_question_file(write("k2.csv", text)) == [
        QuestionedInstance("a", ("when?", "where?"), ("now", "unknown")),
        QuestionedInstance("b", ("when?",), ("now",)),
    ]


def test_rows_of_one_id_are_turns_in_order(write: Write) -> None:
    text = "id,question,answer\na,when?,now\nb,what?,unknown\na,where?,here\n"
    assert read_question_file(write("long.csv", text)) == [
        QuestionedInstance("a", ("when?", "where?"), ("now", "here")),
        QuestionedInstance("b", ("what?",), ("unknown",)),
    ]


@pytest.mark.parametrize(
    "cells", ['"[]","[]"', "when?,", ',"now"', '"[""when?"",""where?""]","[""now"",""""]"']
)
def test_question_without_answer_is_a_failed_instance(write: Write, cells: str) -> None:
    assert read_question_file(write("k.csv", f"id,questions,answers\na,{cells}\n")) == [
        QuestionedInstance("a", (), ())
    ]


def test_missing_columns_are_reported_with_existing_ones(write: Write) -> None:
    with pytest.raises(
        InputError, match=r"k1.csv:2: field 'answers': is missing; .* 'id', 'question', 'ergebnis'"
    ):
        read_question_file(write("k1.csv", "id,question,ergebnis\na,when?,now\n"))
    fields = {"answers": "ergebnis"}
    assert read_question_file(write("k1.csv", "id,question,ergebnis\na,when?,now\n"), fields)[0].answers == (
        "now",
    )


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ('"[""when?"",""where?""]",now', "'answers': the numbers of answers .1. and questions .2. differ"),
        ("[when?,now", "'questions': begins like a list, but is not one"),
        ("[__import__('os')],now", "begins like a list, but is not one"),
        ("[1],now", "must be text, is a number"),
    ],
)
def test_invalid_question_file_is_located(write: Write, cells: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        read_question_file(write("k.csv", f"id,questions,answers\na,{cells}\n"))
    assert refused.value.line == 2
    with pytest.raises(InputError, match="contains no questions"):
        read_question_file(write("k.csv", "id,question,answer\n"))


TYPES = ("time", "region", "other")


def test_types_are_split_at_usual_separators(write: Write) -> None:
    text = "question,type\nwhen?,Time\nwhere and when?,region+time\nso?,other\nx,time; region\n"
    assert read_type_labels(write("types.csv", text), TYPES) == {
        "when?": ("time",),
        "where and when?": ("region", "time"),
        "so?": ("other",),
        "x": ("time", "region"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"question,type\nwhen?,{'z' * 99}\n", f"'{'z' * 59}…' is not a type"),
        (
            "question,type\nwhen?,zeit\n",
            r":2: field 'type': 'zeit' is not a type; the types are time, region, other",
        ),
        ("question,type\nwhen?,\n", r":2: field 'type': is empty"),
        (
            "question,kind\nwhen?,time\n",
            r":2: field 'type': is missing; the fields here are 'question', 'kind'",
        ),
        ("question,type\nx,time\nx,region\n", r":3: field 'question': this question has another type"),
        ("question,type\n", "contains no labels"),
    ],
)
def test_invalid_labels_are_located(write: Write, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_type_labels(write("types.csv", text), TYPES)
