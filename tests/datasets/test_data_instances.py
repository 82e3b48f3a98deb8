"""A queries file becomes instances, in order, with their gold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cts_async.datasets.gold import read_gold
from cts_async.datasets.kinds import read_queries
from cts_async.errors import InputError
from cts_async.records import Instance, Nugget

Write = Callable[..., Path]
PAIR = {"fused_query": "f", "blurred_query": "b"}


def refusal(path: Path, **options: object) -> InputError:
    with pytest.raises(InputError) as caught:
        list(read_queries(path, **options))  # type: ignore[arg-type]
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_rows_without_ids_are_numbered(write: Write) -> None:
    found = [Instance("q0001", "f1", "b1"), Instance("q0002", "f2", "b2")]
    assert list(read_queries(write("q.csv", "fused_query,blurred_query\n f1 ,b1\n\nf2,b2\n"))) == found
    mapping = {"fused_query": "Q1", "blurred_query": "Q2"}
    assert list(read_queries(write("q.csv", "Q1,Q2\nf1,b1\nf2,b2\n"), fields=mapping)) == found


def test_csv_and_json_lines_are_equivalent(write: Write) -> None:
    as_csv = write("q.csv", "id,oq,bq\n7,f,b\n")
    as_lines = write("q.jsonl", [{"id": 7, "fused": "f", "blurred": "b"}])
    assert list(read_queries(as_csv)) == list(read_queries(as_lines)) == [Instance("7", "f", "b")]


def test_gold_file_wins_over_inline_nuggets(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", [{"fused_query": "f", "nuggets": [{"text": "G", "weight": 1}]}]))
    inline = {"nuggets": [{"text": "x", "weight": 1}]}
    path = write("q.jsonl", [PAIR | inline, PAIR | inline | {"fused_query": "unknown to the gold"}, PAIR])
    assert [i.nuggets[0].text for i in read_queries(path, gold=gold)] == ["G", "x", "G"]
    assert [i.nuggets for i in read_queries(path)] == [(Nugget("N1", "x", 1.0),)] * 2 + [()]


def test_file_that_cannot_be_joined_is_refused_with_both_fields(write: Write) -> None:
    """Generated ids never join."""
    nuggets = [{"text": "G", "weight": 1}]
    gold = read_gold(write("gold.jsonl", [{"qid": "q0001", "query": "g", "nuggets": nuggets}]))
    path = write("q.csv", "oq,bq\nf,b\n")
    rows = read_queries(path, gold=gold)
    with pytest.raises(InputError) as caught:
        next(rows)  # before anything could have started
    assert caught.value.field == "fused_query"
    assert "'oq', 'bq'" in str(caught.value)
    assert str(gold.path) in str(caught.value)
    assert "'qid', 'query', 'nuggets'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line", "field", "says"),
    [
        ("qid,oq,bq\n1,f,b\n2,f,b\n1,g,c\n", 4, "qid", "'1' is already used on line 2"),
        ("id,oq,bq\n1,f,b\n,g,c\n", 3, "id", "unlike line 2: give an id on every row or on none"),
        ("id,oq,bq\n,f,b\n1,g,c\n", 3, "id", "unlike line 2: give an id on every row or on none"),
        ("query;blurred\na;b\n", 2, "fused_query", "'query;blurred'"),
        ("fused_query,blurred_query\n", None, "fused_query", "contains no queries"),
    ],
)
def test_invalid_queries_file_is_located(
    write: Write, content: str, line: int | None, field: str, says: str
) -> None:
    error = refusal(write("q.csv", content))
    assert (error.line, error.field) == (line, field)
    assert says in str(error)


def test_instances_stream(write: Write) -> None:
    rows = read_queries(write("q.jsonl", '{"fused": "f", "blurred": "b"}\nnot yet looked at'))
    assert next(rows) == Instance("q0001", "f", "b")
