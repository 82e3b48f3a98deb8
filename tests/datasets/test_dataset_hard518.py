"""Hard518 is found in the release's layout, with its gold beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cts_async.datasets.kinds.hard518 import open_hard518, queries_file
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget

Write = Callable[..., Path]

QUERIES = "fused_query,blurred_query\n2024年杭州亚运会奖牌榜,亚运会奖牌\nf2,b2\n"
GOLD = [{"fused_query": "f2", "gold": {"nuggets": [{"id": "N1", "text": "x", "weight": 3}]}}]


def test_the_release_folder_its_data_folder_and_the_file_are_all_understood(write: Write) -> None:
    path = write("release/data/hard_518_queries.csv", QUERIES)
    assert {queries_file(p) for p in (path, path.parent, path.parent.parent)} == {path}
    assert [i.id for i in open_hard518(str(path.parent.parent), None, {}).instances()] == ["q0001", "q0002"]


def test_the_gold_beside_the_queries_is_used(write: Write) -> None:
    path = write("release/data/hard_518_queries.csv", QUERIES)
    gold = write("release/data/gold_public_hard518.jsonl", GOLD)
    dataset = open_hard518(str(path.parent.parent), None, {})
    assert (dataset.name, dataset.path, dataset.gold_path, dataset.count) == ("hard518", path, gold, 2)
    assert list(dataset.instances())[1] == Instance("q0002", "f2", "b2", (Nugget("N1", "x", 3.0),))


def test_another_gold_goes_before_it(write: Write) -> None:
    path = write("hard_518_queries.csv", QUERIES)
    write("gold_public_hard518.jsonl", GOLD)
    other = write("mine.jsonl", GOLD)
    assert open_hard518(str(path), other, {}).gold_path == other


def test_without_any_gold_there_are_no_nuggets(write: Write) -> None:
    dataset = open_hard518(str(write("hard_518_queries.csv", QUERIES)), None, {})
    assert dataset.gold_path is None
    assert {i.nuggets for i in dataset.instances()} == {()}


def test_a_folder_without_the_queries_says_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contains neither data/hard_518_queries\.csv nor") as caught:
        open_hard518(str(tmp_path), None, {})
    assert caught.value.path == str(tmp_path)


def test_a_path_is_needed() -> None:
    with pytest.raises(UsageError, match="hard518:PATH"):
        open_hard518("", None, {})
