"""Reads text files without trusting them: bounded memory, UTF-8 only, every error located by line and field.

Rows of JSON Lines, CSV and TSV files are streamed as (line number, fields); JSON files are read whole, up to a bound.
Line numbers start at 1 and are those an editor shows; blank lines are skipped. `Fields` finds the canonical fields in
files that use other names for them.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson

from cts_async import foreign_json
from cts_async.errors import InputError, UsageError
from cts_async.records import NOT_TO_BE_PUBLISHED, value

# --- Lines

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The limit of a line, and of a CSV record."""

_READ_AT_ONCE: Final = 1 << 16
"""Bytes of a file of lines that are read at once: a line on the seam of two reads is copied."""

_OTHER_ENCODINGS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_PICKLE: Final = "a pickle, not text; none is opened here"
_NOT_TEXT: Final = (
    (b"\x1f\x8b", "a gzip archive, not text; unpack it first"),
    (b"PK\x03\x04", "a zip archive, not text; unpack it first"),
    (b"\x80\x02", _PICKLE),
    (b"\x80\x03", _PICKLE),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
)
"""Formats of published collections that would otherwise be reported as text in a wrong encoding."""


@value
class NumberedLine:
    """One line's bytes including its end, its number from 1, and its byte offset."""

    number: int
    offset: int
    raw: bytes


def byte_lines(path: Path, max_line_bytes: int | None = None) -> Iterator[NumberedLine]:
    """Yield the lines of `path` without a UTF-8 byte order mark; memory holds one bounded line at a time.

    Raises InputError for a file that is missing, a directory, unreadable, marked as UTF-16 or UTF-32,
    an archive or a pickle, or has a line longer than `max_line_bytes` (default MAX_LINE_BYTES).
    """
    max_bytes = max_line_bytes or MAX_LINE_BYTES
    try:
        with path.open("rb", buffering=_READ_AT_ONCE) as file:
            number, offset = 0, 0
            while raw := file.readline(max_bytes + 1):
                number += 1
                size = len(raw)
                if size > max_bytes:
                    raise InputError(path, f"is longer than {max_bytes} bytes", line=number)
                mark_bytes = 0
                if number == 1:
                    mark_bytes = _byte_order_mark(path, raw)
                yield NumberedLine(number, offset + mark_bytes, raw[mark_bytes:])
                offset += size
    except OSError as error:
        raise unreadable(path, error) from None


def check_read_again(path: Path) -> None:
    """Raise InputError for a pipe or the like, which would be empty when read a second time."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(path, "is a pipe, which can be read only once; save it as a file and name that")


def decode(path: Path, line: NumberedLine) -> str:
    """Return the line as text; InputError if it is not UTF-8 or contains a NUL byte."""
    nul = line.raw.find(b"\0")
    if nul >= 0:
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


def _byte_order_mark(path: Path, start: bytes) -> int:
    """Return the length of UTF-8's mark at the start of a file; InputError for other encodings, and for no text."""
    for mark, name in _OTHER_ENCODINGS:
        if start.startswith(mark):
            problem = f"is {name}, not UTF-8; convert it first, for example with `iconv -f {name} -t UTF-8`"
            raise InputError(path, problem, line=1)
    for mark, description in _NOT_TEXT:
        if start.startswith(mark):
            raise InputError(path, f"is {description}", line=1)
    if start.startswith(codecs.BOM_UTF8):
        return len(codecs.BOM_UTF8)
    return 0


