"""Score and gain by the number of known answers (table 7's classes), beyond the paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cts_async.analysis.diagnose import Diagnosis
from cts_async.report.statistics import RUN_COLUMNS, NamedSystems, named_systems, run_fields
from cts_async.report.tables import Column, DataTable, estimate, interval_fields, text, with_short_note

ORDER: Final = 30


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """One table, of the runs with scores."""
    yield _known_counts(named_systems(diagnosis))


def _known_counts(runs: NamedSystems) -> DataTable:
    rows = [
        {
            **run_fields(name, one),
            "known_cnt": of.known_cnt,
            "n": of.n,
            **interval_fields("score", of.score),
            **interval_fields("gain", of.gain),
            "gain_n": of.gain.n if of.gain else 0,
        }
        for name, one in runs
        if any(of.score for of in one.known_counts)
        for of in one.known_counts
    ]
    columns = (
        *RUN_COLUMNS,
        Column("known_cnt", text("known_cnt")),
        Column("n", text("n")),
        Column("score", estimate("score", ".2f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    title = "Score and gain by the number of known answers"
    caption = "restore_score_100 and its difference to orig, with bootstrap 95 % intervals."
    return DataTable("known_count", title, with_short_note(caption, rows), columns, rows, group="system")
