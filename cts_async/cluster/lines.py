"""Lines of a run's files as they travel: bytes as they will stand there, made where the job was done."""

from __future__ import annotations

from typing import Final

import orjson

from cts_async.cluster.messages import Line
from cts_async.protocol import results

RESULTS: Final = None
"""The `judge` of a line of results."""


def travelling(place: int, judge: str | None, line: results.Line) -> Line:
    """`line` for a file at `place`."""
    return Line(place, judge, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
