"""Whose row it is: the columns that tables of several runs begin with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from cts_async.analysis.diagnosis import Diagnosis, SystemDiagnosis
from cts_async.report.data_table import Column, text

Named: TypeAlias = Sequence[tuple[str, SystemDiagnosis]]
"""The runs, each with its name for people."""

WHO: Final = (Column("k", text("k")), Column("model", text("model"), numeric=False))


def who(name: str, one: SystemDiagnosis) -> dict[str, Any]:
    """The fields behind WHO, and the run's label."""
    return {"system": one.system.label, "model": name, "k": one.system.k}


def named(diagnosis: Diagnosis) -> Named:
    """Each run under its Clarifier's name, or its own where two have the same Clarifier and k."""
    seen = Counter((one.system.clarifier, one.system.k) for one in diagnosis.systems)
    return [
        (one.system.label if seen[one.system.clarifier, one.system.k] > 1 else one.system.clarifier, one)
        for one in diagnosis.systems
    ]
