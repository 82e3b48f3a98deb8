"""The share of instances in which every question could be answered."""

from collections.abc import Iterator

from cts_async.analysis.diagnose import Diagnosis
from cts_async.tables.statistics import run_rows, run_table
from cts_async.tables.table import Column, DataTable, number, text

ORDER = 100


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    rows = []
    for row, run in run_rows(diagnosis):
        instances = run.system.rows
        if instances:
            complete = sum(instance.known_cnt == len(instance.turns) for instance in instances)
            row["n"] = len(instances)
            row["complete"] = complete / len(instances)
            rows.append(row)
    columns = (Column("n", text("n")), Column("complete", number("complete", ".1%")))
    yield run_table("all_answered", "All questions answered", "Share of instances.", columns, rows)
