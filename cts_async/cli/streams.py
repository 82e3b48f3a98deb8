"""Standard streams that cannot fail, and sizes that can be printed in, whatever `cts` was started with."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import MutableMapping
from typing import Any, Final

_SIZES: Final = ("COLUMNS", "LINES", "TERMINAL_WIDTH")
_NARROWEST, _WIDEST = 10, 1_000


def drop_unusable_sizes(environ: MutableMapping[str, str]) -> None:
    """Remove sizes of a terminal that cannot be one: the terminal's own, or 80 columns, are used then.

    Containers and job runners set `COLUMNS=0` for "unknown", with which rich prints nothing at all.
    """
    for name in _SIZES:
        size = environ.get(name)
        if size is None:
            continue
        is_number = size.isascii() and size.isdecimal() and len(size) < 10
        if not is_number or not _NARROWEST <= int(size) <= _WIDEST:
            del environ[name]


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
    if sys.stderr is sys.__stderr__:  # a test, or a notebook, has put its own there
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
        if written is None:  # failed, or a non-blocking file that is not ready
            return len(data)
        return written


def prepare_stdout() -> None:
    """Let standard output take all text, also when nobody reads it any more (`| head -1`).

    "?" stands for characters that its encoding lacks. A reader that has left is no failure of the command, whose exit
    code stays its own.
    """
    # Not where a test, or a notebook, has put its own there.
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        buffer = io.BufferedWriter(_Piped(1, "w", closefd=False))
        lines = sys.stdout.line_buffering
        sys.stdout = io.TextIOWrapper(buffer, sys.stdout.encoding, line_buffering=lines)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


class _Piped(io.FileIO):
    """A file that reports writes as done once nobody reads them."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)
