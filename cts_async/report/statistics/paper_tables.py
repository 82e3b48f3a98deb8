"""The paper's tables about questions and answers (4, 5, 7, 8 and 10), by their numbers and captions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cts_async.analysis.diagnose import Diagnosis
from cts_async.analysis.interactions import RegionTurn, cq_region_rate
from cts_async.report.statistics import RUN_COLUMNS, NamedSystems, named_systems, run_fields
from cts_async.report.tables import Column, DataTable, Row, number, text

ORDER: Final = 10


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """How far the runs got, then the paper's tables."""
    runs = named_systems(diagnosis)
    yield _progress(runs)
    yield _table_4(runs)
    yield _table_5(runs)
    yield _table_7(runs)
    yield _table_8(diagnosis)
    yield _table_10(runs)


def _progress(runs: NamedSystems) -> DataTable:
    rows = [
        {
            **run_fields(name, one),
            "n": len(one.system.rows),
            "failed": one.system.n_failed,
            "missing": one.system.n_missing,
            "scored": sum(row.score is not None for row in one.system.rows),
        }
        for name, one in runs
    ]
    columns = (*RUN_COLUMNS, *(Column(key, text(key)) for key in ("n", "failed", "missing", "scored")))
    caption = "n: instances that were asked and answered. Failed and missing ones count nowhere below."
    return DataTable("runs", "Runs", caption, columns, rows, group="k")


def _table_4(runs: NamedSystems) -> DataTable:
    rows = [
        {
            **run_fields(name, one),
            "n": one.unknowns.n,
            "answers": one.unknowns.answers,
            "unknown": one.unknowns.unknown,
            "ua_unknown_rate": one.unknowns.ua_unknown_rate,
            "cq_region_rate": cq_region_rate(one.regions),
        }
        for name, one in runs
    ]
    columns = (
        *RUN_COLUMNS,
        Column("n", text("n")),
        Column("ua_unknown_rate", number("ua_unknown_rate", ".3f")),
        Column("cq_region_rate", number("cq_region_rate", ".3f")),
    )
    caption = (
        "ua_unknown_rate: fraction of answers labeled unknown. cq_region_rate: fraction of clarification "
        "questions about region/location."
    )
    return DataTable("table_4", "Table 4. UA diagnostics", caption, columns, rows, group="k")


def _region_row(name: str, turn: RegionTurn) -> Row:
    return {
        "system": turn.label,
        "model": name,
        "k": turn.k,
        "turn": turn.turn,
        "questions": turn.questions,
        "region_only": turn.region_only,
        "region_only_unknown": turn.region_only_unknown,
        "region_only_unknown_rate": turn.unknown_rate,
    }


_REGION_ONLY: Final = (
    Column("#region-only", text("region_only")),
    Column("region-only unknown", number("region_only_unknown_rate", ".3f")),
)


def _table_5(runs: NamedSystems) -> DataTable:
    rows = [_region_row(name, turn) for name, one in runs if one.system.k == 1 for turn in one.regions]
    title = "Table 5. Region-only clarification as a low-yield failure mode at k = 1"
    caption = "The number of region-only questions and the UA unknown rate conditioned on region-only."
    return DataTable("table_5", title, caption, (RUN_COLUMNS[1], *_REGION_ONLY), rows)


def _table_7(runs: NamedSystems) -> DataTable:
    most = max((one.system.k for _, one in runs), default=0)
    rows = [
        {
            **run_fields(name, one),
            "n": one.unknowns.n,
            "all_unknown": one.unknowns.all_unknown,
            **{f"known_cnt_{j}": one.unknowns.known_cnt_rate(j) for j in range(1, most + 1)},
        }
        for name, one in runs
    ]
    columns = (
        *RUN_COLUMNS,
        Column("all_unknown", number("all_unknown", ".3f")),
        *(Column(f"known_cnt={j}", number(f"known_cnt_{j}", ".3f")) for j in range(1, most + 1)),
    )
    caption = "all_unknown: all k answers are unknown. known_cnt: number of non-unknown answers."
    return DataTable(
        "table_7", "Table 7. Interaction-level UA unknown diagnostics", caption, columns, rows, group="k"
    )


def _table_8(diagnosis: Diagnosis) -> DataTable:
    rows = [
        {
            "k": found.k,
            "low": found.low,
            "high": found.high,
            "lowest": f"{found.lowest.label}, turn {found.lowest.turn}",
            "highest": f"{found.highest.label}, turn {found.highest.turn}",
        }
        for found in diagnosis.ranges
    ]
    columns = (
        Column("setting", lambda row: f"k = {row['k']}", numeric=False),
        Column("unknown range", lambda row: f"{row['low']:.3f}–{row['high']:.3f}"),
        Column("lowest", text("lowest"), numeric=False),
        Column("highest", text("highest"), numeric=False),
    )
    title = "Table 8. Region-only clarification across clarification budgets"
    caption = "The range of UA unknown rates for region-only questions across models and turns."
    return DataTable("table_8", title, caption, columns, rows)


def _table_10(runs: NamedSystems) -> DataTable:
    rows = [_region_row(name, turn) for name, one in runs for turn in one.regions]
    columns = (
        RUN_COLUMNS[0],
        Column("(model, turn)", lambda row: f"({row['model']}, {row['turn']})", numeric=False),
        *_REGION_ONLY,
    )
    title = "Table 10. Turn-level UA unknown rate conditioned on region-only questions"
    caption = "Region-only: a question that asks for a region and for nothing else."
    return DataTable("table_10", title, caption, columns, rows, group="k")
