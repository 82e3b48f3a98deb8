"""Evaluation dictionaries, read and written; pickles are refused unopened."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import InputError
from cts_async.neighbours.qulac.records import Evaluations, read_evaluations

Write = Callable[..., Path]

README: Evaluations = {"NDCG20": {"20-2-11-0": 0.0, "20-2-11-1": 0.36252395084997224}, "P1": {"20-2-11-1": 1}}


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_evaluations(path)
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_a_dictionary_is_read_as_it_stands(write: Write) -> None:
    assert read_evaluations(write("eval.json", README)) == README


IDS = st.sampled_from(["1-1-0-0", "1-1-2-1", "1-1-10-1", "1-1-2-10-0", "20-1-1-1"])
TABLES = st.dictionaries(
    st.sampled_from(["NDCG3", "NDCG20", "P1", "MRR100"]),
    st.dictionaries(IDS, st.floats(0, 1), min_size=1),
    min_size=1,
)


@given(TABLES)
def test_dictionaries_are_read_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, table: Evaluations
) -> None:
    path = tmp_path_factory.mktemp("evaluations") / "eval.json"
    path.write_text(json.dumps(table))
    assert read_evaluations(path) == table


@pytest.mark.parametrize(
    ("table", "field", "says"),
    [
        ([], None, "must be an object {metric: {record id: value}}, is a list"),
        ({}, None, "holds no metrics"),
        ({"ndcg@20": {"1-1-1-1": 1}}, "ndcg@20", "is no metric"),
        ({"P1": 0.5}, "P1", "must be an object {record id: value}, is a number"),
        ({"P1": {}}, "P1", "holds no records"),
        ({"P1": {"1-1-1": 1}}, "P1", "the record id '1-1-1' must be topic-facet-history-question-answerflag"),
        ({"P1": {"1-1-1-1": "1"}}, "P1.1-1-1-1", "must be a number, is text"),
        ({"P1": {"1-1-1-1": True}}, "P1.1-1-1-1", "must be a number, is true or false"),
        ({"P1": {"1-1-1-1": None}}, "P1.1-1-1-1", "must be a number, is null"),
        ({"P1": {"1-1-1-1": 1.5}}, "P1.1-1-1-1", "must be a number from 0 to 1, is 1.5"),
        ({"P1": {"1-1-1-1": -0.1}}, "P1.1-1-1-1", "must be a number from 0 to 1"),
        ({"P1": {"1-1-1-1": 1}, "P3": {"1-1-1-1": 1, "x": 1}}, "P3", "the record id 'x' must be"),
    ],
)
def test_what_is_wrong_is_located_by_metric_and_record(
    write: Write, table: Any, field: str | None, says: str
) -> None:
    path = write("eval.json", json.dumps(table))
    error = refusal(path)
    assert error.field == field
    assert says in str(error)


def test_a_record_that_stands_twice_is_named_with_its_line(write: Write) -> None:
    error = refusal(write("eval.json", '{"P1": {"1-1-1-1": 0,\n "1-1-1-1": 1}}'))
    assert (error.line, error.field) == (2, "1-1-1-1")


def test_broken_json_a_wrong_encoding_and_a_huge_file_are_located(write: Write, tmp_path: Path) -> None:
    assert refusal(write("broken.json", '{"P1":\n{')).line == 2
    assert "is not UTF-8" in str(refusal(write("latin.json", b'{"P\xe9": {}}')))
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)
    assert "is larger than 536,870,912 bytes, the most that is read into memory; write one file" in str(
        refusal(tmp_path / "huge.json")
    )
    assert "no such file" in str(refusal(tmp_path / "none.json"))


class Bomb:
    """Unpickling it would write a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_unopened_with_a_way_to_convert_it(tmp_path: Path, protocol: int) -> None:
    mark, path = tmp_path / "mark", tmp_path / "eval_hist012_dict.pkl"
    path.write_bytes(pickle.dumps(Bomb(mark), protocol))
    error = str(refusal(path))
    assert not mark.exists()
    for said in ("is a pickle, not JSON", "runs whatever code it holds", "without network", "json.dump"):
        assert said in error
    path.with_suffix(".json").write_bytes(pickle.dumps({"P1": {"1-1-1-1": 1.0}}, protocol))
    assert "is a pickle" in str(refusal(path.with_suffix(".json")))


def test_an_archive_is_refused_too(write: Write) -> None:
    for name, content in [
        ("eval_dict.tar.gz", b"\x1f\x8b\x08"),
        ("e.json", b"\x1f\x8b\x08"),
        ("e.zip", "{}"),
    ]:
        assert "is an archive, not JSON; unpack it first" in str(refusal(write(name, content)))
