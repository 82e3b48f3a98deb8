"""Tables of data on a terminal, as JSON or as CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cts_async.cli.streams import print_json

if TYPE_CHECKING:
    from cts_async.report.tables import DataTable


def show(
    tables: Sequence[DataTable], *, notes: Sequence[str] = (), as_json: bool = False, csv: Path | None = None
) -> None:
    """Print the tables and then the notes; with `as_json` all rows unrounded by the tables' names, notes beside them.

    With `csv` every table is also written to that folder, which is made if need be.
    """
    from rich.console import Console
    from rich.text import Text

    from cts_async.report.tables import print_table, printable, write_csv

    if csv is not None:
        for table in tables:
            write_csv(csv, table)
    if as_json:
        found = {table.name: list(table.rows) for table in tables} | {"notes": list(notes)}
        print_json(found)
        return
    console = Console()
    for table in tables:
        print_table(console, table)
    for note in notes:
        console.print(Text(printable(note), style="yellow"), soft_wrap=not console.is_terminal)
