"""A researcher's own labels of questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cts_async.datasets.question_files import read_type_labels
from cts_async.errors import InputError

Write = Callable[..., Path]

TYPES = ("time", "region", "other")


def test_types_are_joined_in_any_usual_way(write: Write) -> None:
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
def test_labels_that_cannot_be_used_are_refused_with_their_place(
    write: Write, text: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        read_type_labels(write("types.csv", text), TYPES)
