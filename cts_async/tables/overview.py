"""What a Python shell or a notebook shows of loaded runs: counts, and a line for each system, on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Final

from rich.cells import cell_len, set_cell_size

from cts_async.errors import cut_end
from cts_async.records import caveats_in
from cts_async.tables.output import counted, plain
from cts_async.tables.results import CAVEATS
from cts_async.tables.table import Column, Row, number, text

MOST_SYSTEMS: Final = 12
MOST_REMARKS: Final = 2
"""Rows and remarks that are shown: with counts, two caveats and hints that makes 25 lines at most."""
_WIDTH: Final = 100
"""Columns at which sentences break."""
_MAX_NAME: Final = 40
_MAX_REMARK: Final = 190
_STATUS: Final = ("scored", "unjudged", "unsearched", "failed", "unfinished")
_SYSTEM: Final = Column("system", text("system"), numeric=False)
_VERSION: Final = Column("version", text("version"))
_SUPPORT: Final = Column("support", text("support"), numeric=False)
_SCORES: Final = (
    Column("agent", text("agent"), numeric=False),
    Column("judge", text("judge"), numeric=False),
    Column("n", text("n_scored")),
    Column("mean", number("mean", ".2f")),
    Column("failed", text("n_failed")),
    Column("unfinished", text("n_unfinished")),
)
_CAVEAT: Final = Column("caveat", text("caveat"), numeric=False)


@dataclass(frozen=True, slots=True)
class Overview:
    """What is shown of loaded runs, see `rows.Tables`."""

    n_runs: int
    n_by_status: Mapping[str, int]
    """Instances by their status."""
    n_nuggets: int
    n_judgments: int
    systems: Sequence[Row]
    remarks: Sequence[str]

    def text(self) -> str:
        """Return at most 25 lines: the counts, a table of the systems, what a reader of their scores has to know."""
        lines = [self._counts()]
        lines += _aligned(self._columns(), self.systems[:MOST_SYSTEMS])
        for note in self._notes():
            lines += wrap(note, _WIDTH)
        return "\n".join(lines)

    def html(self) -> str:
        """Return the same as HTML. All names are escaped."""
        notes = ""
        for note in self._notes():
            notes += f"<p>{escape(note)}</p>"
        table = _html_table(self._columns(), self.systems[:MOST_SYSTEMS])
        return f"<div><p>{escape(self._counts())}</p>{table}{notes}</div>"

    def _counts(self) -> str:
        """Count the rows: `2 runs: 10 instances (9 scored, 1 failed), 40 labelled nuggets, 9 judgments`."""
        states: list[str] = []
        for status in _STATUS:
            if self.n_by_status.get(status):
                states.append(f"{self.n_by_status[status]:,} {status}")
        instances = counted(sum(self.n_by_status.values()), "instance")
        if states:
            instances += f" ({', '.join(states)})"
        nuggets = counted(self.n_nuggets, "labelled nugget")
        return (
            f"{counted(self.n_runs, 'run')}: {instances}, {nuggets}, {counted(self.n_judgments, 'judgment')}"
        )

    def _columns(self) -> Sequence[Column]:
        """Return the columns to show: version, support and caveat only where there is something to tell apart."""
        columns = [_SYSTEM]
        if any(row["version"] > 1 for row in self.systems):
            columns.append(_VERSION)
        # References have no support.
        if len({row["support"] for row in self.systems} - {None}) > 1:
            columns.append(_SUPPORT)
        columns += _SCORES
        if any(row["caveat"] for row in self.systems):
            columns.append(_CAVEAT)
        return columns

    def _notes(self) -> Iterator[str]:
        """Yield sentences: how many systems are not shown, the caveats, the first remarks, and where the rows are."""
        n_hidden = len(self.systems) - MOST_SYSTEMS
        if n_hidden > 0:
            yield f"... and {counted(n_hidden, 'more row')}: .systems has them all"
        for caveat in caveats_in(row["caveat"] for row in self.systems):
            yield CAVEATS[caveat]
        for remark in self.remarks[:MOST_REMARKS]:
            yield cut_end(plain(remark), _MAX_REMARK)
        n_remarks = len(self.remarks) - MOST_REMARKS
        if n_remarks > 0:
            yield f"... and {counted(n_remarks, 'more remark')}: .remarks has them all"
        yield 'Rows: .instances, .nuggets, .judges, .systems; data frames: .to_pandas("systems")'


def _cell(column: Column, row: Row) -> str:
    return cut_end(plain(column.show(row)), _MAX_NAME)


def _aligned(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return a heading and the rows as lines, in columns: names to the left, numbers to the right."""
    if not rows:
        return []
    lines = [""] * (len(rows) + 1)
    for column in columns:
        cells = [column.heading]
        for row in rows:
            cells.append(_cell(column, row))
        # Chinese characters take two columns of a terminal.
        width = max(map(cell_len, cells))
        for place, cell in enumerate(cells):
            padded = set_cell_size(cell, width)
            if column.numeric:
                padded = " " * (width - cell_len(cell)) + cell
            lines[place] += f"  {padded}"
    return [line.rstrip() for line in lines]


def _html_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return a heading and the rows as a table; "" without rows."""
    if not rows:
        return ""
    head = ""
    for column in columns:
        head += _html_cell("th", column, column.heading)
    body = ""
    for row in rows:
        cells = ""
        for column in columns:
            cells += _html_cell("td", column, _cell(column, row))
        body += f"<tr>{cells}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_cell(tag: str, column: Column, content: str) -> str:
    # Notebooks align everything to the right by themselves.
    align = "left"
    if column.numeric:
        align = "right"
    return f'<{tag} style="text-align: {align}">{escape(content)}</{tag}>'
