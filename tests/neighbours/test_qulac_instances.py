"""Qulac's columns become one instance per facet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from cts_async.datasets.gold import read_gold
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import open_qulac, read_instances, unescape
from cts_async.records import Instance

Write = Callable[..., Path]

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "qulac.json"
needs_qulac = pytest.mark.skipif(not SHARED.exists(), reason=f"Qulac is not here: {SHARED}")


def table(*rows: tuple[str, str, str]) -> dict[str, Any]:
    names = ("topic_facet_id", "topic", "facet_desc")
    return {name: {str(i): row[n] for i, row in enumerate(rows)} for n, name in enumerate(names)}


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        list(read_instances(path))
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_an_instance_is_a_facet_not_a_row_in_order_of_appearance(write: Write) -> None:
    rows = [
        ("10-2", "toilet", "Find parts."),
        ("1-1", "obama", "Find photos."),
        ("10-2", "toilet", "Find parts."),
    ]
    assert list(read_instances(write("qulac.json", table(*rows)))) == [
        Instance("10-2", "Find parts.", "toilet"),
        Instance("1-1", "Find photos.", "obama"),
    ]


def test_escaped_quotes_are_undone() -> None:
    assert unescape(r"Find \"Barack Obama\'s Family Tree\".") == 'Find "Barack Obama\'s Family Tree".'
    assert unescape(r"C:\temp") == r"C:\temp"


def test_gold_joins_by_facet(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", [{"id": "1-1", "nuggets": [{"text": "x", "weight": 1}]}]))
    path = write("qulac.json", table(("1-1", "t", "d"), ("1-2", "t", "e")))
    assert [len(i.nuggets) for i in read_instances(path, gold)] == [1, 0]


def test_gold_that_joins_nowhere_is_refused(write: Write) -> None:
    gold = write("gold.jsonl", [{"id": "9-9", "nuggets": [{"text": "x", "weight": 1}]}])
    path = write("qulac.json", table(("1-1", "t", "d")))
    with pytest.raises(InputError, match=r"nothing in it can be joined.*'topic_facet_id'.*'id', 'nuggets'"):
        open_qulac(str(path), gold, {})


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"facet_desc": None}, "facet_desc", "must be an object"),
        ({"topic": ["t", "t"]}, "topic", "must be an object"),
        ({"topic": {"0": "t"}}, "topic", "has 1 rows that do not match the 2 of 'topic_facet_id'"),
        ({"topic": {"0": "t", "7": "t"}}, "topic", "do not match"),
        ({"topic": {"0": "t", "1": 5}}, "topic", "row 1: must be text, is a number"),
        ({"facet_desc": {"0": "d", "1": " "}}, "facet_desc", "row 1: is empty"),
        (
            {"topic_facet_id": {"0": "1-1", "1": "1-1"}},
            "topic_facet_id",
            "row 1: the facet '1-1' stands earlier",
        ),
    ],
)
def test_what_is_wrong_is_located_by_column_and_row(
    write: Write, change: dict[str, Any], field: str, says: str
) -> None:
    error = refusal(write("qulac.json", table(("1-1", "t", "d"), ("1-2", "t", "e")) | change))
    assert error.field == field
    assert says in str(error)


def test_a_missing_column_is_refused_with_those_there_are(write: Write) -> None:
    error = refusal(write("qulac.json", {"topic_facet_id": {}, "topic": {}}))
    assert error.field == "facet_desc"
    assert "the columns are 'topic_facet_id', 'topic'" in str(error)


def test_a_table_without_rows_or_columns_is_no_qulac(write: Write, tmp_path: Path) -> None:
    assert "has no rows" in str(refusal(write("a.json", table())))
    assert "must be an object of columns, is a list" in str(refusal(write("b.json", "[]")))
    broken = refusal(write("c.json", "{\n,"))
    assert broken.line == 2
    assert "no such file" in str(refusal(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="qulac:PATH"):
        open_qulac("", None, {})


@needs_qulac
def test_the_real_file_has_762_facets() -> None:
    dataset = open_qulac(str(SHARED), None, {})
    instances = list(dataset.instances())
    assert dataset.count == len(instances) == len({i.id for i in instances}) == 762
    assert instances[0].id == "1-1"
    assert instances[0].blurred_query == "obama family tree"
    assert instances[0].fused_query == 'Find the TIME magazine photo essay "Barack Obama\'s Family Tree".'
    assert not any("\\" in i.fused_query + i.blurred_query for i in instances)


@needs_qulac
def test_its_facets_divide_as_its_authors_say() -> None:
    """216 facets belong to ambiguous topics; 640 describe something else than their topic does."""
    columns = orjson.loads(SHARED.read_bytes())
    row_of = {facet: row for row, facet in columns["topic_facet_id"].items()}
    rows = [row_of[instance.id] for instance in read_instances(SHARED)]
    assert sum(columns["topic_type"][row] == "ambiguous" for row in rows) == 216
    assert sum(columns["facet_desc"][row] != columns["topic_desc"][row] for row in rows) == 640
