"""Standard output and standard error: JSON, notes, and streams that are closed, full or of another encoding."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import Any

import typer


def print_json(value: Any) -> None:
    """Print a value that orjson can write as indented JSON in UTF-8, whatever the terminal's encoding is.

    A character that UTF-8 cannot hold (from a file name in another encoding) is printed as "?".
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


def discard_stdout() -> None:
    """Discard what standard output has buffered: flushing it at exit would fail again, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
