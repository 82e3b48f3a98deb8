"""What a Python shell or a notebook shows of loaded runs: counts, and a line for each system, on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap
from typing import Final

from rich.cells import cell_len, set_cell_size

from cts_async.errors import cut_end
from cts_async.records import caveats_in
from cts_async.tables.output import counted, plain
from cts_async.tables.results import CAVEATS
from cts_async.tables.rows import Row, Tables
from cts_async.tables.table import Column, number, text

MOST_SYSTEMS: Final = 12
MOST_REMARKS: Final = 2
"""Rows and remarks that are shown: with counts, two caveats and hints that makes 25 lines at most."""
_WIDTH: Final = 100
"""Columns at which sentences break."""
_MAX_NAME: Final = 36
_MAX_REMARK: Final = 120
_STATUS: Final = ("scored", "unjudged", "unsearched", "failed", "unfinished")
_COLUMNS: Final = (
    Column("run", text("run"), numeric=False),
    Column("agent", text("agent"), numeric=False),
    Column("judge", text("judge"), numeric=False),
    Column("n", text("n_scored")),
    Column("mean", number("mean", ".2f")),
    Column("failed", text("n_failed")),
    Column("unfinished", text("n_unfinished")),
)
_CAVEAT: Final = Column("caveat", text("caveat"), numeric=False)


def overview_text(tables: Tables) -> str:
    """Return at most 25 lines: the counts, a table of the systems, what a reader of their scores has to know."""
    lines = [_counts(tables)]
    lines += _aligned(_columns(tables), tables.systems[:MOST_SYSTEMS])
    for note in _notes(tables):
        lines += wrap(note, _WIDTH)
    return "\n".join(lines)


def overview_html(tables: Tables) -> str:
    """Return the same as HTML. All names are escaped."""
    columns = _columns(tables)
    head = ""
    for column in columns:
        head += f"<th>{escape(column.heading)}</th>"
    body = ""
    for row in tables.systems[:MOST_SYSTEMS]:
        cells = ""
        for column in columns:
            align = "left"
            if column.numeric:
                align = "right"
            cells += f'<td style="text-align: {align}">{escape(_cell(column, row))}</td>'
        body += f"<tr>{cells}</tr>"
    table = ""
    if body:
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    notes = ""
    for note in _notes(tables):
        notes += f"<p>{escape(note)}</p>"
    return f"<div><p>{escape(_counts(tables))}</p>{table}{notes}</div>"


def _counts(tables: Tables) -> str:
    """Count the rows of each table: `2 runs: 10 instances (9 scored, 1 failed), 40 labelled nuggets, 9 judgments`."""
    by_status = Counter(row["status"] for row in tables.instances)
    states: list[str] = []
    for status in _STATUS:
        if by_status[status]:
            states.append(f"{by_status[status]:,} {status}")
    instances = counted(len(tables.instances), "instance")
    if states:
        instances += f" ({', '.join(states)})"
    nuggets = counted(len(tables.nuggets), "labelled nugget")
    return f"{counted(len(tables.paths), 'run')}: {instances}, {nuggets}, {counted(len(tables.judges), 'judgment')}"


def _columns(tables: Tables) -> Sequence[Column]:
    """Return the columns to show: the caveat's only if there is one."""
    if any(row["caveat"] for row in tables.systems):
        return (*_COLUMNS, _CAVEAT)
    return _COLUMNS


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


def _notes(tables: Tables) -> Iterator[str]:
    """Yield sentences: how many systems are not shown, the caveats, the first remarks, and where the rows are."""
    n_hidden = len(tables.systems) - MOST_SYSTEMS
    if n_hidden > 0:
        yield f"... and {n_hidden:,} more rows: .systems has them all"
    for caveat in caveats_in(row["caveat"] for row in tables.systems):
        yield CAVEATS[caveat]
    for remark in tables.remarks[:MOST_REMARKS]:
        yield cut_end(plain(remark), _MAX_REMARK)
    n_remarks = len(tables.remarks) - MOST_REMARKS
    if n_remarks > 0:
        yield f"... and {counted(n_remarks, 'more remark')}: .remarks has them all"
    yield 'Rows: .instances, .nuggets, .judges, .systems; data frames: .to_pandas("systems")'
