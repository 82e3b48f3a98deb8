"""A dataset opens by name or path."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import cts_async.datasets as datasets
from cts_async.datasets import all_kinds, open_dataset, sha256_of
from cts_async.datasets import instances as dataset_module
from cts_async.errors import InputError, UsageError

Write = Callable[..., Path]

QUERIES = "fused_query,blurred_query\nf,b\ng,c\n"
GOLD = [{"fused_query": "f", "nuggets": [{"text": "x"}]}]


def test_a_plain_file_opens_under_its_own_name(write: Write) -> None:
    path, gold = write("my queries (2).csv", QUERIES), write("gold.jsonl", GOLD)
    found = open_dataset(str(path), gold)
    assert (found.name, found.path, found.gold_path) == ("my-queries-2", path, gold)
    assert (found.corpus, found.count) == (None, 2)
    assert found.notes == ("no nugget has a weight: each counts 1",)
    assert list(found.instances()) == list(found.instances())


def test_a_kind_opens_its_path(write: Write) -> None:
    path = write("release/data/hard_518_queries.csv", QUERIES)
    assert open_dataset(f"hard518:{path}").name == "hard518"
    assert open_dataset(f"hard518:{path.parent}").path == path
    columns = {name: {"0": "x"} for name in ("topic_facet_id", "topic", "facet_desc")}
    assert open_dataset(f"qulac:{write('qulac.json', columns)}").name == "qulac"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("collection.json", "qulac:{}"),
        ("dev.tsv", "clariq:{}"),
        ("ClariQ/dev.tsv", "clariq:{.parent}"),
        ("panes/Task1-OfflineRating.tsv", "mimics-duo:{.parent}"),
        ("release/anything", "hard518:{.parent}"),
    ],
)
def test_a_path_without_its_kind_is_corrected(write: Write, name: str, meant: str) -> None:
    spec = meant.format(write(name, "x"))
    with pytest.raises(UsageError, match=f"did you mean '{spec}'"):
        open_dataset(spec.partition(":")[2])


@pytest.mark.parametrize("spec", ["", "smaple", "clariqq:file.tsv", "nokind:file.csv", "data/queries.xlsx"])
def test_an_unknown_kind_is_refused_with_those_there_are(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_dataset(spec)
    assert all(name in str(caught.value) for name, kind in all_kinds().items() if kind.taken)


def test_a_file_with_a_colon_in_its_name_is_a_file(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("run:2.csv", QUERIES)
    monkeypatch.chdir(tmp_path)
    assert open_dataset("run:2.csv").name == "run-2"


def test_what_is_wrong_with_a_small_file_comes_when_it_is_opened(write: Write) -> None:
    with pytest.raises(InputError) as caught:
        open_dataset(str(write("q.csv", QUERIES + "h,\n")))
    assert (caught.value.line, caught.value.field) == (4, "blurred_query")


def test_a_large_file_is_streamed_and_not_counted(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "_COUNTED_BYTES", 10)
    assert open_dataset(str(write("q.csv", QUERIES))).count is None


def test_a_missing_file_and_a_wrong_mapping_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_dataset(str(tmp_path / "none.csv"))
    with pytest.raises(UsageError, match="unknown field"):
        open_dataset(str(tmp_path / "none.csv"), fields={"fused": "OQ"})


def test_the_digest_is_that_of_the_bytes(write: Write, tmp_path: Path) -> None:
    assert sha256_of(write("a", b"abc")) == hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(InputError, match="no such file"):
        sha256_of(tmp_path / "none")


def test_what_can_be_read_only_once_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Its digest would be that of nothing, since it is taken when all has been read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refusal = r"pipe: is a pipe, which can be read only once; save it as a file and name that"
    for opening in (
        partial(sha256_of, pipe),
        partial(open_dataset, f"qulac:{pipe}"),
        partial(open_dataset, "sample", pipe),
    ):
        with pytest.raises(InputError, match=refusal):
            opening()


def test_every_public_name_is_there() -> None:
    assert all(hasattr(datasets, name) for name in datasets.__all__)


def test_no_spec_at_all_is_not_taken_for_a_directory() -> None:
    with pytest.raises(UsageError, match=r"^'' is not a dataset: give a \.csv or \.jsonl file"):
        open_dataset("")
