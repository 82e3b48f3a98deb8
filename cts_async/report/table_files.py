"""Tables as files for papers and programs: NAME.md, NAME.tex and NAME.csv."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cts_async.report.comparison_tables import Told
from cts_async.report.data_table import csv_text, make_folder
from cts_async.report.table_text import latex, markdown
from cts_async.safe_files import written_whole


def write_table_files(folder: Path, tables: Iterable[Told]) -> list[Path]:
    """Write each table that has rows, every file whole or not at all; give the files.

    All texts are made before the first file is written. The folder is made if need be. Raises UsageError, StorageFull.
    """
    texts = {name: text for told in tables if told.table.rows for name, text in _texts(told).items()}
    make_folder(folder)
    for name, text in texts.items():
        with written_whole(folder / name) as file:
            file.write(text.encode(errors="replace"))
    return [folder / name for name in texts]


def _texts(told: Told) -> dict[str, str]:
    table = told.table
    return {
        f"{table.name}.md": markdown(table, told.remarks),
        f"{table.name}.tex": latex(table, told.remarks),
        f"{table.name}.csv": csv_text(table),
    }
