"""What datasets and other files contain, and conversion."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_panes
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qulac_rows import SMALL

from cts_async.datasets.inspect import convert, file_reader, item_of, open_to_inspect
from cts_async.datasets.kinds import Dataset, Inspected, open_dataset
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget

Write = Callable[..., Path]

ROWS = [
    {"id": "a", "fused_query": "the moon's map", "blurred_query": "map"},
    {
        "id": "b",
        "fused_query": "月亮的地图",
        "blurred_query": "地图",
        "nuggets": [{"text": "x"}, {"text": "y"}],
    },
    {"id": "c", "fused_query": "map", "blurred_query": "map"},
]


def facts(spec: Any, gold: Path | None = None) -> dict[str, Any]:
    return open_to_inspect(str(spec), gold).contents().as_json()


def test_contents_of_plain_file(write: Write) -> None:
    found = facts(write("q.jsonl", ROWS))
    assert (found["instances"], found["queries"], found["intents"], found["alike"]) == (3, 2, 3, 1)
    assert (found["nuggets"]["instances"], found["nuggets"]["total"]) == (1, 2)
    assert found["languages"] == {"en": 2, "zh": 1}
    assert found["query_chars"] == {"min": 2, "mean": pytest.approx(8 / 3), "max": 3}
    assert found["intent_chars"] == {"min": 3, "mean": pytest.approx(22 / 3), "max": 14}


def test_gold_records_without_instances_are_counted(write: Write) -> None:
    gold = [{"id": "a", "nuggets": [{"text": "n"}]}, {"fused_query": "elsewhere", "nuggets": [{"text": "m"}]}]
    found = facts(write("q.jsonl", ROWS[::2]), write("gold.jsonl", gold))
    assert (found["gold"]["records"], found["gold"]["unused"]) == (2, 1)
    assert (found["nuggets"]["instances"], found["nuggets"]["total"]) == (1, 1)
    assert found["notes"] == ["no nugget has a weight: each counts 1"]


def test_contents_of_qulac_include_its_oddities(write: Write) -> None:
    opened = open_to_inspect(f"qulac:{write('qulac.json', SMALL)}")
    found = opened.contents().as_json()
    assert (opened.kind, found["instances"], found["topics"]) == ("qulac", 3, {"total": 2, "ambiguous": 1})
    assert (found["annotated_questions"]["total"], found["human_answers"]["total"]) == (4, 6)
    assert found["notes"] == [
        "ids with several answers, all kept: 11-1-1",
        "facet_type 'inv' read as 'inf': 2-3",
    ]


CLARIQ = (
    "topic_id\tinitial_request\ttopic_desc\tclarification_need\t"
    "facet_id\tfacet_desc\tquestion_id\tquestion\tanswer\n"
)
CLARIQ_ROWS = (
    "1\tcells\tabout cells\t4\tF1\tprison cells\tQ1\tof a prison?\tyes\n"
    "1\tcells\tabout cells\t4\tF2\tblood cells\tQ1\tof a prison?\tno\n"
    "2\tmap\tabout maps\t1\tF3\ta map of the moon\tQ2\tof the moon?\tyes\n"
)


def test_clariq_contents_include_question_bank_and_topics(write: Write) -> None:
    path = write("train.tsv", CLARIQ + CLARIQ_ROWS)
    write("question_bank.tsv", "question_id\tquestion\nQ1\tof a prison?\nQ2\tof the moon?\n")
    write("test.tsv", "topic_id\tinitial request\n9\tsun\n")
    opened = open_to_inspect(f"clariq:{path.parent}")
    found = opened.contents().as_json()
    assert (opened.kind, found["instances"], found["queries"]) == ("clariq", 3, 2)
    assert (found["ambiguity"], found["question_bank"], found["test_topics"]) == ({"1": 1, "4": 1}, 2, 1)
    assert item_of(opened, "F1")["ambiguity"] == 4


def test_only_answers_of_chosen_instances_count(write: Write) -> None:
    found = facts(f"clariq:{write('train.tsv', CLARIQ + CLARIQ_ROWS)},need=3-4")
    assert (found["instances"], found["annotated_questions"]["total"]) == (2, 1)
    assert (found["human_answers"]["total"], found["ambiguity"]) == (2, {"4": 1})


def test_item_has_human_answers_and_an_unknown_id_suggests_similar_ones(write: Write) -> None:
    opened = open_to_inspect(f"qulac:{write('qulac.json', SMALL)}")
    item = item_of(opened, "2-3")
    assert (item["blurred_query"], item["fused_query"]) == ("t2", "d2-3")
    assert item["human_answers"] == [{"question": "q one", "answer": "a of three"}]
    with pytest.raises(UsageError, match="'2-3'"):
        item_of(opened, "2-4")


def test_panes_are_counted_and_streamed(tmp_path: Path) -> None:
    panes = [*made_panes.panes_of("one", [0, 3]), made_panes.pane("two", ("a", "b", "c"))]
    made_panes.write_panes(tmp_path, panes)
    opened = open_to_inspect(f"mimics-duo:{tmp_path}")
    found = opened.contents().as_json()
    assert (found["panes"], found["queries"], found["options"]["total"], found["clicked"]) == (3, 2, 7, 1)
    assert [(item["id"], item["query"]) for item in opened.items()] == [
        ("1", "one"),
        ("2", "one"),
        ("3", "two"),
    ]
    assert (opened.kind, opened.dataset, len(opened.paths)) == ("mimics-duo", None, 4)


def test_unused_columns_are_validated_too(write: Write) -> None:
    """`--data` needs three columns of Qulac, but all of them are read here."""
    broken = {name: column for name, column in SMALL.items() if name != "answer"}
    with pytest.raises(InputError, match="answer"):
        open_to_inspect(f"qulac:{write('qulac.json', broken)}").contents()


def test_kind_without_instances_is_refused_with_an_alternative(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cts data mimics-duo"):
        open_dataset(f"mimics-duo:{tmp_path}")


def soundness_facts(kind: str, path: Path | str) -> dict[str, Any]:
    return file_reader(kind)(str(path), {}).as_json()


def test_gold_contents(write: Write) -> None:
    nuggets = [{"text": "x", "weight": 3}, {"text": "y", "weight": 1}]
    rows = [{"id": "a", "fused_query": "f", "nuggets": nuggets}, {"id": "b", "nuggets": nuggets[:1]}]
    found = soundness_facts("gold", write("gold.jsonl", rows))
    assert (found["records"], found["nuggets"], found["mean_weight"]) == (2, 3, pytest.approx(7 / 3))


def test_candidates_contents(write: Write) -> None:
    write("one.jsonl", [{"id": "a", "answer": "x"}, {"id": "b", "answer": ""}, {"id": "c", "error": "down"}])
    folder = write("two.jsonl", [{"id": "d", "answer": "<answer>y</answer>"}]).parent
    found = soundness_facts("candidates", folder)
    assert (found["candidates"], found["files"], found["empty"], found["failed"]) == (3, 2, 1, 1)


def test_qrels_run_and_evaluations_contents(write: Write) -> None:
    found = soundness_facts("qrels", write("q.txt", "1 1 d1 2\n1 2 d1 0\n2 0 d2 1\n"))
    assert (found["judgments"], found["relevant"], found["topics"]) == (3, 2, 3)
    found = soundness_facts("run", write("run.txt", "1 Q0 d1 1 2.5 x\n1 Q0 d2 2 2.0 x\n"))
    assert (found["topics"], found["documents"]["total"]) == (1, 2)
    found = soundness_facts("evaluations", write("e.json", {"NDCG1": {"1-1-0-0": 0.5}}))
    assert (found["values"], found["metrics"]) == (1, ["NDCG1"])


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [
        ("candidates", "", None),
        ("gold", "", None),
        ("gold", '{"id": "a", "nuggets": [{"text": "x"}]}\n{"id": "b"}\n', 2),
        ("candidates", '{"id": "a", "answer": "x"}\n{"id": "b"\n', 2),
        ("qrels", "1 0 d1 2\n1 0 d1 2\n", 2),
        ("run", "1 Q0 d1 1 2.5 x\n1 Q0 d2 2 much x\n", 2),
        ("evaluations", '{"NDCG1": {', 1),
        ("gold", b'{"id": "\xff"}\n', 1),
    ],
)
def test_invalid_line_is_located(write: Write, kind: str, content: Any, line: int | None) -> None:
    with pytest.raises(InputError) as caught:
        soundness_facts(kind, write("broken.jsonl" if kind != "evaluations" else "broken.json", content))
    assert caught.value.line == line


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
    st.builds(Instance, id=TEXT, intent=TEXT, query=TEXT, nuggets=NUGGETS.map(tuple)),
    min_size=1,
    max_size=4,
    unique_by=lambda instance: instance.id,
)


def inspected(instances: list[Instance]) -> Inspected:
    dataset = Dataset("made", Path("made"), None, None, lambda: iter(instances), len(instances))
    return Inspected("file", "A file", (), lambda: None, lambda: iter(()), dataset)  # type: ignore[arg-type, return-value]


@given(INSTANCES, st.sampled_from([".jsonl", ".csv"]))
def test_converted_file_reads_back_for_any_text(instances: list[Instance], suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / f"out{suffix}"
        assert convert(inspected(instances), to) == len(instances)
        assert list(open_dataset(str(to)).instances()) == instances


def test_qulac_converts_with_joined_gold(write: Write, tmp_path: Path) -> None:
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


def test_panes_convert_to_json_lines_only(tmp_path: Path) -> None:
    folder = tmp_path / "duo"
    folder.mkdir()
    made_panes.write_panes(folder, made_panes.panes_of("one", [0, 3]))
    opened = open_to_inspect(f"mimics-duo:{folder}")
    assert convert(opened, tmp_path / "panes.jsonl", limit=1) == 1
    pane = orjson.loads((tmp_path / "panes.jsonl").read_bytes())
    assert (pane["id"], pane["query"], pane["options"]) == ("1", "one", ["a0", "b"])
    with pytest.raises(UsageError, match=r"\.jsonl"):
        convert(opened, tmp_path / "panes.csv")


def test_convert_refuses_existing_files_and_unknown_suffixes(write: Write) -> None:
    source, to = write("q.csv", "fused_query,blurred_query\nf,b\n"), write("there.jsonl", "old")
    opened = open_to_inspect(str(source))
    with pytest.raises(UsageError, match="--force"):
        convert(opened, to)
    assert to.read_text() == "old"
    assert convert(opened, to, force=True) == 1
    with pytest.raises(UsageError, match="the dataset itself"):
        convert(opened, source, force=True)
    with pytest.raises(UsageError, match=r"must end in \.jsonl"):
        convert(opened, to.with_suffix(".json"))


def test_failed_conversion_keeps_the_old_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cts_async.datasets.kinds._MAX_COUNTED_BYTES", 1)
    source, to = write("q.csv", "fused_query,blurred_query\nf,b\ng,\n"), write("there.jsonl", "old")
    with pytest.raises(InputError) as caught:
        convert(open_to_inspect(str(source)), to, force=True)
    assert (caught.value.line, caught.value.field) == (3, "blurred_query")
    assert to.read_text() == "old"
    assert sorted(path.name for path in to.parent.iterdir()) == ["q.csv", "there.jsonl"]
