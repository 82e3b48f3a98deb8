"""Streams the rows of a JSON Lines, CSV or TSV file as (line number, fields).

Two rules: memory never depends on the file, and whatever is wrong with it ends in one InputError that
names the line. Line numbers start at 1 and are those an editor shows; blank lines are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from cts_async.datasets.lines import MAX_LINE_BYTES, NumberedLine, byte_lines, decode
from cts_async.errors import InputError

Row: TypeAlias = dict[str, Any]

CSV_SUFFIXES: Final = (".csv",)
TSV_SUFFIXES: Final = (".tsv",)
JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")


class _Form(NamedTuple):
    """How cells stand in a record: its name for errors, what parts them, and the csv module's word on quotes."""

    name: str
    delimiter: str
    quoting: Literal[0, 3]


_COMMA: Final = _Form("CSV", ",", csv.QUOTE_MINIMAL)
_TAB: Final = _Form("TSV", "\t", csv.QUOTE_MINIMAL)
_TAB_UNQUOTED: Final = _Form("TSV", "\t", csv.QUOTE_NONE)


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
    text = decode(path, line)  # a wrong encoding or a NUL explains it better
    column = min(error.pos, len(text.rstrip("\r\n"))) + 1  # what ends too early does so on its own line
    hint = "; one {...} per line is expected" if line.raw.strip() in (b"[", b"{") else ""
    return InputError(path, f"is not valid JSON: {error.msg} at column {column}{hint}", line=line.number)


def read_csv(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Row]]:
    """Yield each record under the header's names, as strings; columns without a name are left out.

    A record's line number is that of its first line; quoted cells may span lines.
    """
    records = _records(path, max_line_bytes, _COMMA)
    header = _header(path, records)
    for line, cells in records:
        if len(cells) != len(header):
            raise InputError(path, f"has {_cells(cells)} where the header has {len(header)}", line=line)
        yield line, {name: cell for name, cell in zip(header, cells, strict=True) if name}


def read_tsv(path: Path, *, quoting: bool, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Row]]:
    """Like `read_csv` for cells between tabs, in double quotes as pandas writes them if `quoting`.

    Without `quoting` a quote is a character as any other, and a record is a line. Columns without a name at
    the end of the header are room that somebody left: a row may have them or not, but nothing in them.
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


def _records(path: Path, max_bytes: int, form: _Form) -> Iterator[tuple[int, list[str]]]:
    # The csv module's limit on a cell is one for the whole process; it is only ever raised here.
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
    """The lines that csv.reader asks for; knows where the record being read began, and bounds its size."""

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
