"""A table on a terminal that is too narrow for it: it runs over the edge, where rich leaves whole columns out."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

NAME_WIDTH: Final = 6
"""A long name folds, but not into less."""
_OVER: Final = 12
"""Where lines run over the edge anyway, names fold no further than this."""
_ROOM: Final = 10_000
"""Columns of a terminal on which any cell has room."""


def print_whole(console: Console, table: Table) -> None:
    """Print a table as wide as the terminal allows, and never without a name or with half a number.

    Columns fold down to their `min_width`; one that does not wrap, is set right or has none keeps its own.
    """
    if _least_width(console, table) > console.width:
        table.width = _least_width(console, table, _OVER)
    console.print(table, crop=False, no_wrap=True, overflow="ignore")


def _least_width(console: Console, table: Table, name: int = 0) -> int:
    """Terminal columns that a table needs to be read, names of `name` characters left whole."""
    _, right, _, left = table.padding
    between = (len(table.columns) - 1) * (left + right + (1 if table.box else 0))
    return sum(_least(console, column, name) for column in table.columns) + between


def _least(console: Console, column: Column, name: int) -> int:
    options = console.options.update(width=_ROOM)
    cells = (column.header, *column.cells)
    natural = max(Measurement.get(console, options, cell).maximum for cell in cells)
    if column.no_wrap or column.justify == "right" or column.min_width is None:
        return natural
    return min(natural, max(column.min_width, name))
