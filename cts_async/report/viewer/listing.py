"""A page of a run's instances: filtered and sorted by numbers alone, of which lines only those shown are read.

A search for text reads lines until its time is over, and says where it has come to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.report.viewer.files import opened, record_in
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.query import InstanceQuery
from cts_async.report.viewer.refusal import CHANGED, Refused
from cts_async.report.viewer.results_index import Lines, id_hash, name_of
from cts_async.report.viewer.shapes import InstanceList, InstanceRow
from cts_async.report.viewer.text_match import Needle

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SCAN_S: Final = 0.18
"""How long one request looks for text."""
MAX_CHARS: Final = 300


def list_instances(
    run: OpenRun, query: InstanceQuery, clock: Callable[[], float] = time.monotonic
) -> InstanceList:
    """The page asked for. Raises Refused for a judge there is not, and where the file changed meanwhile."""
    lines = run.results.lines()
    scores = _scores(run, lines, query)
    order = _ordered(lines, scores, query)
    first = 0 if query.after is None else _place_after(order, query.after)
    page = _Page(lines, scores)
    try:
        with opened(run.results.path) as fd:
            end = page.fill(fd, order, first, query, clock)
    except OSError:  # gone, or no file that is read here
        end = len(order)
    more = end < len(order)
    total = None if query.text and (more or first) else len(page.rows) if query.text else len(order)
    return {
        "rows": page.rows,
        "next": f"{order[end - 1]}.{end - 1}" if more and end else None,
        "total": total,
        "n": len(lines),
        "ready": run.ready,
    }


def _scores(run: OpenRun, lines: Lines, query: InstanceQuery) -> Array:
    judges = run.judges()
    if not judges:
        return lines.scores
    if query.judge and query.judge not in judges:
        raise Refused(400, f"judge: is one of {', '.join(judges)}")
    return run.scores(judges[query.judge or next(iter(judges))], lines)


def _ordered(lines: Lines, scores: Array, query: InstanceQuery) -> Array:
    """The rows that fit but for their text, in the order asked for; equal ones as in the file, no score last."""
    import numpy as np

    fits = np.ones(len(lines), bool)
    if query.failed is not None:
        fits &= lines.failed == query.failed
    if query.least is not None:
        fits &= scores >= query.least
    if query.most is not None:
        fits &= scores <= query.most
    if query.unknown:
        some, every = lines.unknown > 0, lines.unknown == lines.asked
        fits &= (lines.asked > 0) & {"none": ~some, "some": some, "all": every}[query.unknown]
    rows = np.flatnonzero(fits)
    if not query.sort:
        return rows
    by = {"score": scores[rows], "-score": -scores[rows], "-unknown": -lines.unknown[rows].astype(int)}
    return rows[np.argsort(by[query.sort], kind="stable")]


def _place_after(order: Array, after: tuple[int, int]) -> int:
    """Where the page begins: behind a row, wherever that stands by now."""
    import numpy as np

    row, place = after
    found = np.flatnonzero(order == row)
    return int(found[0]) + 1 if len(found) else min(place + 1, len(order))


class _Page:
    """Rows as they are found."""

    def __init__(self, lines: Lines, scores: Array) -> None:
        self.lines, self.scores = lines, scores
        self.rows: list[InstanceRow] = []

    def fill(
        self, fd: int, order: Array, first: int, query: InstanceQuery, clock: Callable[[], float]
    ) -> int:
        """Take rows from `order` until the page is full or the time is over; the place behind the last one."""
        needle = Needle(query.text) if query.text else None
        until = clock() + SCAN_S
        for place in range(first, len(order)):
            row = int(order[place])
            raw = os.pread(fd, int(self.lines.lengths[row]), int(self.lines.offsets[row]))
            if needle is None or needle.in_line(raw):
                self.rows.append(self._shown(row, raw))
            if len(self.rows) >= query.limit or (needle and clock() >= until):
                return place + 1
        return len(order)

    def _shown(self, row: int, raw: bytes) -> InstanceRow:
        line = record_in(raw)
        id = name_of(line) if line else None
        if line is None or id is None or id_hash(id) != int(self.lines.ids[row]):
            raise Refused(409, CHANGED)
        score = float(self.scores[row])
        return {
            "id": id,
            "blurred_query": _text(line, "blurred_query"),
            "fused_query": _text(line, "fused_query") or _text(line, "query"),
            "score": None if score != score else score,
            "asked": int(self.lines.asked[row]),
            "unknown": int(self.lines.unknown[row]),
            "failed": failure_kind(line),
        }


def failure_kind(line: Mapping[str, Any]) -> str:
    """The kind of a failed line's failure; "" for one that did not fail."""
    error = line.get("error")
    if error is None:
        return ""
    return str(error.get("kind") or "failed") if isinstance(error, dict) else "failed"


def _text(line: Mapping[str, Any], name: str) -> str:
    text = line.get(name)
    return text[:MAX_CHARS] if isinstance(text, str) else ""
