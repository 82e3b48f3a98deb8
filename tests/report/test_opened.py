"""Instances opened in a report, with their nuggets where the gold is still the one that they were judged by."""

from __future__ import annotations

import json
from pathlib import Path

from made_runs import Row, made_run

from cts_async.datasets.io import sha256_of
from cts_async.report.gathered import Opened, gather, open_instances

GOLD = {
    "id": "a",
    "fused_query": "ferry times in winter",
    "gold": {"nuggets": [{"id": "N1", "text": "it leaves at nine", "weight": 3}]},
}


def world(folder: Path) -> Path:
    """A run over one query, with data and gold beside it; ernie and kimi judged it."""
    row = Row("a", labels={"ernie": "f", "kimi": "n"}, fused_query="ferry times in winter")
    directory = made_run(folder, label="orig", rows=[row], name="orig")
    queries, gold = folder / "queries.csv", folder / "gold.jsonl"
    queries.write_text("id,fused_query,blurred_query\na,ferry times in winter,ferry\n")
    gold.write_text(json.dumps(GOLD) + "\n")
    manifest = json.loads((directory / "run.json").read_text())
    manifest["identity"]["data"] |= {"sha256": sha256_of(queries), "gold_sha256": sha256_of(gold)}
    manifest["data"] = {"spec": str(queries), "gold": str(gold), "fields": {}}
    (directory / "run.json").write_text(json.dumps(manifest))
    return directory


def opened(directory: Path) -> tuple[Opened, tuple[str, ...]]:
    runs, notes = open_instances(gather([str(directory)]))
    return runs[0].instances[0], notes


def test_an_instance_has_every_judges_labels_and_the_text_of_its_nuggets(tmp_path: Path) -> None:
    one, notes = opened(world(tmp_path))
    assert {judge: line["nuggets"][0]["coverage"] for judge, line in one.verdicts.items()} == {
        "ernie": "full",
        "kimi": "none",
    }
    assert one.nuggets["N1"].text == "it leaves at nine"
    assert notes == ()


def test_without_its_gold_an_instance_has_no_texts_of_nuggets_and_it_is_said_why(tmp_path: Path) -> None:
    directory = world(tmp_path)
    (tmp_path / "gold.jsonl").write_text(json.dumps(GOLD).replace("nine", "ten") + "\n")
    one, (note,) = opened(directory)
    assert one.nuggets == {}
    assert "is no longer the gold of these runs" in note


def test_a_verdict_on_another_answer_is_not_shown(tmp_path: Path) -> None:
    directory = world(tmp_path)
    verdicts = directory / "judgments" / "kimi.jsonl"
    line = json.loads(verdicts.read_text())
    verdicts.write_text(json.dumps({**line, "answer_digest": "0" * 16}) + "\n")
    one, _ = opened(directory)
    assert list(one.verdicts) == ["ernie"]


def test_a_file_that_is_not_the_data_is_not_quoted(tmp_path: Path) -> None:
    """A manifest may name any file, and reports are passed on."""
    directory = world(tmp_path)
    (tmp_path / "queries.csv").write_text("hunter2,the password\nx,y\n")
    _, (note,) = opened(directory)
    assert "not the file this run was made with" in note
    assert "hunter2" not in note
