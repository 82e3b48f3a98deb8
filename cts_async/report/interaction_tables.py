"""The paper's tables about questions and answers, by their numbers and in the words of their captions."""

from __future__ import annotations

from typing import Final

from cts_async.analysis.diagnosis import Diagnosis
from cts_async.analysis.region_questions import RegionTurn, cq_region_rate
from cts_async.report.data_table import Column, DataTable, Row, number, text
from cts_async.report.who import WHO, Named, who


def progress(runs: Named) -> DataTable:
    rows = [
        {
            **who(name, one),
            "n": len(one.system.rows),
            "failed": one.system.n_failed,
            "missing": one.system.n_missing,
            "scored": sum(row.score is not None for row in one.system.rows),
        }
        for name, one in runs
    ]
    columns = (*WHO, *(Column(key, text(key)) for key in ("n", "failed", "missing", "scored")))
    caption = "n: instances that were asked and answered. Failed and missing ones count nowhere below."
    return DataTable("runs", "Runs", caption, columns, rows, group="k")


def table_4(runs: Named) -> DataTable:
    rows = [
        {
            **who(name, one),
            "n": one.unknowns.n,
            "answers": one.unknowns.answers,
            "unknown": one.unknowns.unknown,
            "ua_unknown_rate": one.unknowns.ua_unknown_rate,
            "cq_region_rate": cq_region_rate(one.regions),
        }
        for name, one in runs
    ]
    columns = (
        *WHO,
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


def table_5(runs: Named) -> DataTable:
    rows = [_region_row(name, turn) for name, one in runs if one.system.k == 1 for turn in one.regions]
    title = "Table 5. Region-only clarification as a low-yield failure mode at k = 1"
    caption = "The number of region-only questions and the UA unknown rate conditioned on region-only."
    return DataTable("table_5", title, caption, (WHO[1], *_REGION_ONLY), rows)


def table_7(runs: Named) -> DataTable:
    most = max((one.system.k for _, one in runs), default=0)
    rows = [
        {
            **who(name, one),
            "n": one.unknowns.n,
            "all_unknown": one.unknowns.all_unknown,
            **{f"known_cnt_{j}": one.unknowns.known_cnt_rate(j) for j in range(1, most + 1)},
        }
        for name, one in runs
    ]
    columns = (
        *WHO,
        Column("all_unknown", number("all_unknown", ".3f")),
        *(Column(f"known_cnt={j}", number(f"known_cnt_{j}", ".3f")) for j in range(1, most + 1)),
    )
    caption = "all_unknown: all k answers are unknown. known_cnt: number of non-unknown answers."
    return DataTable(
        "table_7", "Table 7. Interaction-level UA unknown diagnostics", caption, columns, rows, group="k"
    )


def table_8(diagnosis: Diagnosis) -> DataTable:
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


def table_10(runs: Named) -> DataTable:
    rows = [_region_row(name, turn) for name, one in runs for turn in one.regions]
    columns = (
        WHO[0],
        Column("(model, turn)", lambda row: f"({row['model']}, {row['turn']})", numeric=False),
        *_REGION_ONLY,
    )
    title = "Table 10. Turn-level UA unknown rate conditioned on region-only questions"
    caption = "Region-only: a question that asks for a region and for nothing else."
    return DataTable("table_10", title, caption, columns, rows, group="k")
