"""The sample world is found in a checkout and in an installed package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cts_async
from cts_async.datasets.kinds.sample import open_sample, sample_dir
from cts_async.errors import InputError

Write = Callable[..., Path]

QUERIES = [{"id": "s1", "fused_query": "f", "blurred_query": "b"}]
GOLD = [{"id": "s1", "fused_query": "f", "gold": {"nuggets": [{"id": "N1", "text": "x", "weight": 3}]}}]


@pytest.fixture
def package(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    init = write("root/cts_async/__init__.py", "")
    monkeypatch.setattr(cts_async, "__file__", str(init))
    return init.parent


def test_a_checkout_has_it_under_data(package: Path) -> None:
    assert sample_dir() == package.parent / "data" / "sample"


def test_an_installed_package_has_it_inside(package: Path) -> None:
    (package / "_sample").mkdir()
    assert sample_dir() == package / "_sample"


def test_it_opens_with_gold_and_corpus(package: Path, write: Write) -> None:
    queries = write("root/data/sample/queries.jsonl", QUERIES)
    gold = write("root/data/sample/gold.jsonl", GOLD)
    corpus = write("root/data/sample/corpus.jsonl", "")
    dataset = open_sample("", None, {})
    assert (dataset.name, dataset.count) == ("sample", 1)
    assert (dataset.path, dataset.gold_path, dataset.corpus) == (queries, gold, corpus)
    assert [nugget.text for instance in dataset.instances() for nugget in instance.nuggets] == ["x"]


def test_a_world_of_ones_own_has_the_same_files(write: Write) -> None:
    folder = write("world/queries.jsonl", QUERIES).parent
    write("world/gold.jsonl", GOLD)
    dataset = open_sample(str(folder), None, {})
    assert (dataset.path.parent, dataset.corpus) == (folder, None)


def test_a_world_without_gold_names_the_missing_file(write: Write) -> None:
    folder = write("world/queries.jsonl", QUERIES).parent
    with pytest.raises(InputError, match=r"gold\.jsonl: no such file"):
        open_sample(str(folder), None, {})
