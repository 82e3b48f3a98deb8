"""Rows on their way out as JSON Lines: to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cts_async.cli.streams import discard_stdout
from cts_async.errors import write_error

STDOUT = "-"


def write_jsonl(out: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write the rows to the file `out`, or to standard output for "-"; gives how many. Holds one at a time.

    A reader of standard output that has seen enough (`| head`) ends it quietly. Raises what `write_error` gives.
    """
    from cts_async.safe_files import atomic_writer

    if out != STDOUT:
        with atomic_writer(Path(out).expanduser()) as file:
            return _write(file, rows)
    try:
        count = _write(sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        discard_stdout()
        return 0
    except OSError as error:
        discard_stdout()
        raise write_error("standard output", error) from None
    return count


def _write(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> int:
    import orjson

    count = 0
    for row in rows:
        count += 1
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return count
