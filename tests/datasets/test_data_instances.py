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
    path = write("q.csv", "fused_query,blurred_query\n f1 ,b1\n\nf2,b2\n")
    assert list(read_queries(path)) == [Instance("q0001", "f1", "b1"), Instance("q0002", "f2", "b2")]


def test_csv_and_json_lines_are_equivalent(write: Write) -> None:
    as_csv = write("q.csv", "id,oq,bq\n7,f,b\n")
    as_lines = write("q.jsonl", [{"id": 7, "fused": "f", "blurred": "b"}])
    assert list(read_queries(as_csv)) == list(read_queries(as_lines)) == [Instance("7", "f", "b")]


def test_inline_nuggets_are_read(write: Write) -> None:
    path = write("q.jsonl", [PAIR | {"gold": {"nuggets": [{"text": "x", "weight": 2}]}}, PAIR])
    assert [i.nuggets for i in read_queries(path)] == [(Nugget("N1", "x", 2.0),), ()]


def test_gold_file_wins_over_inline_nuggets(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", [{"fused_query": "f", "nuggets": [{"text": "G", "weight": 1}]}]))
    inline = {"nuggets": [{"text": "x", "weight": 1}]}
    path = write("q.jsonl", [PAIR | inline, PAIR | inline | {"fused_query": "unknown to the gold"}])
    assert [i.nuggets[0].text for i in read_queries(path, gold=gold)] == ["G", "x"]


def test_generated_ids_never_join(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", [{"id": "q0001", "nuggets": [{"text": "G", "weight": 1}]}]))
    error = refusal(write("q.csv", "fused_query,blurred_query\nf,b\n"), gold=gold)
    assert "nothing in it can be joined" in str(error)


def test_file_that_cannot_be_joined_is_refused_with_both_fields(write: Write) -> None:
    gold = read_gold(
        write("gold.jsonl", [{"qid": "1", "query": "g", "nuggets": [{"text": "G", "weight": 1}]}])
    )
    path = write("q.csv", "oq,bq\nf,b\n")
    rows = read_queries(path, gold=gold)
    with pytest.raises(InputError) as caught:
        next(rows)  # before anything could have started
    assert caught.value.field == "fused_query"
    assert "'oq', 'bq'" in str(caught.value)
    assert str(gold.path) in str(caught.value)
    assert "'qid', 'query', 'nuggets'" in str(caught.value)


def test_repeated_id_names_both_lines(write: Write) -> None:
    error = refusal(write("q.csv", "qid,oq,bq\n1,f,b\n2,f,b\n1,g,c\n"))
    assert (error.line, error.field) == (4, "qid")
    assert "'1' is already used on line 2" in str(error)


@pytest.mark.parametrize("ids", [("1", ""), ("", "1")])
def test_ids_must_be_on_all_rows_or_none(write: Write, ids: tuple[str, str]) -> None:
    error = refusal(write("q.csv", f"id,oq,bq\n{ids[0]},f,b\n{ids[1]},g,c\n"))
    assert (error.line, error.field) == (3, "id")
    assert "ids belong on all rows or none" in str(error)


def test_missing_columns_are_reported_with_existing_ones(write: Write) -> None:
    error = refusal(write("q.csv", "query;blurred\na;b\n"))
    assert (error.line, error.field) == (2, "fused_query")
    assert "'query;blurred'" in str(error)


def test_mapping_names_the_columns(write: Write) -> None:
    path = write("q.csv", "Q1,Q2\nf,b\n")
    mapping = {"fused_query": "Q1", "blurred_query": "Q2"}
    assert list(read_queries(path, fields=mapping)) == [Instance("q0001", "f", "b")]


def test_file_without_rows_is_refused(write: Write) -> None:
    assert "contains no queries" in str(refusal(write("q.csv", "fused_query,blurred_query\n")))
    assert "contains no queries" in str(refusal(write("q.jsonl", "")))


def test_instances_stream(write: Write) -> None:
    rows = read_queries(write("q.jsonl", '{"fused": "f", "blurred": "b"}\nnot yet looked at'))
    assert next(rows) == Instance("q0001", "f", "b")
