"""A diagnosis for people and for programs: the paper's tables, then those beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from cts_async.analysis.diagnosis import Diagnosis
from cts_async.report import interaction_tables, question_tables
from cts_async.report.data_table import DataTable, print_table, printable, write_csv
from cts_async.report.table import SMOKE_TEST
from cts_async.report.who import named


@dataclass(frozen=True, slots=True)
class Report:
    """A diagnosis with what a reader has to know about where its numbers are from."""

    diagnosis: Diagnosis
    judge: str | None
    """Whose scores these are; None without scores."""
    orig: Path | None
    """The run that gains are over; None where there is none."""
    notes: Sequence[str]

    @property
    def embedded(self) -> bool:
        """Some role was played by the embedded model."""
        return any(one.system.embedded for one in self.diagnosis.systems)


def tables_of(diagnosis: Diagnosis) -> tuple[DataTable, ...]:
    """All tables, in the order of the paper; some may have no rows."""
    runs = named(diagnosis)
    return (
        interaction_tables.progress(runs),
        interaction_tables.table_4(runs),
        interaction_tables.table_5(runs),
        interaction_tables.table_7(runs),
        interaction_tables.table_8(diagnosis),
        interaction_tables.table_10(runs),
        question_tables.types(diagnosis),
        question_tables.types_by_turn(diagnosis),
        question_tables.shares(runs),
        question_tables.known_counts(runs),
        question_tables.calibration(diagnosis),
        question_tables.ask_or_not(runs),
        question_tables.points(runs),
    )


def print_report(console: Console, report: Report) -> None:
    """Every table that has rows, then the notes."""
    for table in tables_of(report.diagnosis):
        print_table(console, table)
    for note in _notes(report):
        console.print(Text(printable(note), style="yellow"), soft_wrap=True)


def report_json(report: Report) -> dict[str, Any]:
    """All numbers unrounded: a list of rows for each table, by its name."""
    found = report.diagnosis.calibration
    return {
        "judge": report.judge,
        "orig": str(report.orig) if report.orig else None,
        "smoke_test": report.embedded,
        "notes": list(report.notes),
        **{table.name: list(table.rows) for table in tables_of(report.diagnosis)},
        "brier": found.brier if found else None,
        "brier_reference": found.reference if found else None,
        "brier_skill": found.skill if found else None,
    }


def write_tables(folder: Path, diagnosis: Diagnosis) -> None:
    """Every table that has rows as NAME.csv, unrounded; the folder is made if need be."""
    for table in tables_of(diagnosis):
        write_csv(folder, table)


def _notes(report: Report) -> list[str]:
    scored = f"scores: judge {report.judge}" if report.judge else "no scores"
    return [scored, *report.notes, *([SMOKE_TEST] if report.embedded else [])]
