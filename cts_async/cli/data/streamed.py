"""Rows on their way out as JSON Lines: to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from cts_async.errors import UsageError, unwritable

STDOUT = "-"
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def check_free(out: Path, *, force: bool) -> None:
    """UsageError where `out` is a file already, unless `force`: what took long to make is not lost by a slip."""
    if out.expanduser().is_file() and not force:
        raise UsageError(f"--out {out}: exists already; --force replaces it")


def write_jsonl(out: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write the rows to the file `out`, or to standard output for "-"; gives how many. Holds one at a time.

    A reader of standard output that has seen enough (`| head`) ends it quietly. UsageError where nothing can be written.
    """
    from cts_async.datasets.whole_file import written_whole

    if out != STDOUT:
        with written_whole(Path(out).expanduser()) as file:
            return _write(file, rows)
    try:
        count = _write(sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # What is still buffered would break the pipe once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise unwritable("standard output", error) from None
    return count


def _write(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> int:
    import orjson

    count = 0
    for row in rows:
        count += 1
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return count
