"""Runs of a board diagnosed one by one: the same diagnosis as of all of them together."""

from __future__ import annotations

from pathlib import Path

from made_runs import SCORING, Row, made_run

from cts_async.report.comparison import read_board
from cts_async.report.diagnosis import diagnose_board, diagnose_named


def test_it_is_the_diagnosis_of_the_same_runs_read_together(tmp_path: Path) -> None:
    paths = [
        made_run(tmp_path, label="orig", rows=[Row(id, score=40) for id in "abc"]),
        made_run(
            tmp_path, label="gpt-k1", rows=[Row(id, ["Which year?"], ["2024"], score=60) for id in "abc"]
        ),
        made_run(tmp_path, label="kimi-k1", rows=[Row(id, ["Where?"], ["unknown"], score=30) for id in "ab"]),
    ]
    one_by_one = diagnose_board(read_board(paths), "orig", SCORING)
    assert one_by_one == diagnose_named([str(path) for path in paths])


def test_a_run_whose_user_answered_nothing_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    asked = made_run(tmp_path, label="gpt-k1", rows=[Row("a", ["Q?"], ["yes"], score=60)])
    chosen = made_run(
        tmp_path, label="gpt-cot-select-k1", rows=[Row("a", score=60)], scheme="cot", mode="select"
    )
    found = diagnose_board(read_board([asked, chosen]), "", SCORING)
    assert found is not None
    assert [one.system.label for one in found.diagnosis.systems] == ["gpt-k1"]
    assert found.notes == [
        "gpt-cot-select-k1: its user chose among queries and answered no questions, left out",
        "no gains: there is no scored run of orig over the same data here",
    ]


def test_where_nobody_asked_there_is_none(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=[Row("a", score=40)])
    assert diagnose_board(read_board([orig]), "orig", SCORING) is None
