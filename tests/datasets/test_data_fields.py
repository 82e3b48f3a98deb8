"""The same field under many names, and a mapping for what no alias covers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.datasets.io import Fields, short
from cts_async.errors import InputError, UsageError

FILE = Path("some.jsonl")


@pytest.mark.parametrize(
    ("field", "theirs"),
    [
        ("id", "ID"),
        ("id", "idx"),
        ("fused_query", "Fused Query"),
        ("fused_query", "clear_query"),
        ("fused_query", "OQ"),
        ("blurred_query", "query_blurred"),
        ("blurred_query", "BQ"),
        ("answer", "candidate_answer"),
        ("answer", "response"),
    ],
)
def test_common_names_are_understood(field: str, theirs: str) -> None:
    assert Fields(FILE).value({"other": 1, theirs: "x"}, field, 1) == "x"


def test_preferred_alias_wins_regardless_of_position() -> None:
    fields = Fields(FILE)
    assert fields.text({"output": "raw", "answer": "final"}, "answer", 1) == "final"
    assert fields.text({"output": "raw"}, "answer", 2) == "raw"


def test_missing_field_is_reported_with_existing_ones() -> None:
    with pytest.raises(InputError) as caught:
        Fields(FILE).text({"topic": "a", "facet": "b"}, "fused_query", 7)
    assert (caught.value.line, caught.value.field) == (7, "fused_query")
    assert "'topic', 'facet'" in str(caught.value)
    assert "--field fused_query=NAME" in str(caught.value)


def test_mapped_name_wins_may_be_a_path_and_must_be_there() -> None:
    fields = Fields.of_data(FILE, {"fused_query": "facet", "answer": "result.text"})
    assert fields.text({"fused_query": "not this", "Facet": "this"}, "fused_query", 1) == "this"
    assert fields.text({"result": {"text": "42"}}, "answer", 1) == "42"
    with pytest.raises(InputError, match=r"result\.text.*is null"):
        fields.text({"result": {"other": "42"}}, "answer", 1)
    with pytest.raises(InputError, match=r"there is no 'facet', which is mapped to it.*'query'"):
        fields.text({"query": "x"}, "fused_query", 1)


def test_gold_file_follows_a_mapping_if_it_has_the_field() -> None:
    fields = Fields.of_gold(FILE, {"fused_query": "Q1"})
    assert fields.text({"Q1": "a", "fused_query": "b"}, "fused_query", 1) == "a"
    assert fields.text({"fused_query": "b"}, "fused_query", 1) == "b"


def test_gold_mapping_binds_the_gold_file_only() -> None:
    mapping = {"gold.fused_query": "Q1"}
    assert Fields.of_data(FILE, mapping).text({"fused_query": "b"}, "fused_query", 1) == "b"
    with pytest.raises(InputError, match="Q1"):
        Fields.of_gold(FILE, mapping).text({"fused_query": "b"}, "fused_query", 1)


def test_invalid_mapping_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"fused_quary=OQ.*fused_query"):
        Fields.of_data(FILE, {"fused_quary": "OQ"})
    with pytest.raises(UsageError, match="name is missing"):
        Fields.of_data(FILE, {"id": " "})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("  ", "is empty"),
        (3, "is a number"),
        (["x"], "is a list"),
        (True, "is true or false"),
        (None, "is null"),
    ],
)
def test_query_must_be_text(value: object, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        Fields(FILE).text({"OQ": value}, "fused_query", 3)
    assert (caught.value.line, caught.value.field) == (3, "OQ")


def test_ids_are_text_or_whole_numbers() -> None:
    fields = Fields(FILE)
    assert [fields.identifier({"id": i}, 1) for i in (7, " a7 ", "", None)] == ["7", "a7", None, None]
    for wrong in (1.5, True, ["7"]):
        with pytest.raises(InputError, match="must be text or a whole number"):
            fields.identifier({"id": wrong}, 1)


def test_value_is_quoted_and_cut() -> None:
    assert short("a\x1bb") == r"'a\x1bb'"
    assert short(1.5) == "1.5"
    assert short("x" * 60) == repr("x" * 60)
    assert short("x" * 61) == repr("x" * 59 + "…")
    assert short([1] * 1000, 8) == "[1, 1, …"
