"""Reads text files without trusting them: bounded memory, UTF-8 only, every error located by line and field.

Rows of JSON Lines, CSV and TSV files are streamed as (line number, fields); JSON files are read whole, up to a bound.
Line numbers start at 1 and are those an editor shows; blank lines are skipped.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from cts_async.errors import InputError

# --- Lines

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The default limit of a line, and of a CSV record."""

_OTHER_ENCODINGS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_NOT_TEXT: Final = (
    (b"\x1f\x8b", "a gzip archive, not text; unpack it first"),
    (b"PK\x03\x04", "a zip archive, not text; unpack it first"),
    *((b"\x80" + bytes([protocol]), "a pickle, not text; none is opened here") for protocol in range(2, 6)),
)
"""Formats of published collections that would otherwise be reported as text in a wrong encoding."""


class NumberedLine(NamedTuple):
    """One line's bytes including its end, its number from 1, and its byte offset."""

    number: int
    offset: int
    raw: bytes


def byte_lines(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[NumberedLine]:
    """Yield the lines of `path` without a UTF-8 byte order mark; memory holds one bounded line at a time.

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
    """Raise InputError for a pipe or the like, which would be empty when read a second time."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(path, "is a pipe, which can be read only once; save it as a file and name that")


def decode(path: Path, line: NumberedLine) -> str:
    """Return the line as text; InputError if it is not UTF-8 or contains a NUL byte."""
    if (nul := line.raw.find(b"\0")) >= 0:
        problem = f"contains a NUL byte at byte {line.offset + nul} of the file: it is damaged or not text"
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
    """Return the error for a `path` that cannot be read, with what to do about it."""
    if isinstance(error, FileNotFoundError):
        return InputError(path, "no such file; check the path (data/README.md says where data comes from)")
    if isinstance(error, IsADirectoryError):
        return InputError(path, "is a directory; name the file in it")
    return InputError(path, f"cannot be read: {error.strerror or error}")


def _mark(path: Path, first: bytes) -> int:
    for mark, name in _OTHER_ENCODINGS:
        if first.startswith(mark):
            problem = f"is {name}, not UTF-8; convert it first, for example with `iconv -f {name} -t UTF-8`"
            raise InputError(path, problem, line=1)
    for mark, what in _NOT_TEXT:
        if first.startswith(mark):
            raise InputError(path, f"is {what}", line=1)
    return len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0


def sha256_of(path: Path) -> str:
    """Return the file's sha256 in hexadecimal; InputError if it cannot be read, or only once."""
    check_read_again(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


def earlier_line(seen: dict[str, int], key: str, line: int) -> int | None:
    """Return the line on which `key` was seen before; else remember this one and return None."""
    earlier = seen.get(key)
    if earlier is None:
        seen[key] = line
    return earlier


# --- Rows

Row: TypeAlias = dict[str, Any]

CSV_SUFFIXES: Final = (".csv",)
TSV_SUFFIXES: Final = (".tsv",)
JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")


class _Format(NamedTuple):
    """A format of records: its name for errors, the delimiter, and the csv module's `quoting`."""

    name: str
    delimiter: str
    quoting: Literal[0, 3]


_COMMA: Final = _Format("CSV", ",", csv.QUOTE_MINIMAL)
_TAB: Final = _Format("TSV", "\t", csv.QUOTE_MINIMAL)
_TAB_UNQUOTED: Final = _Format("TSV", "\t", csv.QUOTE_NONE)


def read_rows(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Row]]:
    """Read a `.csv` file as CSV and any other as JSON Lines."""
    reader = read_csv if path.suffix.lower() in CSV_SUFFIXES else read_jsonl
    return reader(path, max_line_bytes=max_line_bytes)


def read_jsonl(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Row]]:
    """Yield the object on each line; an empty file yields nothing."""
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        if not line.raw or line.raw.isspace():
            continue
        try:
            row = orjson.loads(line.raw)
        except orjson.JSONDecodeError as error:
            raise _not_json(path, line, error) from None
        if not isinstance(row, dict):
            raise InputError(path, "is not a JSON object: one {...} per line is expected", line=line.number)
        yield line.number, row


def _not_json(path: Path, line: NumberedLine, error: orjson.JSONDecodeError) -> InputError:
    text = decode(path, line)  # reports a wrong encoding or a NUL byte, which explains it better
    column = min(error.pos, len(text.rstrip("\r\n"))) + 1  # an early end is reported on its own line
    hint = "; one {...} per line is expected" if line.raw.strip() in (b"[", b"{") else ""
    return InputError(path, f"is not valid JSON: {error.msg} at column {column}{hint}", line=line.number)


def read_csv(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Row]]:
    """Yield each record as strings by the header's names; columns without a name are left out.

    A record's line number is that of its first line; quoted cells may span lines.
    """
    records = _records(path, max_line_bytes, _COMMA)
    header = _header(path, records)
    for line, cells in records:
        if len(cells) != len(header):
            raise InputError(path, f"has {_cells(cells)} where the header has {len(header)}", line=line)
        yield line, {name: cell for name, cell in zip(header, cells, strict=True) if name}


