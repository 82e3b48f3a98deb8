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
class Table:
    """Figures by column, as cells that are printed as they are. A shorter row ends with a text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> list[str]:
        """The table's lines in Markdown."""
        lines = [_markdown_line(self.columns), _markdown_line(["---"] * len(self.columns))]
        for row in self.rows:
            missing = [""] * (len(self.columns) - len(row))
            lines.append(_markdown_line([*row, *missing]))
        return lines


@dataclass(frozen=True, slots=True)
class Result:
    """A benchmark's rows, or its table; `skipped` says why there are none, `remarks` are lines below them."""

    title: str
    rows: Sequence[Row] = ()
    remarks: Sequence[str] = ()
    skipped: str = ""
    table: Table | None = None

    def text(self) -> str:
        if self.skipped:
            return f"{self.title}\n  skipped: {self.skipped}"
        width = max((len(row.name) for row in self.rows), default=0)
        lines = [self.title]
        lines += [_line(row, width) for row in self.rows]
        if self.table is not None:
            lines += self.table.markdown()
        return "\n".join(lines + self._remarks())

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
        document = {
            "title": self.title,
            "rows": rows,
            "remarks": list(self.remarks),
            "skipped": self.skipped,
        }
        if self.table is not None:
            document["table"] = [dict(zip(self.table.columns, row, strict=False)) for row in self.table.rows]
        return document

    def _remarks(self) -> list[str]:
        return [f"  {remark}" for remark in self.remarks]


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _line(row: Row, width: int) -> str:
    text = f"  {row.name:<{width}}  {row.value:>12,.{row.digits}f}"
    if row.goal is not None:
        text += f"  {'goal' if row.held else 'MISSED: goal'} {row.sign} {row.goal:g}"
    return text + (f"  ({row.note})" if row.note else "")
