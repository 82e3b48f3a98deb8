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
    "run",
    "id",
    "blurred_query",
    "fused_query",
    "judge",
    "score",
    "n_unknown",
    "n_answers",
    "error_kind",
    "caveat",
)
SCAN_S: Final = 0.18
"""How long one request searches for text."""
NO_LIMIT: Final = 1 << 60
"""Above every offset and number, and within 64 bits."""
Parameters = Mapping[str, str]


# --- Parameters


def choice(parameters: Parameters, name: str, choices: tuple[str, ...]) -> str:
    value = parameters.get(name, "")
    if value and value not in choices:
        raise Refused(400, f"{name}: must be one of {', '.join(choices)}")
    return value


def integer(parameters: Parameters, name: str, default: int = 0, low: int = 0, high: int = NO_LIMIT) -> int:
    value = parameters.get(name, "")
    if not value:
        return default
    # Its length first: int() of a long text takes time, and refuses more than 4,300 digits with another error.
    is_number = value.isascii() and value.isdigit() and len(value) < 20
    if not is_number or not low <= int(value) <= high:
        limits = f"from {low}"
        if high < NO_LIMIT:
            limits += f" to {high}"
        raise Refused(400, f"{name}: must be an integer {limits}")
    return int(value)


def score_limits(parameters: Parameters) -> tuple[float, float]:
    """`min` and `max`, inclusive; infinite where they are not given."""
    return _score_limit(parameters, "min", -math.inf), _score_limit(parameters, "max", math.inf)


def _score_limit(parameters: Parameters, name: str, default: float) -> float:
    try:
        limit = float(parameters.get(name, "") or default)
    except ValueError:
        limit = math.nan
    # Also for "nan", which float() reads: every comparison with it is false.
    if math.isnan(limit):
        raise Refused(400, f"{name}: must be a number from 0 to 100")
    return limit


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
    limit = integer(parameters, "limit", ROWS, 1, MAX_ROWS)
    needle = _needle(parameters)
    start, end = place_after(order, cursor(parameters)), len(order)
    rows: list[Json] = []
    until = time.monotonic() + SCAN_S
    # An OSError: a file was removed, or is not a regular file.
    with suppress(OSError), reader as read:
        for place in range(start, len(order)):
            row = read(int(order[place]), needle)
            if row is not None:
                rows.append(row)
            out_of_time = bool(needle) and time.monotonic() >= until
            if len(rows) >= limit or out_of_time:
                end = place + 1
                break
    # `after` of the next page. Without rows, the search for text goes on there.
    following: str | None = None
    if 0 < end < len(order):
        following = f"{order[end - 1]}.{end - 1}"
    total: int | None = len(order)
    if needle:
        # How many have the text is known only if this page has searched all of them.
        total = None
        if start == 0 and end >= len(order):
            total = len(rows)
    return {"rows": rows, "next": following, "total": total}


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
                lines: list[Json] = []
                for number in order[start : start + CSV_ROWS].tolist():
                    row = read(number, needle)
                    if row is not None:
                        lines.append(cells(row))
                yield csv_of(keys, lines, header=False).encode(errors="replace")

    return pieces()


def list_instances(run: OpenRun, parameters: Parameters) -> Json:
    """One page of the instances of a run."""
    lines = run.results.lines()
    scores = _scores(run, lines, _judge(run, parameters))
    page = page_of(_ordered(lines, scores, parameters), _reader(run, lines, scores), parameters)
    # Both are of all instances of the run, whatever the filter.
    page["n"] = len(lines)
    page["histogram"] = _histogram(scores)
    page["judges"] = list(run.judges())
    page["contradictions"] = run.contradictions()
    page["ready"] = run.ready
    return page


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

    remarks = run.contradictions()
    if run.manifest.caveat:
        remarks = [run.manifest.caveat] + remarks
    # The rows have the data's queries.
    if run.manifest.restriction:
        remarks = [run.manifest.restriction] + remarks

    def cells(row: Json) -> Json:
        line: Json = {"run": run.place.name, "error_kind": row["failed"] or None}
        for name in ("id", "blurred_query", "fused_query", "score"):
            line[name] = row[name]
        if row["score"] is not None:
            line["judge"] = judge
        # What failed before anything was asked has no answers, which is not 0 of them.
        if row["asked"] or not row["failed"]:
            line["n_unknown"] = row["unknown"]
            line["n_answers"] = row["asked"]
        line["caveat"] = "; ".join(remarks) or None
        return line

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
    if not judges:
        return ""
    return choice(parameters, "judge", judges) or judges[0]