def sha256_of(path: Path) -> str:
    """Return the file's sha256 in hexadecimal; InputError if it cannot be read, or only once."""
    check_read_again(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


# --- Rows

Row: TypeAlias = dict[str, Any]

CSV_SUFFIXES: Final = (".csv",)
TSV_SUFFIXES: Final = (".tsv",)
JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Read a `.csv` file as CSV and any other as JSON Lines."""
    if path.suffix.lower() in CSV_SUFFIXES:
        return read_table(path)
    return read_jsonl(path)


def read_jsonl(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the object on each line; an empty file yields nothing."""
    for line in byte_lines(path):
        # As `row_on`, without a call for each line.
        try:
            row = foreign_json.loads(line.raw)
        except ValueError as error:
            if not line.raw.strip():
                continue
            raise _bad_row(path, line, error) from None
        if type(row) is not dict:
            raise _no_object(path, line)
        yield line.number, row


def row_on(path: Path, line: NumberedLine) -> Row | None:
    """Return the object on a line of JSON Lines; None for a blank line. Raises InputError."""
    try:
        row = foreign_json.loads(line.raw)
    except ValueError as error:
        if not line.raw.strip():
            return None
        raise _bad_row(path, line, error) from None
    if type(row) is not dict:
        raise _no_object(path, line)
    return row


def _no_object(path: Path, line: NumberedLine) -> InputError:
    return InputError(path, "is not a JSON object: one {...} per line is expected", line=line.number)


def _bad_row(path: Path, line: NumberedLine, error: ValueError) -> InputError:
    if isinstance(error, orjson.JSONDecodeError):
        return _not_json(path, line, error)
    return InputError(path, f"cannot be read: {error}", line=line.number)


def _not_json(path: Path, line: NumberedLine, error: orjson.JSONDecodeError) -> InputError:
    text = decode(path, line)  # reports a wrong encoding or a NUL byte, which explains it better
    column = min(error.pos, len(text.rstrip("\r\n"))) + 1  # an early end is reported on its own line
    problem = f"is not valid JSON: {error.msg} at column {column}"
    if line.raw.strip() in (b"[", b"{"):  # a JSON file over several lines
        problem += "; one {...} per line is expected"
    return InputError(path, problem, line=line.number)


def restriction_in(path: Path) -> str:
    """Return why the texts of a file of candidates or gold must not be published; "" if they may.

    Its first line says so if it was made from restricted data. A file that cannot be read says nothing.
    """
    try:
        for _, row in read_rows(path):
            reason = row.get(NOT_TO_BE_PUBLISHED)
            if isinstance(reason, str):
                return " ".join(reason.split())
            return ""
    except InputError:
        pass
    return ""


def read_table(
    path: Path, format: Literal["CSV", "TSV"] = "CSV", *, quoting: bool = True
) -> Iterator[tuple[int, Row]]:
    """Yield each record as strings by the header's names; columns without a name are left out.

    A record's line number is that of its first line; quoted cells may span lines. Columns without a name at the end of
    the header may be present or absent in a row, but must be empty. Without `quoting` a quote is an ordinary
    character, and a record is one line.
    """
    records = _records(path, format, quoting)
    line, cells = next(records, (1, []))
    header = [name.strip() for name in cells]
    if not any(header):
        raise InputError(path, "has no header: the first line must name the columns", line=line)
    for position, name in enumerate(header):
        if name and name in header[:position]:
            raise InputError(path, "occurs twice in the header", line=line, field=name)
    while not header[-1]:
        header.pop()
    width = len(header)
    for line, cells in records:
        if len(cells) < width or any(cells[width:]):
            problem = f"has {len(cells)} cells where the header names {width}"
            raise InputError(path, problem, line=line)
        yield line, {name: cell for name, cell in zip(header, cells, strict=False) if name}


def _records(path: Path, format: Literal["CSV", "TSV"], quoting: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, cells) of each record; a record is no longer than MAX_LINE_BYTES."""
    # The csv module's limit on a cell is global to the process; here it is only ever increased.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    start, size = 1, 0

    def lines() -> Iterator[str]:
        nonlocal size
        for line in byte_lines(path):
            size += len(line.raw)
            if size > MAX_LINE_BYTES:
                problem = f"starts a record longer than {MAX_LINE_BYTES} bytes; is a quote left open?"
                raise InputError(path, problem, line=start)
            yield decode(path, line)

    text = lines()
    head: list[str] = []
    for line in text:
        head.append(line)
        if line.strip() or len(head) == _MOST_BLANK:
            break
    delimiter = "\t"
    if format == "CSV":
        delimiter = _delimiter("".join(head[-1:]))
    quotes: Literal[0, 3] = csv.QUOTE_NONE
    if quoting:
        quotes = csv.QUOTE_MINIMAL
    records = csv.reader(chain(head, text), strict=True, delimiter=delimiter, quoting=quotes)
    while True:
        start, size = records.line_num + 1, 0
        try:
            cells = next(records, None)
        except csv.Error as error:
            raise InputError(path, f"is not valid {format}: {_explain(error)}", line=start) from None
        if cells is None:
            return
        if cells and not (len(cells) == 1 and cells[0].isspace()):  # not a blank line
            yield start, cells


_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_MOST_BLANK: Final = 100
"""Blank lines before the header that are kept in memory while its delimiter is looked for."""
_DELIMITERS: Final = ",;\t"
"""Spreadsheets write semicolons where the comma is the decimal mark, and some programs write tabs into a .csv file."""


def _delimiter(header: str) -> str:
    """The delimiter of a CSV file by its header: the most frequent one outside quotes, a comma if several are."""
    outside = _QUOTED.sub("", header)
    return max(_DELIMITERS, key=outside.count)


def _explain(error: csv.Error) -> str:
    if "unexpected end of data" in str(error):
        return "a quote that opens here is never closed"
    if "new-line character" in str(error):
        return "a carriage return stands alone; lines must end in \\n or \\r\\n"
    return str(error)


# --- JSON files

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""The default limit of a file that is read into memory."""


def read_bytes(path: Path, *, max_bytes: int = MAX_FILE_BYTES, advice: str = "") -> bytes:
    """Return the file's content without a UTF-8 byte order mark.

    InputError if it cannot be read, or is larger than `max_bytes`; no more than that is ever read. `advice` says what
    to do about a file that large.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            raw = b""
            if size <= max_bytes:
                raw = file.read(max_bytes + 1)  # it may grow, and /proc says 0
    except OSError as error:
        raise unreadable(path, error) from None
    if max(size, len(raw)) > max_bytes:
        problem = f"is larger than {max_bytes:,} bytes, the most that is read into memory"
        raise InputError(path, f"{problem}; {advice or 'is it the right file?'}")
    return raw.removeprefix(codecs.BOM_UTF8)


def parse_json(path: Path, raw: bytes) -> Any:
    """Parse `raw`, the content of `path`.

    InputError with line and column for invalid JSON, and with the field for a repeated key.
    """
    try:
        value = foreign_json.loads(raw)
    except foreign_json.NestedTooDeeply as error:
        raise InputError(path, f"cannot be read: {error}") from None
    except orjson.JSONDecodeError as error:
        for line in byte_lines(path, len(raw) + len(codecs.BOM_UTF8)):
            decode(path, line)  # reports a wrong encoding or a NUL byte, which explains it better
        problem = f"is not valid JSON: {error.msg} at column {error.colno}"
        raise InputError(path, problem, line=error.lineno) from None
    _refuse_repeated_keys(path, raw)
    return value


def _refuse_repeated_keys(path: Path, raw: bytes) -> None:
    """Raise for a repeated key: parsers silently keep the last one, and a row would be lost."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise InputError(path, "the key is repeated", field=name)
            names.add(name)

    json.loads(raw, object_pairs_hook=check)  # the objects become None: only their keys matter


# --- Canonical fields under other names
#
# Names are compared without regard to case, spaces and hyphens; if several fit, the first one in ALIASES wins. The user
# maps what no alias covers: `--field fused_query=OQ`, or `--field answer=result.text` for a field inside an object. A
# mapping binds the queries or candidates file; the gold file follows it where it has such a field, and is bound by
# `gold.fused_query=OQ`.

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    field: tuple(names)
    for field, names in tomllib.loads(Path(__file__).with_name("fields.toml").read_text("utf-8")).items()
}
"""Canonical field -> the names that it may have, preferred ones first."""

