"""Reads a JSON file whole without trusting it: a bound on its size, each key once, every error located."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.datasets.lines import byte_lines, decode, unreadable
from cts_async.errors import InputError

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""The default bound of a file that has to be held in memory."""

_TOKEN: Final = re.compile(rb'("(?:[^"\\]|\\.)*+")(\s*:)?|([{}])')
"""A string, perhaps a key, or a brace: all that matters for finding a key that stands twice."""


def read_bytes(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The file's content without a UTF-8 byte order mark.

    InputError if it cannot be read, or is larger than `max_bytes`: then no more than that of it is ever read.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            raw = file.read(max_bytes + 1) if size <= max_bytes else b""
    except OSError as error:
        raise unreadable(path, error) from None
    if max(size, len(raw)) > max_bytes:
        raise InputError(path, f"is larger than {max_bytes} bytes, the most that is read into memory")
    return raw.removeprefix(codecs.BOM_UTF8)


def parse_json(path: Path, raw: bytes) -> Any:
    """The value that `raw`, the content of `path`, stands for.

    InputError with line and column for what is no JSON, and with line and field for a key that stands twice.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        for line in byte_lines(path, max_line_bytes=len(raw) + len(codecs.BOM_UTF8)):
            decode(path, line)  # a wrong encoding or a NUL explains it better
        problem = f"is not valid JSON: {error.msg} at column {error.colno}"
        raise InputError(path, problem, line=error.lineno) from None
    _refuse_repeated_keys(path, raw)
    return value


def _refuse_repeated_keys(path: Path, raw: bytes) -> None:
    """Parsers keep the last of equal keys in silence; a row would be gone, and nobody would know."""
    objects: list[set[bytes]] = []
    for match in _TOKEN.finditer(raw):
        key, colon, brace = match.groups()
        if colon:
            if key in objects[-1]:
                line = raw.count(b"\n", 0, match.start()) + 1
                raise InputError(path, "the key stands twice", line=line, field=orjson.loads(key))
            objects[-1].add(key)
        elif brace == b"{":
            objects.append(set())
        elif brace == b"}":
            objects.pop()
