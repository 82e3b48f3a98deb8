"""Answers of somebody that were judged: several files with one journal, further judges, answers that changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from viewer_server import viewer

from cts_async.protocol.results import answer_digest

KEY = "0" * 32


def written(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def verdict(id: str, label: str, **more: Any) -> dict[str, Any]:
    score = {"full": 100.0, "partial": 50.0, "none": 0.0}[label]
    nuggets = [{"id": "N1", "weight": 1.0, "coverage": label}]
    return {"id": id, "fused_query": f"intent {id}", "judge": "ernie", "nuggets": nuggets, **more} | {
        "restore_score_100": score
    }


def judged(folder: Path, system: str, lines: Sequence[Mapping[str, Any]], **manifest: Any) -> Path:
    directory = folder / system
    written(directory / "per_item.jsonl", lines)
    identity = {
        "system": system,
        "candidates": f"{system}.jsonl",
        "gold_sha256": "g" * 64,
        "judges": ["ernie"],
    }
    (directory / "run.json").write_text(
        json.dumps({"identity": identity, "n_expected": len(lines), **manifest})
    )
    return directory


def test_the_steps_of_several_files_stand_in_one_journal_above_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for system in ("ebk1", "ebk2"):
        judged(out, system, [verdict("a", "full", answer="x")], journal="../steps.jsonl")
    (out / "run.json").write_text(json.dumps({"identity": {}, "systems": ["ebk1", "ebk2"]}))
    steps = [
        {"key": KEY, "ok": True, "instance": f"{one}/a", "step": "judge/ernie"} for one in ("ebk1", "ebk2")
    ]
    written(out / "steps.jsonl", steps)
    with viewer(tmp_path) as asker:
        assert [row["name"] for row in asker.get("runs")["runs"]] == ["out/ebk1", "out/ebk2"]
        download = asker.api("download", run="out/ebk2", id="a")
        assert json.loads(download.body) == steps[1]
        assert asker.get("instance", run="out/ebk1", id="a")["steps"] == 1
    with viewer(out / "ebk1") as asker:
        assert asker.get("instance", run="ebk1", id="a")["steps"] == 0


def test_a_journal_is_nowhere_but_where_ours_lie(tmp_path: Path) -> None:
    written(tmp_path / "secret.jsonl", [{"key": KEY, "ok": True, "instance": "ebk1/a", "step": "x"}])
    judged(tmp_path / "out", "ebk1", [verdict("a", "full")], journal="../../secret.jsonl")
    with viewer(tmp_path / "out") as asker:
        assert asker.get("instance", run="ebk1", id="a")["steps"] == 0
        assert asker.api("step", run="ebk1", at=0).status == 404


def test_a_verdict_on_an_answer_that_changed_does_not_count(tmp_path: Path) -> None:
    run = judged(tmp_path, "ebk1", [verdict("a", "full", answer="new"), verdict("b", "none", answer="same")])
    digests = {"a": answer_digest("intent a", "old"), "b": answer_digest("intent b", "same")}
    written(
        run / "judgments" / "gpt.jsonl",
        [
            {**verdict(id, "partial"), "judge": "gpt", "answer_digest": digest}
            for id, digest in digests.items()
        ],
    )
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
        assert [(one["judge"], one["n_scored"], one["mean"]) for one in row["scores"]] == [
            ("ernie", 2, 50.0),
            ("gpt", 1, 50.0),
        ]
        changed, same = (asker.get("instance", run="ebk1", id=id)["scores"] for id in "ab")
    assert [one["judge"] for one in changed] == ["ernie"]
    assert [one["judge"] for one in same] == ["ernie", "gpt"]


def test_a_file_of_somebody_elses_program_is_a_run_too(tmp_path: Path) -> None:
    written(tmp_path / "theirs" / "per_item.jsonl", [{"fused_query": "why", "restore_score_100": 40.0}])
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
        page = asker.get("instance", run="theirs", id="why")
    assert (row["kind"], row["system"], row["scores"][0]["mean"]) == ("judged", "theirs", 40.0)
    assert (page["fused_query"], page["turns"], page["trace_turns"]) == ("why", [], 0)