PLAIN_QUERY: Final = ("query", "question")
GOLD_PREFIX: Final = "gold."
_MANY: Final = 30


class Fields:
    """The canonical fields of one file's rows, or of objects inside them.

    `bound` maps canonical fields to the file's own names, which must be there; `tried` does so but falls back on the
    aliases. With `plain_query` a field called `query` or `question` may be the fused query. Methods raise InputError;
    `within` is the path of the object inside its row ("gold.nuggets[0].").
    """

    def __init__(
        self,
        path: Path,
        bound: Mapping[str, str] | None = None,
        *,
        tried: Mapping[str, str] | None = None,
        plain_query: bool = False,
    ) -> None:
        self.path = path
        self._bound = bound or {}
        self._tried = tried or {}
        self._plain_query = plain_query
        self._shapes: dict[tuple[str, ...], dict[str, str]] = {}
        # Several fields are read of each row: its shape is looked up once.
        self._row: Row = {}
        self._shape: dict[str, str] = {}

    @classmethod
    def of_data(cls, path: Path, mapping: Mapping[str, str] | None, *, plain_query: bool = False) -> Fields:
        """Return the fields of a queries or candidates file under the user's mapping."""
        return cls(path, _split(mapping)[0], plain_query=plain_query)

    @classmethod
    def of_gold(cls, path: Path, mapping: Mapping[str, str] | None) -> Fields:
        """Return the fields of a gold file: `gold.` mappings bind it, the others are tried."""
        data, gold = _split(mapping)
        return cls(path, gold, tried=data, plain_query=True)

    def names(self, row: Row) -> Mapping[str, str]:
        """Return this row's own name of each field that it has."""
        if row is not self._row:
            self._row, self._shape = row, self._shape_of(row)
        return self._shape

    def name(self, row: Row, field: str, line: int, within: str = "") -> str | None:
        """Return this row's own name of `field`, None if it has none; a mapped name must be there."""
        name = self.names(row).get(field)
        if name is None and field in self._bound:
            raise self.missing(row, field, line, within)
        return name

    def value(self, row: Row, field: str, line: int, within: str = "") -> object:
        """Return the value of `field`; None if it is absent or null."""
        name = self.name(row, field, line, within)
        if name is None:
            return None
        if name in row:
            return row[name]
        return _value_inside(row, name)

    def text(self, row: Row, field: str, line: int, within: str = "") -> str:
        """Return the value of a field that must be non-empty text, stripped."""
        text = self.text_or_none(row, field, line, within)
        if text is None:
            raise self.missing(row, field, line, within)
        if not text:
            raise self.error(row, field, line, "is empty", within)
        return text

    def text_or_none(self, row: Row, field: str, line: int, within: str = "") -> str | None:
        """Return the value of a text field, stripped and possibly empty; None if it is absent or null."""
        value = self.value(row, field, line, within)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(row, field, line, f"must be text, is {kind_of(value)}", within)
        return value.strip()

    def identifier(self, row: Row, line: int, field: str = "id", within: str = "") -> str | None:
        """Return an id (text or a whole number) as text; None if it is absent, null or empty."""
        value = self.value(row, field, line, within)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            problem = f"must be text or a whole number, is {kind_of(value)}"
            raise self.error(row, field, line, problem, within)
        return str(value).strip() or None

    def error(self, row: Row, field: str, line: int, problem: str, within: str = "") -> InputError:
        """Return the error for a bad value, under the row's own name of the field."""
        return InputError(self.path, problem, line=line, field=within + self.names(row).get(field, field))

    def missing(self, row: Row, field: str, line: int, within: str = "") -> InputError:
        """Return the error for a required field that this row does not have; it lists those it has."""
        name = self._shapes.get(tuple(row), {}).get(field)
        if name is not None:
            return InputError(self.path, "is null", line=line, field=within + name)
        problem = f"is missing; the fields here are {listed(row)} (map one with --field {field}=NAME)"
        if field in self._bound:
            mapped = self._bound[field]
            problem = f"there is no {mapped!r}, which is mapped to it; the fields here are {listed(row)}"
        return InputError(self.path, problem, line=line, field=within + field)

    def _shape_of(self, row: Row) -> dict[str, str]:
        names = tuple(row)
        if names in self._shapes:
            return self._shapes[names]
        if len(self._shapes) >= 64:  # rows of ever other shapes must not fill the memory
            self._shapes.clear()
        folded = {_fold(name): name for name in reversed(names)}  # of names that are alike the first one wins
        shape = {}
        for field in ALIASES:
            name = self._find(field, names, folded)
            if name is not None:
                shape[field] = name
        self._shapes[names] = shape
        return shape

    def _find(self, field: str, names: tuple[str, ...], folded: Mapping[str, str]) -> str | None:
        if field in self._bound:
            return _find_mapped(self._bound[field], names, folded)
        if field in self._tried:
            name = _find_mapped(self._tried[field], names, folded)
            if name is not None:
                return name
        aliases = ALIASES[field]
        if field == "fused_query" and self._plain_query:
            aliases += PLAIN_QUERY
        for alias in aliases:
            if alias in folded:
                return folded[alias]
        return None


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise UsageError if a mapping has an unknown field, or maps one to an empty name."""
    for field, name in mapping.items():
        if field.removeprefix(GOLD_PREFIX) not in ALIASES:
            raise UsageError(f"--field {field}={name}: unknown field; the fields are {', '.join(ALIASES)}")
        if not name.strip():
            raise UsageError(f"--field {field}=: the file's own name is missing")


def _split(mapping: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    mapping = mapping or {}
    check_mapping(mapping)
    data: dict[str, str] = {}
    gold: dict[str, str] = {}
    for field, name in mapping.items():
        if field.startswith(GOLD_PREFIX):
            gold[field.removeprefix(GOLD_PREFIX)] = name
        else:
            data[field] = name
    return data, gold


_NO_ERROR: Final = frozenset({"", "false", "none", "null", "nan"})
"""What programs write into a table if there was no error; the scorer has the same words."""


def says_error(value: object) -> bool:
    """True if the value of a field `error` reports one."""
    if isinstance(value, str):
        return value.strip().casefold() not in _NO_ERROR
    return bool(value)


def listed(names: Iterable[str]) -> str:
    """Return the names of fields for a message: quoted, in order, the first thirty."""
    quoted = [short(name, 40) for name in names]
    text = ", ".join(quoted[:_MANY]) or "none at all"
    if len(quoted) > _MANY:
        text += f" and {len(quoted) - _MANY} more"
    return text


def short(value: object, max_chars: int = 60) -> str:
    """Return a value of a file quoted for a message, cut to about `max_chars` characters."""
    if isinstance(value, str):
        return repr(_cut(value, max_chars))
    return _cut(repr(value), max_chars)


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return text[: max_chars - 1] + "…"


_KINDS: Final[Mapping[type, str]] = {
    int: "a number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """Return the kind of a JSON value for a message: "a number", "a list", ..."""
    return _KINDS.get(type(value), "null")


def _fold(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _find_mapped(mapped: str, names: tuple[str, ...], folded: Mapping[str, str]) -> str | None:
    """Return the file's own name for the name that a user mapped; None if the file has no such field."""
    if mapped in names:
        return mapped
    if mapped.partition(".")[0] in names and "." in mapped:  # a field inside an object
        return mapped
    return folded.get(_fold(mapped))


def _value_inside(row: Row, path: str) -> object:
    """Return the value at a path such as `result.text`; None if there is none."""
    value: object = row
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
