"""The statistics of `cts diagnose`: one module each, found by its place in this folder.

A module defines `tables(diagnosis)`, which computes the statistic and yields its tables, and `ORDER`, its place among
the others. Its tables are then printed by `cts diagnose`, written as JSON and CSV, and shown by `cts report`.
A name that begins with an underscore is no statistic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, Protocol, cast

from cts_async.analysis.diagnose import Diagnosis, SystemDiagnosis
from cts_async.tables.table import Column, DataTable, number, text

RUN_COLUMNS: Final = (Column("k", text("k")), Column("model", text("model"), numeric=False))
"""The first columns of a table with a row for each run; their values are those of `run_rows`."""


class Statistic(Protocol):
    """What a module of this folder defines."""

    ORDER: int

    def tables(self, diagnosis: Diagnosis) -> Iterable[DataTable]:
        """Tables of this statistic; one without rows is not shown."""


def diagnosis_tables(diagnosis: Diagnosis) -> tuple[DataTable, ...]:
    """Compute the tables of every statistic, in their usual order; some may have no rows."""
    return tuple(table for statistic in _statistics() for table in statistic.tables(diagnosis))


@cache
def _statistics() -> tuple[Statistic, ...]:
    names = (found.name for found in iter_modules(__path__) if not found.name.startswith("_"))
    modules = [cast("Statistic", import_module(f"{__name__}.{name}")) for name in names]
    return tuple(sorted(modules, key=lambda module: module.ORDER))


def run_rows(diagnosis: Diagnosis) -> list[tuple[dict[str, Any], SystemDiagnosis]]:
    """The diagnosed runs, each with the fields that identify its row.

    A run is named after its Clarifier, or by its own label where two share Clarifier and k.
    """
    runs_of = Counter((one.system.clarifier, one.system.k) for one in diagnosis.systems)
    found = []
    for one in diagnosis.systems:
        label, clarifier, k = one.system.label, one.system.clarifier, one.system.k
        found.append(
            ({"system": label, "model": label if runs_of[clarifier, k] > 1 else clarifier, "k": k}, one)
        )
    return found


def rates(*keys: str) -> tuple[Column, ...]:
    """Columns of rates with three decimals as in the paper, headed by their keys."""
    return tuple(Column(key, number(key, ".3f")) for key in keys)
