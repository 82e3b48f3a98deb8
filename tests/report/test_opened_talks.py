"""Conversations opened in a report: those whose last query retrieved best and worst."""

from __future__ import annotations

import json
from pathlib import Path

from made_talks import made_talk
from talk_world import INTENTS, write_talk_world

from cts_async.config import EvaluationConfig
from cts_async.datasets import open_dataset
from cts_async.report.gathered import gather, open_talks


def test_conversations_that_gained_and_lost_most_over_the_query_as_it_was(tmp_path: Path) -> None:
    """Of "jaguar" and "ferry", one becomes its intent and the other a query that finds nothing."""
    data, corpus = write_talk_world(tmp_path)
    (car, ferry) = (one for one in INTENTS if one[0] in ("1-2", "2-1"))
    rows = {"1-2": [{"query": car[2]}], "2-1": [{"query": "nothing of the kind"}]}
    directory = made_talk(
        tmp_path, scheme="cot", rows=rows, queries={"1-2": car[1], "2-1": ferry[1]}, k=1, clarifier="gpt"
    )
    manifest = json.loads((directory / "run.json").read_text())
    manifest["data"] = {"spec": str(data), "gold": None, "fields": {}}
    manifest["identity"]["data"]["sha256"] = open_dataset(str(data)).sha256()
    (directory / "run.json").write_text(json.dumps(manifest))
    (run,) = open_talks(
        gather([str(directory)], evaluation=EvaluationConfig(corpus=corpus, qrels="intent:1"))
    )
    assert (run.system, run.measure, run.baseline) == (
        "gpt-cot-respond-k1",
        "nDCG@10 of the last query",
        "the query w/o clarification",
    )
    found = {one.extreme.id: one.extreme for one in run.instances}
    assert (found["1-2"].score, found["2-1"].score) == (1.0, 0.0)
    assert found["2-1"].gain == -1.0
    assert found["2-1"].why == ("greatest loss", "lowest score")
    assert "highest score" in found["1-2"].why


def test_without_documents_there_is_nothing_to_open(tmp_path: Path) -> None:
    directory = made_talk(tmp_path, scheme="cot", rows={"1-2": [{"query": "q"}]})
    assert list(open_talks(gather([str(directory)]))) == []
