"""Reads a text file line by line without trusting it: bounded lines, UTF-8 only, every error located."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cts_async.errors import InputError

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The default bound of a line, and of a CSV record."""

_FOREIGN_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_NO_TEXT: Final = (
    (b"\x1f\x8b", "a gzip archive, not text; unpack it first"),
    (b"PK\x03\x04", "a zip archive, not text; unpack it first"),
    *((b"\x80" + bytes([protocol]), "a pickle, not text; none is opened here") for protocol in range(2, 6)),
)
"""What published collections come in, and what would otherwise be taken for text in a wrong encoding."""


class NumberedLine(NamedTuple):
    """One line's bytes with its end, its number from 1, and where in the file it starts."""

    number: int
    offset: int
    raw: bytes


def byte_lines(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[NumberedLine]:
    """Yield the lines of `path`, a UTF-8 byte order mark removed; never holds more than one bounded line.

    Raises InputError for a file that is missing, a directory, unreadable, marked as UTF-16 or UTF-32,
    an archive or a pickle, or has a line longer than `max_line_bytes`.
    """
    try:
        with path.open("rb") as file:
            number, offset = 0, 0
            while raw := file.readline(max_line_bytes + 1):
                number += 1
                if len(raw) > max_line_bytes:
                    raise InputError(path, f"is longer than {max_line_bytes} bytes", line=number)
                mark = _mark(path, raw) if number == 1 else 0
                yield NumberedLine(number, offset + mark, raw[mark:] if mark else raw)
                offset += len(raw)
    except OSError as error:
        raise unreadable(path, error) from None


def check_read_again(path: Path) -> None:
    """InputError for a pipe or the like: who reads it a second time finds nothing."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(path, "is a pipe, which can be read only once; save it as a file and name that")


def decode(path: Path, line: NumberedLine) -> str:
    """Give the line as text; InputError where it is not UTF-8 or holds a NUL byte."""
    if (nul := line.raw.find(b"\0")) >= 0:
        problem = f"holds a NUL byte at byte {line.offset + nul} of the file: it is damaged or not text"
        raise InputError(path, problem, line=line.number)
    try:
        return line.raw.decode()
    except UnicodeDecodeError as error:
        problem = (
            f"is not UTF-8: byte 0x{line.raw[error.start]:02x} at byte {line.offset + error.start} of the "
            "file; convert it first, for example with `iconv -f GB18030 -t UTF-8`"
        )
        raise InputError(path, problem, line=line.number) from None


def unreadable(path: Path, error: OSError) -> InputError:
    """Say why `path` cannot be read, and what to do about it."""
    if isinstance(error, FileNotFoundError):
        return InputError(path, "no such file; check the path (data/README.md says where data comes from)")
    if isinstance(error, IsADirectoryError):
        return InputError(path, "is a directory; name the file in it")
    return InputError(path, f"cannot be read: {error.strerror or error}")


def _mark(path: Path, first: bytes) -> int:
    for mark, name in _FOREIGN_MARKS:
        if first.startswith(mark):
            problem = f"is {name}, not UTF-8; convert it first, for example with `iconv -f {name} -t UTF-8`"
            raise InputError(path, problem, line=1)
    for mark, what in _NO_TEXT:
        if first.startswith(mark):
            raise InputError(path, f"is {what}", line=1)
    return len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
