"""Gold is read in the release's format and its variants, and joined by id, else by query."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_files import refused

from cts_async.datasets.gold import normalise, read_gold
from cts_async.errors import InputError
from cts_async.records import Nugget

Write = Callable[..., Path]

N1 = {"id": "N1", "text": "The museum opened in 1997.", "weight": 3, "source_ids": ["S1", "S2"]}
N2 = {"id": "N2", "text": "门票十元。", "weight": 1, "source_ids": ["S3"]}
READ = (
    Nugget("N1", "The museum opened in 1997.", 3.0, ("S1", "S2")),
    Nugget("N2", "门票十元。", 1.0, ("S3",)),
)


refusal = partial(refused, read_gold)


def record(nuggets: list[Any], **more: Any) -> dict[str, Any]:
    return {"id": "a", "fused_query": "when did the museum open", "gold": {"nuggets": nuggets}} | more


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "fused_query": "q", "gold": {"query_intent": "x", "nuggets": [N1, N2], "notes": ""}},
        {"id": "a", "fused_query": "q", "gold": json.dumps({"nuggets": [N1, N2]})},
        {"id": "a", "fused_query": "q", "gold": [N1, N2]},
        {"id": "a", "query": "q", "nuggets": [N1, N2]},
        {"qid": "a", "OQ": "q", "gold_nuggets": json.dumps([N1, N2])},
    ],
)
def test_gold_shapes_of_releases_are_read(write: Write, row: dict[str, Any]) -> None:
    gold = read_gold(write("gold.jsonl", [row]))
    assert gold.lookup("a", None) == gold.lookup(None, "q") == READ
    assert gold.fields == tuple(row)
    assert gold.notes == ()


def test_only_nuggets_are_required(write: Write) -> None:
    path = write("gold.jsonl", [{"fused_query": "q", "gold": {"nuggets": [{"nugget": "x", "w": "2"}]}}])
    assert read_gold(path).lookup("unheard of", "q") == (Nugget("N1", "x", 2.0),)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([[N1], [{"text": "x"}]], "is missing, but the first nugget (line 1) has one"),
        ([[{"text": "x"}], [N1]], "is given, but the first nugget (line 1) has none"),
    ],
)
def test_weights_must_be_on_all_nuggets_or_none(write: Write, rows: list[list[Any]], problem: str) -> None:
    path = write("gold.jsonl", [record(r, id=str(i), fused_query=str(i)) for i, r in enumerate(rows)])
    error = refusal(path)
    assert (error.line, error.field) == (2, "gold.nuggets[0].weight")
    assert problem in str(error)


@pytest.mark.parametrize(
    ("gold", "field", "says"),
    [
        ({"nuggets": []}, "gold.nuggets", "is empty"),
        ({"nuggets": {}}, "gold.nuggets", "must be a list, is an object"),
        ({"notes": "x"}, "gold.nuggets", "is missing; the fields of 'gold' are 'notes'"),
        ("{nuggets", "gold", "not valid JSON"),
        ({"nuggets": ["text only"]}, "gold.nuggets[0]", "must be an object, is text"),
        ({"nuggets": [N1, N1]}, "gold.nuggets", "two nuggets have the id 'N1'"),
        ({"nuggets": [{**N1, "id": "N" * 99}] * 2}, "gold.nuggets", f"the id '{'N' * 59}…'"),
        ({"nuggets": [N1, {"id": "N2", "weight": 1}]}, "gold.nuggets[1].nugget_text", "'id', 'weight'"),
        ({"nuggets": [{**N1, "text": " "}]}, "gold.nuggets[0].text", "is empty"),
        ({"nuggets": [{**N1, "text": 5}]}, "gold.nuggets[0].text", "must be text, is a number"),
        ({"nuggets": [{**N1, "weight": 0}]}, "gold.nuggets[0].weight", "above 0"),
        ({"nuggets": [{**N1, "weight": "inf"}]}, "gold.nuggets[0].weight", "finite"),
        ({"nuggets": [{**N1, "weight": "core"}]}, "gold.nuggets[0].weight", "above 0, is 'core'"),
        ({"nuggets": [{**N1, "weight": True}]}, "gold.nuggets[0].weight", "above 0, is True"),
        ({"nuggets": [{**N1, "id": []}]}, "gold.nuggets[0].id", "must be text or a whole number"),
        ({"nuggets": [{**N1, "source_ids": [{}]}]}, "gold.nuggets[0].source_ids", "contains an object"),
    ],
)
def test_invalid_nugget_is_located(write: Write, gold: Any, field: str, says: str) -> None:
    error = refusal(write("gold.jsonl", [record([N1], id="0", fused_query="0"), record([], gold=gold)]))
    assert (error.line, error.field) == (2, field)
    assert says in str(error)


def test_record_needs_nuggets_and_a_key(write: Write) -> None:
    error = refusal(write("a.jsonl", [{"id": "a", "answer": "x"}]))
    assert (error.line, error.field) == (1, "gold")
    assert "'id', 'answer'" in str(error)
    assert "contains no gold records" in str(refusal(write("empty.jsonl", "\n")))
    error = refusal(write("b.jsonl", [{"topic": "a", "nuggets": [N1]}]))
    assert (error.line, error.field) == (1, "fused_query")
    assert "'topic', 'nuggets'" in str(error)


def test_repeated_key_with_other_nuggets_is_an_error(write: Write) -> None:
    by_id = refusal(write("a.jsonl", [record([N1]), record([N2], fused_query="other")]))
    assert (by_id.line, by_id.field) == (2, "id")
    assert "is already used on line 1" in str(by_id)
    by_query = refusal(write("b.jsonl", [record([N1], id=None), record([N2], id=None)]))
    assert (by_query.line, by_query.field) == (2, "fused_query")


# -- leaving out what is bad --------------------------------------------------------------------------


BAD = [
    record([N1], id="a", fused_query="qa"),
    record([], id="b", fused_query="qb"),
    record([N1, {"id": "N2", "text": "y"}], id="c", fused_query="qc"),
    record([{**N1, "weight": "core"}], id=None, fused_query="qd"),
    {"id": "e", "fused_query": "qe", "gold": None},
    record([{"text": "no weight at all"}], id="f", fused_query="qf"),
    record([N2], id="g", fused_query="qg"),
]


def test_skipped_gold_lines_are_named_in_notes(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", BAD), skip_bad=True)
    assert sorted(record.line for record in gold.by_query.values()) == [1, 7]
    assert [(one.line, one.name) for one in gold.left_out] == [
        (2, "b"),
        (3, "c"),
        (4, "'qd'"),
        (5, "e"),
        (6, "f"),
    ]
    (note,) = gold.notes
    assert note.startswith("gold lines left out (--skip-bad-gold): 5: b (line 2, gold.nuggets: is empty")
    assert gold.leaves_out("b", "qb")
    assert gold.leaves_out("whatever it is called", "qd")
    assert not gold.leaves_out("b", "another query")
    assert not gold.leaves_out("z", "qz")


def test_unweighted_lines_are_left_out_only_if_others_have_weights(write: Write) -> None:
    rows = [record([{"text": "x"}], id=id, fused_query=f"q{id}") for id in ("a", "b")]
    gold = read_gold(write("gold.jsonl", rows), skip_bad=True)
    assert (gold.left_out, gold.notes) == ((), ("no nugget has a weight: each counts 1",))
    gold = read_gold(write("gold.jsonl", [rows[0], record([N1], id="b", fused_query="qb")]), skip_bad=True)
    assert [one.name for one in gold.left_out] == ["a"]


def test_gold_with_only_bad_lines_is_refused(write: Write) -> None:
    path = write("gold.jsonl", BAD[1:5])
    with pytest.raises(InputError, match=r"gold\.jsonl:1: field 'gold.nuggets': is empty"):
        read_gold(path, skip_bad=True)


# -- joining ------------------------------------------------------------------------------------------


def test_records_join_by_id_or_query_and_the_query_decides(write: Write) -> None:
    gold = read_gold(write("gold.jsonl", [{"fused_query": "北京 2024 年\u3000ＧＤＰ", "nuggets": [N1, N2]}]))
    assert gold.lookup(None, "  北京\n2024 年 GDP ") == READ
    assert gold.lookup(None, "北京 2024 年") is gold.lookup("北京", None) is None
    gold = read_gold(write("gold.jsonl", [{"id": 1, "nuggets": [N1, N2]}]))
    assert gold.lookup("1", "any query") == READ
    rows = [record([N1], id="1", fused_query="p"), record([N2], id="2", fused_query="q")]
    gold = read_gold(write("gold.jsonl", rows))
    assert gold.lookup("1", "q") == (READ[1],)
    with pytest.raises(InputError, match="the ids clash: '1' is 'p' here, but 'other query'") as caught:
        gold.lookup("1", "other query")
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(gold.path), 1, "id")


@given(st.text())
def test_normalise_is_idempotent(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
