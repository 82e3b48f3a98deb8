"""The statistics of `cts diagnose`: one module each, found by its place in this folder.

A module defines `tables(diagnosis)`, which computes the statistic and yields its tables, and `ORDER`, its place among
the others. Its tables are then printed by `cts diagnose`, written as JSON and CSV, and shown by `cts report`.
A name that begins with an underscore is no statistic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, Protocol, TypeAlias, cast

from cts_async.analysis.diagnose import Diagnosis, SystemDiagnosis
from cts_async.report.tables import Column, DataTable, text

NamedSystems: TypeAlias = Sequence[tuple[str, SystemDiagnosis]]
"""The diagnosed runs, each with its name for people."""

RUN_COLUMNS: Final = (Column("k", text("k")), Column("model", text("model"), numeric=False))
"""The first columns of a table with a row for each run; their values are `run_fields`."""


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


def run_fields(name: str, one: SystemDiagnosis) -> dict[str, Any]:
    """The fields that identify a run's row."""
    return {"system": one.system.label, "model": name, "k": one.system.k}


def named_systems(diagnosis: Diagnosis) -> NamedSystems:
    """Name each run after its Clarifier, or by its own label where two share Clarifier and k."""
    runs_of = Counter((one.system.clarifier, one.system.k) for one in diagnosis.systems)
    return [
        (one.system.label if runs_of[one.system.clarifier, one.system.k] > 1 else one.system.clarifier, one)
        for one in diagnosis.systems
    ]
