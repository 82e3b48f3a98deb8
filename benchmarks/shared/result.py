"""What a benchmark found: rows with goals, printed as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `digits` after the point when printed; `note` is what a reader should know about it."""

    name: str
    value: float
    sign: Literal["<=", ">=", "=", ""] = ""
    goal: float | None = None
    digits: int = 0
    note: str = ""

    @property
    def held(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        if self.sign == "=":
            return self.value == self.goal
        return self.value <= self.goal if self.sign == "<=" else self.value >= self.goal


@dataclass(frozen=True, slots=True)
class Result:
    """A benchmark's rows; `skipped` says why there are none, `remarks` are lines below the table."""

    title: str
    rows: Sequence[Row] = ()
    remarks: Sequence[str] = ()
    skipped: str = ""

    def text(self) -> str:
        if self.skipped:
            return f"{self.title}\n  skipped: {self.skipped}"
        width = max((len(row.name) for row in self.rows), default=0)
        return "\n".join([self.title, *(_line(row, width) for row in self.rows), *self._remarks()])

    def json(self) -> dict[str, Any]:
        rows = [
            {
                "name": row.name,
                "value": round(row.value, 6),
                "goal": f"{row.sign} {row.goal:g}" if row.goal is not None else None,
                "held": row.held,
                "note": row.note,
            }
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "remarks": list(self.remarks), "skipped": self.skipped}

    def _remarks(self) -> list[str]:
        return [f"  {remark}" for remark in self.remarks]


def _line(row: Row, width: int) -> str:
    text = f"  {row.name:<{width}}  {row.value:>12,.{row.digits}f}"
    if row.goal is not None:
        text += f"  {'goal' if row.held else 'MISSED: goal'} {row.sign} {row.goal:g}"
    return text + (f"  ({row.note})" if row.note else "")
