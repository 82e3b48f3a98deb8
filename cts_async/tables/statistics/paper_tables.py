"""The paper's tables about questions and answers (4, 5, 7, 8 and 10), by their numbers and captions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cts_async.analysis.diagnose import Diagnosis
from cts_async.analysis.interactions import cq_region_rate, unknown_ranges
from cts_async.tables.statistics import RUN_COLUMNS, rates, run_rows, run_table
from cts_async.tables.table import Column, DataTable, Row, number, text

ORDER: Final = 10


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """How far the runs got, then the paper's tables."""
    regions = _region_rows(diagnosis)
    yield _progress(diagnosis)
    yield _table_4(diagnosis)
    # The paper's table 5 is of one question; 10 has all turns.
    yield _table_5([row for row in regions if row["k"] == 1])
    yield _table_7(diagnosis)
    yield _table_8(diagnosis)
    yield _table_10(regions)


def _progress(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for row, run in run_rows(diagnosis):
        system = run.system
        row["n"] = len(system.rows)
        row["failed"] = system.n_failed
        row["missing"] = system.n_missing
        # They were asked and answered before: the tables below count them.
        row["failed_later"] = system.n_failed_later
        row["scored"] = sum(instance.score is not None for instance in system.rows)
        rows.append(row)
    columns = (
        Column("n", text("n")),
        Column("failed", text("failed")),
        Column("missing", text("missing")),
        Column("failed later", text("failed_later")),
        Column("scored", text("scored")),
    )
    caption = (
        "n: instances that were asked and answered; tables 4, 5, 7, 8 and 10 are over these. failed, missing: before "
        "that, and in no table below. failed later: of n, those without an answer to judge. scored: of n."
    )
    return run_table("runs", "Runs", caption, columns, rows)


def _table_4(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for row, run in run_rows(diagnosis):
        row["n"] = run.unknowns.n
        row["answers"] = run.unknowns.answers
        row["unknown"] = run.unknowns.unknown
        row["ua_unknown_rate"] = run.unknowns.ua_unknown_rate
        row["cq_region_rate"] = cq_region_rate(run.regions)
        rows.append(row)
    columns = [Column("n", text("n"))]
    columns += rates("ua_unknown_rate", "cq_region_rate")
    caption = (
        "ua_unknown_rate: fraction of answers labeled unknown. cq_region_rate: fraction of clarification "
        "questions about region/location."
    )
    return run_table("table_4", "Table 4. UA diagnostics", caption, columns, rows)


def _region_rows(diagnosis: Diagnosis) -> list[Row]:
    """A row for each turn of each run."""
    rows: list[Row] = []
    for fields, run in run_rows(diagnosis):
        for turn in run.regions:
            row = dict(fields)
            row["turn"] = turn.turn
            row["questions"] = turn.questions
            row["region_only"] = turn.region_only
            row["region_only_unknown"] = turn.region_only_unknown
            row["region_only_unknown_rate"] = turn.unknown_rate
            rows.append(row)
    return rows


_N_REGION_ONLY: Final = Column("#region-only", text("region_only"))
_REGION_ONLY_UNKNOWN: Final = Column("region-only unknown", number("region_only_unknown_rate", ".3f"))


def _table_5(rows: Sequence[Row]) -> DataTable:
    title = "Table 5. Region-only clarification as a low-yield failure mode at k = 1"
    caption = "The number of region-only questions and the UA unknown rate conditioned on region-only."
    # All rows have k = 1, so the column of k is left out, as in the paper.
    columns = (RUN_COLUMNS[1], _N_REGION_ONLY, _REGION_ONLY_UNKNOWN)
    return DataTable("table_5", title, caption, columns, rows)


def _table_7(diagnosis: Diagnosis) -> DataTable:
    # As many columns as the run with the most questions needs.
    max_k = max((run.system.k for run in diagnosis.systems), default=0)
    columns = list(rates("all_unknown"))
    for count in range(1, max_k + 1):
        columns.append(Column(f"known_cnt={count}", number(f"known_cnt_{count}", ".3f")))
    rows = []
    for row, run in run_rows(diagnosis):
        row["n"] = run.unknowns.n
        row["all_unknown"] = run.unknowns.all_unknown
        for count in range(1, max_k + 1):
            row[f"known_cnt_{count}"] = run.unknowns.known_cnt_rate(count)
        rows.append(row)
    title = "Table 7. Interaction-level UA unknown diagnostics"
    caption = "all_unknown: all k answers are unknown. known_cnt: number of non-unknown answers."
    return run_table("table_7", title, caption, columns, rows)


def _table_8(diagnosis: Diagnosis) -> DataTable:
    # Over all runs: the paper gives one range for each k.
    ranges = unknown_ranges(turn for run in diagnosis.systems for turn in run.regions)
    rows: list[Row] = []
    for k, (lowest, highest) in ranges.items():
        row: dict[str, Any] = {"k": k, "low": lowest.unknown_rate, "high": highest.unknown_rate}
        row["lowest"] = f"{lowest.label}, turn {lowest.turn}"
        row["highest"] = f"{highest.label}, turn {highest.turn}"
        rows.append(row)
    columns = (
        Column("setting", _setting, numeric=False),
        Column("unknown range", _unknown_range),
        Column("lowest", text("lowest"), numeric=False),
        Column("highest", text("highest"), numeric=False),
    )
    title = "Table 8. Region-only clarification across clarification budgets"
    caption = "The range of UA unknown rates for region-only questions across models and turns."
    return DataTable("table_8", title, caption, columns, rows)


def _setting(row: Row) -> str:
    return f"k = {row['k']}"


def _unknown_range(row: Row) -> str:
    return f"{row['low']:.3f}–{row['high']:.3f}"


def _table_10(rows: Sequence[Row]) -> DataTable:
    columns = (
        RUN_COLUMNS[0],
        Column("(model, turn)", _model_and_turn, numeric=False),
        _N_REGION_ONLY,
        _REGION_ONLY_UNKNOWN,
    )
    title = "Table 10. Turn-level UA unknown rate conditioned on region-only questions"
    caption = "Region-only: a question that asks for a region and for nothing else."
    return DataTable("table_10", title, caption, columns, rows, group="k")


def _model_and_turn(row: Row) -> str:
    return f"({row['model']}, {row['turn']})"