def read_tsv(path: Path, *, quoting: bool, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Row]]:
    """Like `read_csv` for cells separated by tabs; with `quoting`, in double quotes as pandas writes them.

    Without `quoting` a quote is an ordinary character, and a record is one line. Columns without a name at the end
    of the header may be present or absent in a row, but must be empty.
    """
    records = _records(path, max_line_bytes, _TAB if quoting else _TAB_UNQUOTED)
    header = _header(path, records)
    while not header[-1]:
        header.pop()
    width = len(header)
    for line, cells in records:
        if len(cells) < width or any(cells[width:]):
            raise InputError(path, f"has {_cells(cells)} where the header names {width}", line=line)
        yield line, {name: cell for name, cell in zip(header, cells, strict=False) if name}


def _cells(cells: list[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def _header(path: Path, records: Iterator[tuple[int, list[str]]]) -> list[str]:
    line, cells = next(records, (1, []))
    header = [name.strip() for name in cells]
    if not any(header):
        raise InputError(path, "has no header: the first line must name the columns", line=line)
    for position, name in enumerate(header):
        if name and name in header[:position]:
            raise InputError(path, "occurs twice in the header", line=line, field=name)
    return header


def _records(path: Path, max_bytes: int, form: _Format) -> Iterator[tuple[int, list[str]]]:
    # The csv module's limit on a cell is global to the process; here it is only ever increased.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    feed = _Feed(path, max_bytes, form.delimiter)
    records = csv.reader(feed, strict=True, delimiter=form.delimiter, quoting=form.quoting)
    while True:
        try:
            cells = next(records, None)
        except csv.Error as error:
            raise InputError(path, f"is not valid {form.name}: {_explain(error)}", line=feed.start) from None
        if cells is None:
            return
        yield feed.start, cells
        feed.between_records = True


def _explain(error: csv.Error) -> str:
    if "unexpected end of data" in str(error):
        return "a quote that opens here is never closed"
    if "new-line character" in str(error):
        return "a carriage return stands alone; lines must end in \\n or \\r\\n"
    return str(error)


class _Feed:
    """The lines for csv.reader; knows where the current record began, and limits its size."""

    def __init__(self, path: Path, max_bytes: int, delimiter: str) -> None:
        self._path, self._max_bytes, self._delimiter = path, max_bytes, delimiter
        self._lines = byte_lines(path, max_line_bytes=max_bytes)
        self._size = 0
        self.start = 1
        self.between_records = True

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        text = decode(self._path, line)
        while self.between_records and self._blank(text):
            line = next(self._lines)
            text = decode(self._path, line)
        if self.between_records:
            self.start, self._size, self.between_records = line.number, 0, False
        self._size += len(line.raw)
        if self._size > self._max_bytes:
            problem = f"starts a record longer than {self._max_bytes} bytes; is a quote left open?"
            raise InputError(self._path, problem, line=self.start)
        return text

    def _blank(self, text: str) -> bool:
        return not text.strip() and self._delimiter not in text  # a line of tabs is a row of empty cells


# --- JSON files

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""The default limit of a file that is read into memory."""

_TOKEN: Final = re.compile(rb'("(?:[^"\\]|\\.)*+")(\s*:)?|([{}])')
"""A string, perhaps a key, or a brace: what matters for finding repeated keys."""


def read_bytes(path: Path, *, max_bytes: int = MAX_FILE_BYTES, advice: str = "") -> bytes:
    """Return the file's content without a UTF-8 byte order mark.

    InputError if it cannot be read, or is larger than `max_bytes`; no more than that is ever read. `advice` says what
    to do about a file that large.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            raw = file.read(max_bytes + 1) if size <= max_bytes else b""
    except OSError as error:
        raise unreadable(path, error) from None
    if max(size, len(raw)) > max_bytes:
        problem = f"is larger than {max_bytes:,} bytes, the most that is read into memory"
        raise InputError(path, f"{problem}; {advice or 'is it the right file?'}")
    return raw.removeprefix(codecs.BOM_UTF8)


def parse_json(path: Path, raw: bytes) -> Any:
    """Parse `raw`, the content of `path`.

    InputError with line and column for invalid JSON, and with line and field for a repeated key.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        for line in byte_lines(path, max_line_bytes=len(raw) + len(codecs.BOM_UTF8)):
            decode(path, line)  # reports a wrong encoding or a NUL byte, which explains it better
        problem = f"is not valid JSON: {error.msg} at column {error.colno}"
        raise InputError(path, problem, line=error.lineno) from None
    _refuse_repeated_keys(path, raw)
    return value


def _refuse_repeated_keys(path: Path, raw: bytes) -> None:
    """Raise for a repeated key: parsers silently keep the last one, and a row would be lost."""
    objects: list[set[bytes]] = []
    for match in _TOKEN.finditer(raw):
        key, colon, brace = match.groups()
        if colon:
            if b"\\" in key:
                key = orjson.dumps(orjson.loads(key))  # one key can be escaped in several ways
            if key in objects[-1]:
                line = raw.count(b"\n", 0, match.start()) + 1
                raise InputError(path, "the key is repeated", line=line, field=orjson.loads(key))
            objects[-1].add(key)
        elif brace == b"{":
            objects.append(set())
        elif brace == b"}":
            objects.pop()
