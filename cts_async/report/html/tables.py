"""A table in the page: in a box of its own that scrolls, with caption, headings, and what is to be read after it."""

from __future__ import annotations

from typing import Final

from cts_async.report.comparison_tables import Told
from cts_async.report.html.element import Element, Node, element, said
from cts_async.report.table_files import best_cells
from cts_async.report.tables import Column, DataTable, Row, written_rows

MOST_ROWS: Final = 500
"""Rows of a table that the page has; --tables writes them all."""
MANY_REMARKS: Final = 4
MANY_ROWS: Final = 40
"""From so many rows on a table is folded."""


def table_section(told: Told) -> Element:
    """The table under its title, then the remarks; folded where it is long, or is printed for those only who ask."""
    table = told.table
    anchor = f"table-{table.name}"
    remarks: list[Node] = [said(remark, "p", class_="remark") for remark in told.remarks]
    if len(remarks) > MANY_REMARKS:
        remarks = [element("details", element("summary", f"{len(remarks)} notes"), remarks)]
    whole = table.shown == 0 or len(table.rows) > MANY_ROWS
    body: list[Node] = [table_box(table, f"{anchor}-title"), *remarks]
    if whole:
        body = [element("details", element("summary", f"{len(table.rows):,} rows"), body)]
    return element("section", said(table.title, "h3", id=f"{anchor}-title"), body, id=anchor, class_="table")


def table_box(table: DataTable, labelled_by: str) -> Element:
    """The table alone, in a box that scrolls sideways and takes the keyboard's focus for that."""
    rows = written_rows(table)
    more = len(rows) - MOST_ROWS
    rows, best = rows[:MOST_ROWS], best_cells(rows[:MOST_ROWS], table.columns)
    caption = [table.caption] + ([f"The first {MOST_ROWS} of {len(rows) + more:,} rows."] if more > 0 else [])
    told = ". ".join(part.rstrip(".") for part in caption if part)
    head = element("tr", (_heading(column) for column in table.columns))
    body = [
        element("tr", (_cell(column, row, j, best=(i, j) in best) for j, column in enumerate(table.columns)))
        for i, row in enumerate(rows)
    ]
    drawn = element(
        "table",
        element("caption", said(f"{told}.", "span")) if told else None,
        element("thead", head),
        element("tbody", body),
    )
    return element("div", drawn, class_="box", tabindex=0, role="region", aria_labelledby=labelled_by)


def _heading(column: Column) -> Element:
    return element("th", said(column.heading), scope="col", class_="number" if column.numeric else None)


def _cell(column: Column, row: Row, place: int, *, best: bool) -> Element:
    text = column.show(row)
    shown: Node = element("strong", text) if best else text if column.numeric else said(text)
    if place == 0 and not column.numeric:
        return element("th", shown, scope="row")
    return element("td", shown, class_="number" if column.numeric else None)
