"""Queries files become instances with their gold; kinds of datasets are found by name or path, described, opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from installed_plugins import forget, install
from qulac_rows import SMALL

import cts_async
from cts_async.datasets import kinds as dataset_module
from cts_async.datasets import sha256_of
from cts_async.datasets.gold import read_gold
from cts_async.datasets.kinds import FILE, Kind, all_kinds, find_kind, open_dataset, read_queries
from cts_async.datasets.kinds.hard518 import open_hard518
from cts_async.datasets.kinds.sample import open_sample, sample_dir
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget

# --- A queries file becomes instances, in order, with their gold

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
        ("query;blurred\na;b\n", 2, "fused_query", "'query', 'blurred'"),
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


# --- Kinds of datasets: found by name or path, described, opened

QUERIES = "fused_query,blurred_query\nf,b\ng,c\n"
GOLD = [{"fused_query": "f", "nuggets": [{"text": "x"}]}]


def test_plain_file_is_named_after_itself(write: Write) -> None:
    path, gold = write("my queries (2).csv", QUERIES), write("gold.jsonl", GOLD)
    found = open_dataset(str(path), gold)
    assert (found.name, found.path, found.gold_path) == ("my-queries-2", path, gold)
    assert (found.corpus, found.count) == (None, 2)
    assert found.notes == ("no nugget has a weight: each counts 1",)
    assert list(found.instances()) == list(found.instances())


def test_kind_opens_its_path(write: Write) -> None:
    path = write("release/data/hard_518_queries.csv", QUERIES)
    assert open_dataset(f"hard518:{path}").name == "hard518"
    assert open_dataset(f"hard518:{path.parent}").path == path
    assert open_dataset(f"qulac:{write('qulac.json', SMALL)}").name == "qulac"


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
def test_path_without_its_kind_suggests_one(write: Write, name: str, meant: str) -> None:
    spec = meant.format(write(name, "x"))
    with pytest.raises(UsageError, match=f"did you mean '{spec}'"):
        open_dataset(spec.partition(":")[2])


@pytest.mark.parametrize("spec", ["", "smaple", "clariqq:file.tsv", "nokind:file.csv", "data/queries.xlsx"])
def test_unknown_kind_is_refused_with_known_ones(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_dataset(spec)
    assert all(name in str(caught.value) for name, kind in all_kinds().items() if kind.taken)


def test_file_with_a_colon_in_its_name_is_opened(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("run:2.csv", QUERIES)
    monkeypatch.chdir(tmp_path)
    assert open_dataset("run:2.csv").name == "run-2"


def test_small_file_is_validated_when_opened(write: Write) -> None:
    with pytest.raises(InputError) as caught:
        open_dataset(str(write("q.csv", QUERIES + "h,\n")))
    assert (caught.value.line, caught.value.field) == (4, "blurred_query")


def test_large_file_is_not_counted(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "_MAX_COUNTED_BYTES", 10)
    assert open_dataset(str(write("q.csv", QUERIES))).count is None


def test_missing_file_and_invalid_mapping_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_dataset(str(tmp_path / "none.csv"))
    with pytest.raises(UsageError, match="unknown field"):
        open_dataset(str(tmp_path / "none.csv"), fields={"fused": "OQ"})


def test_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
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


KINDS = [*all_kinds().values(), FILE]


def test_kinds_are_listed_in_their_order_and_found_by_name() -> None:
    ours = ["sample", "hard518", "qulac", "clariq", "mimics-duo", "file"]  # others may stand between them
    assert [kind.name for kind in KINDS if kind.name in ours] == ours
    assert sorted(KINDS, key=lambda kind: kind.position) == KINDS
    for name in ("mimics_duo", "command-line", "__init__", "sample.x", "at_cot", "名"):
        assert find_kind(name) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_description_is_complete_except_for_paper(kind: Kind) -> None:
    assert all(value for field, value in kind.as_json().items() if field not in ("paper", "taken"))
    assert kind is FILE or kind.spec.startswith(kind.name)
    assert (kind.open is None) == bool(kind.inspect) == bool(kind.instead)


def test_kind_of_another_package_is_opened_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    like_sample = (
        "from dataclasses import replace\nfrom cts_async.datasets.kinds.sample import KIND as SAMPLE\n"
        "KIND = replace(SAMPLE, name='mine', spec='mine', position=50)\n"
    )
    entries = {"mine": "lab_kind", "other": "lab_kind"}
    install(tmp_path, monkeypatch, {"cts_async.datasets": entries}, {"lab_kind": like_sample})
    assert "mine" in all_kinds()
    problem = "dataset 'other' of my-lab 1.0: its KIND has to be a Kind with the name 'other'"
    assert capsys.readouterr().err == f"warning: {problem}\n"
    assert open_dataset("mine").count == 28
    with pytest.raises(UsageError, match=problem):
        open_dataset("other:x")
    forget()


NUGGET_ROWS = {"gold": {"nuggets": [{"id": "N1", "text": "x", "weight": 3}]}}


def test_hard518_uses_gold_of_the_release_unless_another_is_given(write: Write) -> None:
    path = write("release/data/hard_518_queries.csv", QUERIES)
    gold = write("release/data/gold_public_hard518.jsonl", [{"fused_query": "g"} | NUGGET_ROWS])
    for target in (path, path.parent, path.parent.parent):
        dataset = open_hard518(str(target), None, {})
        assert (dataset.name, dataset.path, dataset.gold_path, dataset.count) == ("hard518", path, gold, 2)
    assert list(dataset.instances())[1] == Instance("q0002", "g", "c", (Nugget("N1", "x", 3.0),))
    other = write("mine.jsonl", [{"fused_query": "g"} | NUGGET_ROWS])
    assert open_hard518(str(path), other, {}).gold_path == other
    gold.unlink()
    dataset = open_hard518(str(path), None, {})
    assert (dataset.gold_path, {i.nuggets for i in dataset.instances()}) == (None, {()})


def test_hard518_needs_a_folder_with_queries(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contains neither data/hard_518_queries\.csv nor") as caught:
        open_hard518(str(tmp_path), None, {})
    assert caught.value.path == str(tmp_path)
    with pytest.raises(UsageError, match="hard518:PATH"):
        open_hard518("", None, {})


@pytest.fixture
def package(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    init = write("root/cts_async/__init__.py", "")
    monkeypatch.setattr(cts_async, "__file__", str(init))
    return init.parent


def test_sample_of_checkout_is_under_data_and_that_of_a_package_inside(package: Path, write: Write) -> None:
    assert sample_dir() == package.parent / "data" / "sample"
    pair = {"id": "s1", "fused_query": "f", "blurred_query": "b"}
    queries = write("root/data/sample/queries.jsonl", [pair])
    with pytest.raises(InputError, match=r"gold\.jsonl: no such file"):
        open_sample("", None, {})
    gold = write("root/data/sample/gold.jsonl", [pair | NUGGET_ROWS])
    corpus = write("root/data/sample/corpus.jsonl", "")
    dataset = open_sample("", None, {})
    assert (dataset.name, dataset.count) == ("sample", 1)
    assert (dataset.path, dataset.gold_path, dataset.corpus) == (queries, gold, corpus)
    assert [nugget.text for instance in dataset.instances() for nugget in instance.nuggets] == ["x"]
    (package / "_sample").mkdir()
    assert sample_dir() == package / "_sample"
