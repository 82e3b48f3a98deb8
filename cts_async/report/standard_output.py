"""Standard output: tables, JSON and JSON Lines on it, characters that it lacks, and what to do once it is closed."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import typer

from cts_async.errors import unwritable

if TYPE_CHECKING:
    from cts_async.report.tables import DataTable

STDOUT: Final = "-"
"""Names standard output where a file's name is expected."""


def show_tables(
    tables: Sequence[DataTable], *, notes: Sequence[str] = (), as_json: bool = False, csv: Path | None = None
) -> None:
    """Print tables, then notes; with `as_json` all rows unrounded by the tables' names, with the notes.

    With `csv` every table is also written to that folder, which is created if it is missing.
    """
    from rich.console import Console
    from rich.text import Text

    from cts_async.report.tables import print_table, printable, write_csv

    if csv is not None:
        for table in tables:
            write_csv(csv, table)
    if as_json:
        print_json({table.name: list(table.rows) for table in tables} | {"notes": list(notes)})
        return
    console = Console()
    for table in tables:
        print_table(console, table)
    for note in notes:
        console.print(Text(printable(note), style="yellow"), soft_wrap=not console.is_terminal)


def print_json(value: Any) -> None:
    """Print what orjson can write, indented, in UTF-8 whatever the terminal's encoding is: JSON has no other.

    In text that UTF-8 cannot encode, such as a file name in another encoding, "?" replaces what it cannot.
    """
    import orjson

    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:
        text = orjson.dumps(_encodable(value), option=orjson.OPT_INDENT_2)
    typer.echo(text)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list | tuple) else value


def write_jsonl(out: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON Lines to the file `out`, whole or not at all, or to standard output for "-".

    Returns the number of rows; holds one at a time. A closed pipe (`| head`) ends it quietly. Raises the errors of
    `unwritable`.
    """
    from cts_async.safe_files import written_whole

    if out != STDOUT:
        with written_whole(Path(out).expanduser()) as file:
            return _write(file, rows)
    try:
        count = _write(sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        abandon_stdout()
        return 0
    except OSError as error:
        abandon_stdout()
        raise unwritable("standard output", error) from None
    return count


def _write(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> int:
    import orjson

    count = 0
    for row in rows:
        count += 1
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return count


def tolerate_encodings() -> None:
    """Print "?" for characters that the encoding of standard output lacks, instead of a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def abandon_stdout() -> None:
    """Drop what is still buffered: writing it when the interpreter ends would fail again, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
