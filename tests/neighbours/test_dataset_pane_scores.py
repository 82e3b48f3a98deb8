"""Anybody's scores find their panes, or the line that does not is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_panes import pane

from cts_async.errors import InputError
from cts_async.neighbours.mimics_duo.panes import as_records, numbered, read_pane_scores

Write = Callable[..., Path]

PANES = [
    pane("q1", ("a", "b"), question="Which?"),
    pane("q1", ("c", "d"), question="Which?"),
    pane("q2", ("a", "b"), question="Who?"),
]
ROWS = [
    {"query": "q2", "pane": 1, "score": -1},
    {"query": "q1", "pane": "2", "score": "0.5"},
    {"query": "q1", "pane": 1, "score": 2.5},
]


def refusal(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read_pane_scores(path, PANES, **options)
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_panes_are_numbered_within_their_query() -> None:
    assert [number for number, _ in numbered(PANES)] == [1, 2, 1]


def test_a_record_begins_with_what_names_the_pane() -> None:
    record = next(iter(as_records(PANES)))
    assert list(record)[:4] == ["query", "pane", "question", "options"]
    assert (record["query"], record["pane"], record["options"]) == ("q1", 1, ("a", "b"))


def test_scores_come_in_the_order_of_the_panes(write: Write) -> None:
    assert read_pane_scores(write("s.jsonl", ROWS), PANES) == [2.5, 0.5, -1.0]


@pytest.mark.parametrize(("name", "sign"), [("s.tsv", "\t"), ("s.csv", ",")])
def test_tables_are_read_too(write: Write, name: str, sign: str) -> None:
    lines = [sign.join(("query", "pane", "score")), *(sign.join(map(str, row.values())) for row in ROWS)]
    assert read_pane_scores(write(name, "\n".join(lines)), PANES) == [2.5, 0.5, -1.0]


def test_a_question_names_a_pane_where_its_query_asks_it_once(write: Write) -> None:
    rows = [*ROWS[1:], {"query": "q2", "question": "Who?", "score": 7}]
    assert read_pane_scores(write("s.jsonl", rows), PANES) == [2.5, 0.5, 7.0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"pane": 1, "score": 1}, "field 'query': is missing; the fields here are 'pane', 'score'"),
        ({"query": 3, "pane": 1, "score": 1}, "field 'query': must be text, is a number"),
        ({"query": "q3", "pane": 1, "score": 1}, "field 'query': no pane is for 'q3'"),
        ({"query": "q1", "score": 1}, "field 'pane': is missing; the fields here are 'query', 'score'"),
        ({"query": "q1", "pane": None, "score": 1}, "field 'pane': is empty"),
        ({"query": "q1", "pane": 3, "score": 1}, "field 'pane': must be a pane of 'q1', 1 to 2, is 3"),
        ({"query": "q1", "pane": 0, "score": 1}, "field 'pane': must be a pane of 'q1', 1 to 2, is 0"),
        ({"query": "q1", "pane": "x", "score": 1}, "field 'pane': must be a pane of 'q1', 1 to 2, is 'x'"),
        (
            {"query": "q1", "question": "Which?", "score": 1},
            "2 panes of 'q1' ask 'Which?'; say which by `pane`",
        ),
        ({"query": "q1", "question": "Why?", "score": 1}, "no pane of 'q1' asks 'Why?'"),
        ({"query": "q1", "pane": 1}, "field 'score': is missing; the fields here are 'query', 'pane'"),
        ({"query": "q1", "pane": 1, "score": "high"}, "field 'score': must be a finite number, is 'high'"),
        ({"query": "q1", "pane": 1, "score": True}, "field 'score': must be a finite number, is True"),
        ({"query": "q1", "pane": 1, "score": None}, "field 'score': must be a finite number, is None"),
        ({"query": "q1", "pane": 1, "score": "inf"}, "field 'score': must be a finite number, is 'inf'"),
        ({"query": "q2", "pane": 1, "score": 1}, "scores the pane of line 1 again"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(write: Write, row: dict[str, Any], says: str) -> None:
    error = refusal(write("s.jsonl", [ROWS[0], row]))
    assert error.line == 2
    assert says in str(error)


def test_panes_without_a_score_are_named(write: Write) -> None:
    error = refusal(write("s.jsonl", ROWS[:1]))
    assert "has no score for 'q1' pane 1, 'q1' pane 2; every pane needs one" in str(error)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("s.jsonl", b'{"query": "q1"\n', "not valid JSON"),
        ("s.jsonl", b"\xff\xfe{", "is UTF-16"),
        ("s.tsv", b"query\tpane\tscore\nq1\t1\n", "has 2 cells"),
        ("s.tsv", b"query\tpane\tscore\nq1\t1\t\xb5\n", "is not UTF-8"),
        ("s.csv", b"query,pane,score\n" + 2000 * b"x", "longer than 1000 bytes"),
    ],
)
def test_a_broken_file_is_refused(write: Write, name: str, content: bytes, says: str) -> None:
    assert says in str(refusal(write(name, content), max_line_bytes=1000))