def _scores(run: OpenRun, lines: ResultLines, judge: str) -> Array:
    if not judge:
        return lines.scores
    return run.scores(run.judges()[judge], lines)


def _ordered(lines: ResultLines, scores: Array, parameters: Parameters) -> Array:
    """The rows that pass all filters but the text, in order; ties as in the file, rows without a score last."""
    import numpy as np

    fits = np.ones(len(lines), bool)
    failed = choice(parameters, "failed", ("0", "1"))
    if failed:
        fits &= lines.failed == (failed == "1")
    low, high = score_limits(parameters)
    # Without limits instances without a score pass, too: NaN is within no limits.
    if (low, high) != (-math.inf, math.inf):
        fits &= (scores >= low) & (scores <= high)
    unknown = choice(parameters, "unknown", ("none", "some", "all"))
    if unknown:
        # Where nobody asked, neither none nor all of the answers are unknown.
        fits &= lines.asked > 0
    match unknown:
        case "none":
            fits &= lines.unknown == 0
        case "some":
            fits &= lines.unknown > 0
        case "all":
            fits &= lines.unknown == lines.asked
    rows = np.flatnonzero(fits)
    match choice(parameters, "sort", ("score", "-score", "-unknown")):
        case "score":
            keys = scores[rows]
        case "-score":
            # Negative, not reversed: NaN stays last.
            keys = -scores[rows]
        case "-unknown":
            # Counts are unsigned: without a wider type their negatives would be large numbers.
            keys = -lines.unknown[rows].astype(int)
        case _:
            return rows
    return rows[np.argsort(keys, kind="stable")]


def place_after(order: Array, after: tuple[int, int]) -> int:
    """Where the page begins: behind a row, wherever that is by now."""
    import numpy as np

    row, place = after
    places = np.flatnonzero(order == row)
    if len(places):
        return int(places[0]) + 1
    # A row that was judged or filtered away meanwhile.
    return min(place + 1, len(order))


def checked_line(raw: bytes, hash: int) -> Mapping[str, Any]:
    """A results line of the instance with this `id_hash`. Raises Refused for any other."""
    line = record_in(raw)
    if line is not None:
        id = instance_name(line)
        if id is not None and id_hash(id) == hash:
            return line
    raise Refused(409, FILE_CHANGED)


def _instance_row(
    lines: ResultLines, row: int, line: Mapping[str, Any], score: float, max_chars: int | None
) -> Json:
    cells: Json = {"id": instance_name(line)}
    cells |= query_texts(line, max_chars)
    cells["asked"] = int(lines.asked[row])
    cells["unknown"] = int(lines.unknown[row])
    cells["turns"] = int(lines.turns[row])
    cells["score"] = score
    cells["failed"] = ""
    if math.isnan(score):
        # NaN has no JSON.
        cells["score"] = None
        # With a score another judge failed, not the one that is shown.
        cells["failed"] = _failure_kind(line)
    return cells


def _failure_kind(line: Mapping[str, Any]) -> str:
    """The kind of the line's error; "" without one."""
    error = line.get("error")
    if error is None:
        return ""
    if isinstance(error, dict) and error.get("kind"):
        return str(error["kind"])
    return "failed"


def query_texts(line: Mapping[str, Any], max_chars: int | None = MAX_CHARS) -> Json:
    """q and q* of a line, or their beginnings."""
    query = as_text(line.get("blurred_query")) or ""
    intent = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
    return {"blurred_query": query[:max_chars], "fused_query": intent[:max_chars]}


# --- Search for text

_SEARCHED: Final = (
    "id",
    "blurred_query",
    "fused_query",
    "questions",
    "answers",
    "rewritten_query",
    "answer",
    "turns",
    "error",
    "query",
    "further",
)
"""The fields of a line that are searched, in this order."""
_VERBATIM: Final = re.compile(r"[ !#-.0-\[\]-~]+")
"""ASCII that no writer of JSON escapes: without quotation mark, slash and backslash."""


def line_has(raw: bytes, text: str) -> bool:
    """Whether a results line has the text in a query, question, answer or failure, ignoring case in any script."""
    # Most lines need no parsing: such characters stand in JSON as they are, unless a line has escapes.
    verbatim = _VERBATIM.fullmatch(text) and raw.isascii() and b"\\u" not in raw
    if verbatim and text.lower().encode() not in raw.lower():
        return False
    line = record_in(raw)
    if line is None:
        return False
    return any(text.lower() in searched_text.lower() for searched_text in searched_texts(line))


def searched_texts(line: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a line that a search looks at."""
    waiting: list[Any] = [line.get(name) for name in reversed(_SEARCHED)]
    # Not recursive: JSON of unknown origin may be nested deeply.
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())
