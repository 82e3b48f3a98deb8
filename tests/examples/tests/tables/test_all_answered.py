"""The share of instances in which every question could be answered."""

from __future__ import annotations

from pathlib import Path

from made_runs import Row, made_run

from cts_async.tables.diagnosis import diagnose_named, report_json


def test_the_share_is_part_of_a_diagnosis(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row(id, score=10.0) for id in "abc"])
    rows = [
        Row("a", ["Which year?", "Which city?"], ["2024", "Oslo"], score=20.0),
        Row("b", ["Which year?", "Which city?"], ["2024", "unknown"], score=20.0),
        Row("c", ["Which year?", "Which city?"], ["2023", "Bergen"], score=20.0),
    ]
    made_run(tmp_path, label="gpt-k2", rows=rows)
    (row,) = report_json(diagnose_named([str(tmp_path)]))["all_answered"]
    assert (row["system"], row["n"], row["complete"]) == ("gpt-k2", 3, 2 / 3)
