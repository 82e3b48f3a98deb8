"""Words per question: a statistic that reads the texts of a run, or of a file of questions."""

from __future__ import annotations

from pathlib import Path

from made_runs import Row, made_run

from cts_async.tables.diagnosis import diagnose_named, report_json


def test_words_of_a_run(tmp_path: Path) -> None:
    rows = [
        Row(
            "a",
            ["Which year?"],
            ["2024"],
            20.0,
            blurred_query="two words",
            rewritten_query="two words in 2024",
        ),
        Row("b", ["Which one of them?"], ["unknown"], 20.0, blurred_query="q", rewritten_query="q"),
        Row("c", error="clarify"),
    ]
    made_run(tmp_path, label="gpt-k1", rows=rows)
    (row,) = report_json(diagnose_named([str(tmp_path)]))["question_words"]
    assert row == {"system": "gpt-k1", "model": "gpt", "k": 1, "questions": 2, "words": 3.0, "added": 1.0}


def test_words_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("id,question,answer\na,Which year?,2024\nb,Where?,unknown\n", "utf-8")
    (row,) = report_json(diagnose_named([str(path)]))["question_words"]
    assert (row["questions"], row["words"], row["added"]) == (2, 1.5, None)
