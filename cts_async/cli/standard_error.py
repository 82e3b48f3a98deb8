"""Standard error is for whoever looks: that nobody does any more, or its disk is full, ends no run."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import Any


def open_closed_streams() -> None:
    """Take the numbers of standard streams that are closed (`2>&-`), before any other file gets them.

    A journal by that number would be written to by whoever prints, and libuv ends a process that closes one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free


def tolerate_deaf_ears() -> None:
    """From now on printing to standard error never fails; what it does not take is dropped."""
    if sys.stderr is sys.__stderr__:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        buffer = io.BufferedWriter(_Unfailing(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=True)


def print_notes(notes: Iterable[str]) -> None:
    """Print remarks on how input files were read, a line each."""
    import typer

    from cts_async.report.text import plain

    for note in notes:
        typer.echo(plain(f"note: {note}"), err=True)


class _Unfailing(io.FileIO):
    """A file that takes everything."""

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return len(data) if written is None else written  # None: it would have to be waited for
