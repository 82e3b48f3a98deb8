"""What a dataset of any kind holds, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_panes
import pytest
from qulac_rows import SMALL

from cts_async.datasets.inspect import item_of, open_to_inspect
from cts_async.datasets.registry import open_dataset
from cts_async.errors import InputError, UsageError

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


def test_a_file_of_ones_own_by_hand(write: Write) -> None:
    found = facts(write("q.jsonl", ROWS))
    assert (found["instances"], found["queries"], found["intents"], found["alike"]) == (3, 2, 3, 1)
    assert (found["nuggets"]["instances"], found["nuggets"]["total"]) == (1, 2)
    assert found["languages"] == {"en": 2, "zh": 1}
    assert found["query_chars"] == {"min": 2, "mean": pytest.approx(8 / 3), "max": 3}
    assert found["intent_chars"] == {"min": 3, "mean": pytest.approx(22 / 3), "max": 14}


def test_what_the_gold_joins_is_counted_both_ways(write: Write) -> None:
    gold = [{"id": "a", "nuggets": [{"text": "n"}]}, {"fused_query": "elsewhere", "nuggets": [{"text": "m"}]}]
    found = facts(write("q.jsonl", ROWS[::2]), write("gold.jsonl", gold))
    assert (found["gold"]["records"], found["gold"]["unused"]) == (2, 1)
    assert (found["nuggets"]["instances"], found["nuggets"]["total"]) == (1, 1)
    assert found["notes"] == ["no nugget has a weight: each counts 1"]


def test_phrases_say_what_is_missing(write: Write) -> None:
    said = [fact.text for fact in open_to_inspect(str(write("q.jsonl", ROWS))).contents().facts]
    assert "2 nuggets, 2 to 2, mean 2.0 an instance; 2 without nuggets can be run but not scored" in said
    assert "1 with q the same as q*: nothing to clarify" in said
    said = [fact.text for fact in open_to_inspect(str(write("r.jsonl", ROWS[:1]))).contents().facts]
    assert "no nuggets: gold has to be built (cts gold)" in said


def test_all_of_qulac_is_read_and_its_oddities_told(write: Write) -> None:
    shelf = open_to_inspect(f"qulac:{write('qulac.json', SMALL)}")
    found = shelf.contents().as_json()
    assert (shelf.kind, found["instances"], found["topics"]) == ("qulac", 3, {"total": 2, "ambiguous": 1})
    assert (found["annotated_questions"]["total"], found["human_answers"]["total"]) == (4, 6)
    assert found["notes"] == [
        "1 id with several answers, all kept: 11-1-1",
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


def test_clariq_is_counted_with_what_lies_beside_it(write: Write) -> None:
    path = write("train.tsv", CLARIQ + CLARIQ_ROWS)
    write("question_bank.tsv", "question_id\tquestion\nQ1\tof a prison?\nQ2\tof the moon?\n")
    write("test.tsv", "topic_id\tinitial request\n9\tsun\n")
    shelf = open_to_inspect(f"clariq:{path.parent}")
    found = shelf.contents().as_json()
    assert (shelf.kind, found["instances"], found["queries"]) == ("clariq", 3, 2)
    assert (found["ambiguity"], found["question_bank"], found["test_topics"]) == ({"1": 1, "4": 1}, 2, 1)
    assert item_of(shelf, "F1")["ambiguity"] == 4


def test_of_chosen_instances_only_their_own_answers_count(write: Write) -> None:
    found = facts(f"clariq:{write('train.tsv', CLARIQ + CLARIQ_ROWS)},need=3-4")
    assert (found["instances"], found["annotated_questions"]["total"]) == (2, 1)
    assert (found["human_answers"]["total"], found["ambiguity"]) == (2, {"4": 1})


def test_an_item_has_its_human_answers(write: Write) -> None:
    item = item_of(open_to_inspect(f"qulac:{write('qulac.json', SMALL)}"), "2-3")
    assert (item["blurred_query"], item["fused_query"]) == ("t2", "d2-3")
    assert item["human_answers"] == [{"question": "q one", "answer": "a of three"}]


def test_an_id_that_is_not_there_is_answered_with_those_like_it(write: Write) -> None:
    with pytest.raises(UsageError, match="'2-3'"):
        item_of(open_to_inspect(f"qulac:{write('qulac.json', SMALL)}"), "2-4")


def test_panes_are_counted_and_streamed(tmp_path: Path) -> None:
    panes = [*made_panes.panes_of("one", [0, 3]), made_panes.pane("two", ("a", "b", "c"))]
    made_panes.write_panes(tmp_path, panes)
    shelf = open_to_inspect(f"mimics-duo:{tmp_path}")
    found = shelf.contents().as_json()
    assert (found["panes"], found["queries"], found["options"]["total"], found["clicked"]) == (3, 2, 7, 1)
    assert [(item["id"], item["query"]) for item in shelf.items()] == [
        ("1", "one"),
        ("2", "one"),
        ("3", "two"),
    ]
    assert (shelf.kind, shelf.dataset, len(shelf.paths)) == ("mimics-duo", None, 4)


def test_panes_need_a_path_and_take_no_gold(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mimics-duo:DIR"):
        open_to_inspect("mimics-duo")
    with pytest.raises(UsageError, match="--gold"):
        open_to_inspect(f"mimics-duo:{tmp_path}", tmp_path / "gold.jsonl")


def test_what_is_wrong_is_named_wherever_it_stands(write: Write) -> None:
    """`--data` needs three columns of Qulac, but all of them are read here."""
    broken = {name: column for name, column in SMALL.items() if name != "answer"}
    with pytest.raises(InputError, match="answer"):
        open_to_inspect(f"qulac:{write('qulac.json', broken)}").contents()


def test_what_cannot_be_run_says_what_can_be_done_with_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cts data mimics-duo"):
        open_dataset(f"mimics-duo:{tmp_path}")


@pytest.mark.parametrize("spec", ["sample", "run:2.csv"])
def test_its_kind_is_one_that_is_described(write: Write, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write("run:2.csv", "fused_query,blurred_query\nf,b\n").parent)
    assert open_to_inspect(spec).kind == {"sample": "sample", "run:2.csv": "file"}[spec]
