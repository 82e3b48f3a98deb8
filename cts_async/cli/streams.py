"""Standard output and standard error: notes, and streams that are closed, full or of another encoding."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import Any

import typer


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on how input files were read to standard error, one line each."""
    from cts_async.report.text import plain

    for note in notes:
        typer.echo(plain(f"note: {note}"), err=True)


def occupy_closed_streams() -> None:
    """Open /dev/null in place of standard streams that are closed (`2>&-`).

    Otherwise the next file that is opened gets their number: a print would write into a journal, and libuv aborts a
    process that closes one of these numbers.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number


def ignore_stderr_failures() -> None:
    """Make printing to standard error never fail: a closed terminal or a full disk must not end a run."""
    if sys.stderr is sys.__stderr__:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        buffer = io.BufferedWriter(_Unfailing(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=True)


class _Unfailing(io.FileIO):
    """A file that reports every write as done."""

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return len(data) if written is None else written  # None: a non-blocking file that is not ready


def replace_unencodable_output() -> None:
    """Print "?" for characters that standard output's encoding lacks, instead of raising UnicodeEncodeError."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
