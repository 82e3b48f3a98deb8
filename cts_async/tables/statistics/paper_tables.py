"""The paper's tables about questions and answers (4, 5, 7, 8 and 10), by their numbers and captions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from cts_async.analysis.diagnose import Diagnosis, SystemDiagnosis
from cts_async.analysis.interactions import cq_region_rate, unknown_ranges
from cts_async.tables.statistics import RUN_COLUMNS, rates, run_rows
from cts_async.tables.table import Column, DataTable, Row, number, text, text_columns

ORDER: Final = 10

Runs: TypeAlias = Sequence[tuple[dict[str, Any], SystemDiagnosis]]
"""With the fields that identify the run."""


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """How far the runs got, then the paper's tables."""
    runs = run_rows(diagnosis)
    regions = _region_rows(runs)
    yield _progress(runs)
    yield _table_4(runs)
    yield _table_5([row for row in regions if row["k"] == 1])
    yield _table_7(runs)
    yield _table_8(diagnosis)
    yield _table_10(regions)


def _progress(runs: Runs) -> DataTable:
    rows = []
    for fields, one in runs:
        system = one.system
        n_scored = sum(row.score is not None for row in system.rows)
        counts = {"n": len(system.rows), "failed": system.n_failed, "missing": system.n_missing}
        rows.append({**fields, **counts, "failed_later": system.n_failed_later, "scored": n_scored})
    columns = (
        *RUN_COLUMNS,
        *(Column(key, text(key)) for key in ("n", "failed", "missing")),
        Column("failed later", text("failed_later")),
        Column("scored", text("scored")),
    )
    caption = (
        "n: instances that were asked and answered; tables 4, 5, 7, 8 and 10 are over these. failed, missing: before "
        "that, and in no table below. failed later: of n, those without an answer to judge. scored: of n."
    )
    return DataTable("runs", "Runs", caption, columns, rows, group="k")


def _table_4(runs: Runs) -> DataTable:
    rows = [
        {
            **fields,
            "n": one.unknowns.n,
            "answers": one.unknowns.answers,
            "unknown": one.unknowns.unknown,
            "ua_unknown_rate": one.unknowns.ua_unknown_rate,
            "cq_region_rate": cq_region_rate(one.regions),
        }
        for fields, one in runs
    ]
    columns = (*RUN_COLUMNS, Column("n", text("n")), *rates("ua_unknown_rate", "cq_region_rate"))
    caption = (
        "ua_unknown_rate: fraction of answers labeled unknown. cq_region_rate: fraction of clarification "
        "questions about region/location."
    )
    return DataTable("table_4", "Table 4. UA diagnostics", caption, columns, rows, group="k")


def _region_rows(runs: Runs) -> list[Row]:
    return [
        {
            **fields,
            "turn": turn.turn,
            "questions": turn.questions,
            "region_only": turn.region_only,
            "region_only_unknown": turn.region_only_unknown,
            "region_only_unknown_rate": turn.unknown_rate,
        }
        for fields, one in runs
        for turn in one.regions
    ]


_REGION_ONLY: Final = (
    Column("#region-only", text("region_only")),
    Column("region-only unknown", number("region_only_unknown_rate", ".3f")),
)


def _table_5(rows: Sequence[Row]) -> DataTable:
    title = "Table 5. Region-only clarification as a low-yield failure mode at k = 1"
    caption = "The number of region-only questions and the UA unknown rate conditioned on region-only."
    return DataTable("table_5", title, caption, (RUN_COLUMNS[1], *_REGION_ONLY), rows)


def _table_7(runs: Runs) -> DataTable:
    counts = range(1, max((one.system.k for _, one in runs), default=0) + 1)
    rows = [
        {
            **fields,
            "n": one.unknowns.n,
            "all_unknown": one.unknowns.all_unknown,
            **{f"known_cnt_{j}": one.unknowns.known_cnt_rate(j) for j in counts},
        }
        for fields, one in runs
    ]
    known = (Column(f"known_cnt={j}", number(f"known_cnt_{j}", ".3f")) for j in counts)
    title = "Table 7. Interaction-level UA unknown diagnostics"
    caption = "all_unknown: all k answers are unknown. known_cnt: number of non-unknown answers."
    columns = (*RUN_COLUMNS, *rates("all_unknown"), *known)
    return DataTable("table_7", title, caption, columns, rows, group="k")


def _table_8(diagnosis: Diagnosis) -> DataTable:
    ranges = unknown_ranges(turn for one in diagnosis.systems for turn in one.regions)
    rows = [
        {
            "k": k,
            "low": lowest.unknown_rate,
            "high": highest.unknown_rate,
            "lowest": f"{lowest.label}, turn {lowest.turn}",
            "highest": f"{highest.label}, turn {highest.turn}",
        }
        for k, (lowest, highest) in ranges.items()
    ]
    columns = (
        Column("setting", lambda row: f"k = {row['k']}", numeric=False),
        Column("unknown range", lambda row: f"{row['low']:.3f}–{row['high']:.3f}"),
        *text_columns("lowest", "highest"),
    )
    title = "Table 8. Region-only clarification across clarification budgets"
    caption = "The range of UA unknown rates for region-only questions across models and turns."
    return DataTable("table_8", title, caption, columns, rows)


def _table_10(rows: Sequence[Row]) -> DataTable:
    columns = (
        RUN_COLUMNS[0],
        Column("(model, turn)", lambda row: f"({row['model']}, {row['turn']})", numeric=False),
        *_REGION_ONLY,
    )
    title = "Table 10. Turn-level UA unknown rate conditioned on region-only questions"
    caption = "Region-only: a question that asks for a region and for nothing else."
    return DataTable("table_10", title, caption, columns, rows, group="k")
