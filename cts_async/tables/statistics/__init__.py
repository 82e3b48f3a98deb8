"""The statistics of `cts diagnose`: a module of this folder each, or an entry point `cts_async.statistics`.

A module defines `tables(diagnosis)`, which computes the statistic and yields its tables, and `ORDER`, its place among
the others. Its tables are then printed by `cts diagnose`, written as JSON and CSV, and shown by `cts report`.
A name that begins with an underscore is no statistic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, Protocol

from cts_async import plugins
from cts_async.analysis.diagnose import Diagnosis, SystemDiagnosis
from cts_async.tables.table import Column, DataTable, Row, number, text

RUN_COLUMNS: Final = (Column("k", text("k")), Column("model", text("model"), numeric=False))
"""The first columns of a table with a row for each run; their values are those of `run_rows`."""


class Statistic(Protocol):
    """What a module of this folder defines."""

    ORDER: int

    def tables(self, diagnosis: Diagnosis) -> Iterable[DataTable]:
        """Tables of this statistic; one without rows is not shown."""


def diagnosis_tables(diagnosis: Diagnosis) -> tuple[DataTable, ...]:
    """Compute the tables of every statistic, in their usual order; some may have no rows."""
    tables: dict[str, DataTable] = {}
    for name, statistic in statistics():
        try:
            # As a list: a generator of a plug-in would fail only where it is read.
            computed = plugins.guarded(plugins.STATISTICS, name, _tables_of, statistic, diagnosis)
        except plugins.Broken as error:
            plugins.warn(str(error))
            continue
        for table in computed:
            # JSON and CSV have a table by its name: a second one would replace the first.
            if table.name in tables:
                plugins.warn(f"statistic {name!r}: its table {table.name!r} is left out: there is another")
            else:
                tables[table.name] = table
    return tuple(tables.values())


def _tables_of(statistic: Statistic, diagnosis: Diagnosis) -> list[DataTable]:
    return list(statistic.tables(diagnosis))


@cache
def statistics() -> tuple[tuple[str, Statistic], ...]:
    """All statistics by name, in the order of their tables."""
    entries: list[tuple[str, Statistic]] = list(plugins.load_all(plugins.STATISTICS))
    # A plug-in may have the ORDER of another statistic: then the name decides, on every machine alike.
    entries.sort(key=lambda entry: (float(entry[1].ORDER), entry[0]))
    return tuple(entries)


def run_rows(diagnosis: Diagnosis) -> list[tuple[dict[str, Any], SystemDiagnosis]]:
    """The diagnosed runs, each with a new row of the fields that identify it, for a statistic to add to.

    A run is named after its Clarifier, or by its own label where two share Clarifier and k.
    """
    n_runs = Counter((run.system.clarifier, run.system.k) for run in diagnosis.systems)
    rows: list[tuple[dict[str, Any], SystemDiagnosis]] = []
    for run in diagnosis.systems:
        label, clarifier, k = run.system.label, run.system.clarifier, run.system.k
        # The paper names rows by the model that asks.
        model = clarifier
        if n_runs[clarifier, k] > 1:
            model = label
        rows.append(({"system": label, "model": model, "k": k}, run))
    return rows


def run_table(
    name: str, title: str, caption: str, columns: Sequence[Column], rows: Sequence[Row], group: str = "k"
) -> DataTable:
    """A table with a row for each run: k and model stand before its own columns."""
    return DataTable(name, title, caption, RUN_COLUMNS + tuple(columns), rows, group=group)


def rates(*keys: str) -> tuple[Column, ...]:
    """Columns of rates with three decimals as in the paper, headed by their keys."""
    return tuple(Column(key, number(key, ".3f")) for key in keys)
