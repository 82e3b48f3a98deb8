"""Lists of instances for the page: their parameters, filters and order, a page of them, and CSV.

Filters of instances: `judge` is the judge whose scores count (default: the scoring judge); `sort` is "" (file order),
"score", "-score" (highest first) or "-unknown"; `min` and `max` are inclusive; `unknown` is "none", "some" (at least
one) or "all"; `failed` is "1" (failed ones only) or "0" (all others).
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.foreign_json import as_text
from cts_async.runs.index import (
    FILE_CHANGED,
    Json,
    Refused,
    id_hash,
    opened,
    record_in,
)
from cts_async.runs.open_run import OpenRun
from cts_async.runs.results import ResultLines, instance_name

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_ROWS: Final = 200
ROWS: Final = 50
MAX_TEXT: Final = 1000
MAX_CHARS: Final = 300
"""Of a query in the list."""
BINS: Final = 20
CSV_ROWS: Final = 500
"""Rows of a CSV file that are read and sent at a time."""
CSV_COLUMNS: Final = (
    *("run", "id", "blurred_query", "fused_query", "judge", "score", "n_unknown", "n_answers", "error_kind"),
    "caveat",
)
SCAN_S: Final = 0.18
"""How long one request searches for text."""
Parameters = Mapping[str, str]


# --- Parameters


def choice(parameters: Parameters, name: str, known: tuple[str, ...]) -> str:
    value = parameters.get(name, "")
    if value and value not in known:
        raise Refused(400, f"{name}: must be one of {', '.join(known)}")
    return value


def integer(parameters: Parameters, name: str, default: int = 0, low: int = 0, high: int = 1 << 60) -> int:
    value = parameters.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 20 and low <= int(value) <= high):
        limits = f"from {low}" + (f" to {high}" if high < 1 << 60 else "")
        raise Refused(400, f"{name}: must be an integer {limits}")
    return int(value)


def score_limits(parameters: Parameters) -> tuple[float, float]:
    """`min` and `max`, inclusive; infinite where they are not given."""
    limits = []
    for name, default in (("min", -math.inf), ("max", math.inf)):
        try:
            limits.append(float(parameters.get(name, "") or default))
        except ValueError:
            limits.append(math.nan)
        if math.isnan(limits[-1]):
            raise Refused(400, f"{name}: must be a number from 0 to 100")
    return limits[0], limits[1]


def cursor(parameters: Parameters) -> tuple[int, int]:
    """Row of the last instance shown or searched, and its place in the order; (-1, -1) for the first page."""
    value = parameters.get("after", "") or "-1.-1"
    if not re.fullmatch(r"\d{1,15}\.\d{1,15}|-1\.-1", value, re.ASCII):
        raise Refused(400, "after: must be the `next` of the previous page")
    row, place = map(int, value.split("."))
    return row, place


# --- Lists of instances


Read: TypeAlias = Callable[[int, str], "Json | None"]
"""Reads a row by its number; None if it lacks the text that is searched for."""


def page_of(order: Array, reader: AbstractContextManager[Read], parameters: Parameters) -> Json:
    """One page of rows in `order`. Only lines on the page are read; a search for text reads lines until its time is up.

    Raises Refused for an invalid parameter, and if a file changed meanwhile.
    """
    limit, needle = integer(parameters, "limit", ROWS, 1, MAX_ROWS), _needle(parameters)
    first, end = place_after(order, cursor(parameters)), len(order)
    rows: list[Json] = []
    until = time.monotonic() + SCAN_S
    # An OSError: a file was removed, or is not a regular file.
    with suppress(OSError), reader as read:
        for place in range(first, len(order)):
            if (found := read(int(order[place]), needle)) is not None:
                rows.append(found)
            if len(rows) >= limit or (needle and time.monotonic() >= until):
                end = place + 1
                break
    more = end < len(order)
    return {
        "rows": rows,
        # `after` of the next page. Without rows, the search for text goes on there.
        "next": f"{order[end - 1]}.{end - 1}" if more and end else None,
        # None while a search for text has not reached the end
        "total": None if needle and (more or first) else len(rows) if needle else len(order),
    }


def csv_pieces(
    order: Array,
    reader: AbstractContextManager[Read],
    parameters: Parameters,
    keys: Sequence[str],
    cells: Callable[[Json], Json],
) -> Iterator[bytes]:
    """All rows in `order` that have the text, as CSV with the columns `keys`, a piece at a time. Raises Refused."""
    from cts_async.tables.table import csv_of

    needle = _needle(parameters)

    def pieces() -> Iterator[bytes]:
        yield csv_of(keys, ()).encode(errors="replace")
        with reader as read:
            for start in range(0, len(order), CSV_ROWS):
                found = (read(row, needle) for row in order[start : start + CSV_ROWS].tolist())
                rows = [cells(row) for row in found if row is not None]
                yield csv_of(keys, rows, header=False).encode(errors="replace")

    return pieces()


def list_instances(run: OpenRun, parameters: Parameters) -> Json:
    """One page of the instances of a run."""
    lines = run.results.lines()
    scores = _scores(run, lines, _judge(run, parameters))
    page = page_of(_ordered(lines, scores, parameters), _reader(run, lines, scores), parameters)
    return {
        **page,
        "n": len(lines),  # instances of the run, whatever the filter
        "histogram": _histogram(scores),  # of all of them, too
        "judges": list(run.judges()),
        "contradictions": run.contradictions(),
        "ready": run.ready,
    }


def _histogram(scores: Array) -> list[int]:
    """The number of scores in [0, 5), [5, 10), ... [95, 100]."""
    import numpy as np

    counts: list[int] = np.histogram(scores[~np.isnan(scores)], BINS, (0, 100))[0].tolist()
    return counts


def csv_of_instances(run: OpenRun, parameters: Parameters) -> Iterator[bytes]:
    """All instances that pass the filters as CSV, a piece at a time. Raises Refused as `list_instances` does."""
    lines = run.results.lines()
    judge = _judge(run, parameters)
    scores = _scores(run, lines, judge)

    caveats = [caveat for caveat in (run.manifest.caveat, *run.contradictions()) if caveat]

    def cells(row: Json) -> Json:
        return {
            "run": run.place.name,
            **{name: row[name] for name in ("id", "blurred_query", "fused_query", "score")},
            "judge": None if row["score"] is None else judge,
            "n_unknown": None if row["failed"] and not row["asked"] else row["unknown"],
            "n_answers": None if row["failed"] and not row["asked"] else row["asked"],
            "error_kind": row["failed"] or None,
            "caveat": "; ".join(caveats) or None,
        }

    order = _ordered(lines, scores, parameters)
    return csv_pieces(order, _reader(run, lines, scores, None), parameters, CSV_COLUMNS, cells)


@contextmanager
def _reader(
    run: OpenRun, lines: ResultLines, scores: Array, max_chars: int | None = MAX_CHARS
) -> Iterator[Read]:
    with opened(run.results.path) as fd:

        def read(row: int, needle: str) -> Json | None:
            raw = os.pread(fd, int(lines.lengths[row]), int(lines.offsets[row]))
            if needle and not line_has(raw, needle):
                return None
            line = checked_line(raw, int(lines.ids[row]))
            return _instance_row(lines, row, line, float(scores[row]), max_chars)

        yield read


def _needle(parameters: Parameters) -> str:
    text = parameters.get("text", "")
    if len(text) > MAX_TEXT:
        raise Refused(400, f"text: longer than {MAX_TEXT} characters")
    return text


def _judge(run: OpenRun, parameters: Parameters) -> str:
    """The judge whose scores count; "" if there is none."""
    judges = tuple(run.judges())
    return (choice(parameters, "judge", judges) or judges[0]) if judges else ""


def _scores(run: OpenRun, lines: ResultLines, judge: str) -> Array:
    return run.scores(run.judges()[judge], lines) if judge else lines.scores


def _ordered(lines: ResultLines, scores: Array, parameters: Parameters) -> Array:
    """The rows that pass all filters but the text, in order; ties as in the file, rows without a score last."""
    import numpy as np

    fits = np.ones(len(lines), bool)
    if failed := choice(parameters, "failed", ("0", "1")):
        fits &= lines.failed == (failed == "1")
    low, high = score_limits(parameters)
    if (low, high) != (-math.inf, math.inf):
        fits &= (scores >= low) & (scores <= high)
    if unknown := choice(parameters, "unknown", ("none", "some", "all")):
        some, every = lines.unknown > 0, lines.unknown == lines.asked
        fits &= (lines.asked > 0) & {"none": ~some, "some": some, "all": every}[unknown]
    rows = np.flatnonzero(fits)
    sort = choice(parameters, "sort", ("score", "-score", "-unknown"))
    if not sort:
        return rows
    by = {"score": scores[rows], "-score": -scores[rows], "-unknown": -lines.unknown[rows].astype(int)}
    return rows[np.argsort(by[sort], kind="stable")]


def place_after(order: Array, after: tuple[int, int]) -> int:
    """Where the page begins: behind a row, wherever that is by now."""
    import numpy as np

    row, place = after
    found = np.flatnonzero(order == row)
    return int(found[0]) + 1 if len(found) else min(place + 1, len(order))


def checked_line(raw: bytes, hash: int) -> Mapping[str, Any]:
    """A results line of the instance with this `id_hash`. Raises Refused for any other."""
    line = record_in(raw)
    id = instance_name(line) if line else None
    if line is None or id is None or id_hash(id) != hash:
        raise Refused(409, FILE_CHANGED)
    return line


def _instance_row(
    lines: ResultLines, row: int, line: Mapping[str, Any], score: float, max_chars: int | None
) -> Json:
    error = line.get("error")
    failed = ""
    if error is not None and score != score:  # with a score another judge failed, not the one that is shown
        failed = str(error.get("kind") or "failed") if isinstance(error, dict) else "failed"
    return {
        "id": instance_name(line),
        **query_texts(line, max_chars),
        "score": None if score != score else score,
        "asked": int(lines.asked[row]),
        "unknown": int(lines.unknown[row]),
        "turns": int(lines.turns[row]),
        "failed": failed,
    }


def query_texts(line: Mapping[str, Any], max_chars: int | None = MAX_CHARS) -> Json:
    """q and q* of a line, or their beginnings."""
    return {
        "blurred_query": (as_text(line.get("blurred_query")) or "")[:max_chars],
        "fused_query": (as_text(line.get("fused_query")) or as_text(line.get("query")) or "")[:max_chars],
    }


# --- Search for text

_SEARCHED: Final = (
    *("id", "blurred_query", "fused_query", "questions", "answers", "rewritten_query", "answer", "turns"),
    *("error", "query", "further"),
)


_VERBATIM: Final = re.compile(r"[ !#-.0-\[\]-~]+")


def line_has(raw: bytes, text: str) -> bool:
    """Whether a results line has the text in a query, question, answer or failure, ignoring case in any script."""
    # Most lines need no parsing: such characters stand in JSON as they are, unless a line has escapes.
    verbatim = _VERBATIM.fullmatch(text) and raw.isascii() and b"\\u" not in raw
    if verbatim and text.lower().encode() not in raw.lower():
        return False
    line = record_in(raw)
    return line is not None and any(text.lower() in one.lower() for one in searched(line))


def searched(line: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a line that a search looks at."""
    waiting: list[Any] = [line.get(name) for name in reversed(_SEARCHED)]
    while waiting:  # not recursive: JSON of unknown origin may be nested deeply
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())
