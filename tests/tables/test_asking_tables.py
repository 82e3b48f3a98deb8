"""Tables of systems that ask during the search, as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_asking import asking_runs

import cts_async
from cts_async.tables.asking import asking_tables
from cts_async.tables.diagnosis import DiagnosisReport, diagnose_named, report_tables
from cts_async.tables.table import DataTable


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> DiagnosisReport:
    return diagnose_named([str(asking_runs(tmp_path_factory.mktemp("asking")))])


@pytest.fixture
def tables(report: DiagnosisReport) -> dict[str, DataTable]:
    assert report.asking is not None
    return {table.name: table for table in asking_tables(report.asking)}


def cells(table: DataTable, system: str) -> list[str]:
    row = next(row for row in table.rows if row["system"] == system)
    return [column.show(row) for column in table.columns]


def test_tables_of_a_diagnosis_include_those_of_asking(
    report: DiagnosisReport, tables: dict[str, DataTable]
) -> None:
    assert set(tables) < {table.name for table in report_tables(report)}


def test_what_no_gain_counts_is_said(tables: dict[str, DataTable]) -> None:
    remarks = tables["asking"].remarks
    assert (
        "orig+ask3: 1 instance failed, 1 answered without a score, 1 scored without a score of orig; no gain counts "
        "these."
    ) in remarks
    assert "orig+ask5-yesno: 2 questions beyond those allowed, which the user never saw." in remarks
    assert "orig+ask5-yesno: 1 answer sent back, since more questions had to be asked first." in remarks
    assert not any(remark.startswith("gpt-k1+ask3:") for remark in remarks)
    assert tables["given_later"].remarks == (
        "gpt-k1+inject50: in 1 of 2 instances the search ended before the answers were due.",
    )


def test_a_reference_has_no_questions_rather_than_0(tables: dict[str, DataTable]) -> None:
    assert cells(tables["asking"], "gold") == ["gold", "told", "8", "0", "0", "73.75", "-", "-", "-"]


def test_parts_are_printed_with_their_wholes(tables: dict[str, DataTable]) -> None:
    assert cells(tables["asking_care"], "orig+ask3") == [
        "orig+ask3",
        "1 of 7",
        "1 of 7",
        "2 of 6",
        "1 of 4",
        "0.500",
        "0.750",
        "0.600",
    ]
    assert cells(tables["asking_care"], "orig+ask5-yesno")[2] == "-"


def test_every_caption_says_whose_definitions_these_are(tables: dict[str, DataTable]) -> None:
    for table in tables.values():
        assert "efinition" in table.caption or "published method" in table.caption, table.name
        assert len(table.caption.split()) < 90, table.name


def test_every_number_has_its_formula_in_the_docs(tables: dict[str, DataTable]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "asking.md").read_text(encoding="utf-8")
    for table in tables.values():
        assert f"`{table.name}`" in page, table.name


def test_rows_of_instances_say_how_often_and_when_an_agent_asked(tmp_path: Path) -> None:
    runs = asking_runs(tmp_path)
    rows = cts_async.load(
        runs / "made-orig+ask3", runs / "made-gpt-k1+inject50", runs / "made-orig"
    ).instances
    names = ("asks", "first_ask_turn", "turns", "injected_turn")
    by_id = {(row["system"], row["id"]): tuple(row[name] for name in names) for row in rows}
    assert by_id["orig+ask3", "b"] == (2, 2, 4, None)
    assert by_id["orig+ask3", "e"] == (0, None, 4, None)
    assert by_id["orig+ask3", "g"] == (None, None, None, None)  # it failed
    assert by_id["gpt-k1+inject50", "a"] == (None, None, 4, 3)
    assert by_id["gpt-k1+inject50", "b"] == (None, None, 2, None)
    assert by_id["orig", "a"] == (None, None, None, None)
    assert "asks" not in cts_async.load(runs / "made-orig").instances[0]
