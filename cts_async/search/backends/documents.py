"""A corpus file: JSON Lines of `{"id", "url", "title", "text"}`.

It is read line by line; a line that is no document is refused with its number and field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote

import orjson

from cts_async.errors import InputError
from cts_async.search.backends.base import Page

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line is no document; no more than that of one is ever held."""
_BOM: Final = b"\xef\xbb\xbf"
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)


def read_documents(
    stream: BinaryIO, path: Path, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, int, Page]]:
    """Yield (line number from 1, byte offset, document) for each line that is not blank.

    Raises `InputError` at the first line that is not a document, or is longer than `max_line_bytes`.
    """
    offset = 0
    for number, line in enumerate(iter(partial(stream.readline, max_line_bytes + 1), b""), 1):
        if len(line) > max_line_bytes:
            raise InputError(path, f"is longer than {max_line_bytes} bytes", line=number)
        skip = len(_BOM) if number == 1 and line.startswith(_BOM) else 0
        if line[skip:].strip():
            yield number, offset + skip, parse_document(line[skip:], path, number)
        offset += len(line)


def parse_document(line: bytes, path: Path, number: int | None = None) -> Page:
    """Read one document; further fields are ignored. `id` and `url` must not be empty."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(path, _what_is_broken(line, error), line=number) from None
    if not isinstance(record, dict):
        raise InputError(path, "a document must be a JSON object", line=number)
    values = [_text(record, field, path, number) for field in ("id", "url", "title", "text")]
    return Page(*values)


def _what_is_broken(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as broken:
        return f"not UTF-8 (byte {broken.start + 1} of the line)"
    if b"\0" in line:
        return "holds a NUL byte: it is damaged or not text"
    return f"not JSON: {error.msg} at column {error.colno}"


def _text(record: dict[str, object], field: str, path: Path, number: int | None) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        problem = "must be a string" if field in record else "is missing"
        raise InputError(path, problem, line=number, field=field)
    if field in ("id", "url") and not value.strip():
        raise InputError(path, "must not be empty", line=number, field=field)
    return value


def canonical_url(url: str) -> str:
    """Give what http and https, a fragment, a trailing slash, escapes and the host's case do not change."""
    bare = _SCHEME.sub("", url.strip().partition("#")[0], count=1)
    host, slash, path = bare.partition("/")
    return unquote(f"{host.lower()}{slash}{path}").rstrip("/")


def digest(text: str) -> int:
    """Give a 64-bit hash of `text` that is the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little"
    )
