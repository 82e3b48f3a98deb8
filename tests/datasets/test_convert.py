"""What is written is read back as it was."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import made_panes
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qulac_rows import SMALL

from cts_async.datasets.inspect import Inspected, convert, open_to_inspect
from cts_async.datasets.instances import Dataset
from cts_async.datasets.registry import open_dataset
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget

Write = Callable[..., Path]

TEXT = (
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)
NUGGETS = st.lists(
    st.builds(
        Nugget,
        id=TEXT,
        text=TEXT,
        weight=st.floats(0.5, 3),
        source_ids=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    ),
    max_size=3,
    unique_by=lambda nugget: nugget.id,
)
INSTANCES = st.lists(
    st.builds(Instance, id=TEXT, fused_query=TEXT, blurred_query=TEXT, nuggets=NUGGETS.map(tuple)),
    min_size=1,
    max_size=4,
    unique_by=lambda instance: instance.id,
)


def shelf_of(instances: list[Instance]) -> Inspected:
    dataset = Dataset("made", Path("made"), None, None, lambda: iter(instances), len(instances))
    return Inspected("file", "A file", (), lambda: None, lambda: iter(()), dataset)  # type: ignore[arg-type, return-value]


@settings(deadline=None, max_examples=60)
@given(INSTANCES, st.sampled_from([".jsonl", ".csv"]))
def test_whatever_the_texts_they_come_back(instances: list[Instance], suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / f"out{suffix}"
        assert convert(shelf_of(instances), to) == len(instances)
        assert list(open_dataset(str(to)).instances()) == instances


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_the_sample_comes_back_with_its_nuggets(tmp_path: Path, suffix: str) -> None:
    to = tmp_path / f"sample{suffix}"
    shelf = open_to_inspect("sample")
    assert convert(shelf, to) == 28
    assert shelf.dataset is not None
    assert list(open_dataset(str(to)).instances()) == list(shelf.dataset.instances())
    assert [path.name for path in tmp_path.iterdir()] == [to.name]


def test_qulac_with_gold_joined(write: Write, tmp_path: Path) -> None:
    gold = write("gold.jsonl", [{"id": "2-1", "nuggets": [{"text": "n", "weight": 2}]}])
    convert(open_to_inspect(f"qulac:{write('qulac.json', SMALL)}", gold), tmp_path / "q.jsonl", limit=2)
    first, second = map(orjson.loads, (tmp_path / "q.jsonl").read_bytes().splitlines())
    assert first == {
        "id": "2-1",
        "fused_query": "d2-1",
        "blurred_query": "t2",
        "gold": {"nuggets": [{"id": "N1", "text": "n", "weight": 2.0}]},
    }
    assert second == {"id": "2-3", "fused_query": "d2-3", "blurred_query": "t2"}


def test_panes_become_json_lines_and_no_csv(tmp_path: Path) -> None:
    folder = tmp_path / "duo"
    folder.mkdir()
    made_panes.write_panes(folder, made_panes.panes_of("one", [0, 3]))
    shelf = open_to_inspect(f"mimics-duo:{folder}")
    assert convert(shelf, tmp_path / "panes.jsonl", limit=1) == 1
    pane = orjson.loads((tmp_path / "panes.jsonl").read_bytes())
    assert (pane["id"], pane["query"], pane["options"]) == ("1", "one", ["a0", "b"])
    with pytest.raises(UsageError, match=r"\.jsonl"):
        convert(shelf, tmp_path / "panes.csv")


def test_nothing_is_replaced_unasked_and_no_other_format_guessed(write: Write) -> None:
    source, to = write("q.csv", "fused_query,blurred_query\nf,b\n"), write("there.jsonl", "old")
    shelf = open_to_inspect(str(source))
    with pytest.raises(UsageError, match="--force"):
        convert(shelf, to)
    assert to.read_text() == "old"
    assert convert(shelf, to, force=True) == 1
    with pytest.raises(UsageError, match="the dataset itself"):
        convert(shelf, source, force=True)
    with pytest.raises(UsageError, match=r"must end in \.jsonl"):
        convert(shelf, to.with_suffix(".json"))


def test_a_mistake_on_the_way_leaves_the_old_file_and_no_half_one(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cts_async.datasets.instances._COUNTED_BYTES", 1)
    source, to = write("q.csv", "fused_query,blurred_query\nf,b\ng,\n"), write("there.jsonl", "old")
    with pytest.raises(InputError) as caught:
        convert(open_to_inspect(str(source)), to, force=True)
    assert (caught.value.line, caught.value.field) == (3, "blurred_query")
    assert to.read_text() == "old"
    assert sorted(path.name for path in to.parent.iterdir()) == ["q.csv", "there.jsonl"]


def test_csv_holds_no_nul(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NUL"):
        convert(shelf_of([Instance("a", "f\0g", "b")]), tmp_path / "q.csv")
    assert list(tmp_path.iterdir()) == []
