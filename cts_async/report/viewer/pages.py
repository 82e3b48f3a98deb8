"""The JSON answers of the interface (`api_types`): parameters are checked here, and lists of instances made."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from cts_async import __version__
from cts_async.report.viewer.api_types import (
    InstanceList,
    InstancePage,
    InstanceRow,
    RunPage,
    Runs,
    StepList,
    TracePage,
)
from cts_async.report.viewer.files import opened, printable, record_in
from cts_async.report.viewer.guard import CHANGED, NO_RUN, Refused
from cts_async.report.viewer.index import Lines, id_hash, name_of
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.run import OpenRun

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    from cts_async.report.viewer.instance import Inside

MAX_ROWS: Final = 200
ROWS: Final = 50
MAX_TEXT: Final = 1000
Sort = Literal["", "score", "-score", "-unknown"]
Unknown = Literal["", "none", "some", "all"]
SORTS: Final[tuple[Sort, ...]] = ("", "score", "-score", "-unknown")
UNKNOWNS: Final[tuple[Unknown, ...]] = ("", "none", "some", "all")

Asked = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """Which instances of a run, in which order, after which one."""

    judge: str = ""
    sort: Sort = ""
    least: float | None = None
    most: float | None = None
    unknown: Unknown = ""
    failed: bool | None = None
    text: str = ""
    after: tuple[int, int] | None = None
    """The row of the last one shown, or looked at, and its place in the order."""
    limit: int = ROWS


def instance_query(asked: Asked) -> InstanceQuery:
    """Raises Refused."""
    failed = choice(asked, "failed", ("", "0", "1"))
    text = asked.get("text", "")
    if len(text) > MAX_TEXT:
        raise Refused(400, f"text: longer than {MAX_TEXT} characters")
    return InstanceQuery(
        judge=asked.get("judge", ""),
        sort=cast("Sort", choice(asked, "sort", SORTS)),
        least=_score(asked, "min"),
        most=_score(asked, "max"),
        unknown=cast("Unknown", choice(asked, "unknown", UNKNOWNS)),
        failed=None if not failed else failed == "1",
        text=text,
        after=_cursor(asked.get("after", "")),
        limit=whole(asked, "limit", ROWS, 1, MAX_ROWS),
    )


def choice(asked: Asked, name: str, known: tuple[str, ...]) -> str:
    """One of the known words. Raises Refused."""
    value = asked.get(name, "")
    if value not in known:
        raise Refused(400, f"{name}: is one of {', '.join(filter(None, known))}")
    return value


def whole(asked: Asked, name: str, usual: int, least: int = 0, most: int = 1 << 60) -> int:
    """A whole number, `usual` where none is given. Raises Refused."""
    value = asked.get(name, "")
    if not value:
        return usual
    if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
        raise Refused(
            400, f"{name}: is a whole number from {least}" + (f" to {most}" if most < 1 << 60 else "")
        )
    return int(value)


def _score(asked: Asked, name: str) -> float | None:
    value = asked.get(name, "")
    if not value:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Refused(400, f"{name}: is a number from 0 to 100")
    return number


def _cursor(value: str) -> tuple[int, int] | None:
    if not value:
        return None
    row, _, place = value.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (row, place)):
        raise Refused(400, "after: is what the page before said under next")
    return int(row), int(place)


_SEARCHED: Final = (
    *("id", "blurred_query", "fused_query", "questions", "answers", "rewritten_query", "answer", "turns"),
    *("error", "query"),
)
_ODD: Final = (b"\\u", "\u212a".encode(), "\u0130".encode())
"""Letters that are written as escapes, and the two other ones that turn into ASCII in lower case."""


class Needle:
    """What is looked for. `in_line` tells whether a line has it, anywhere in what was asked, answered or failed."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._piece = _certain(self._text).encode(errors="surrogatepass")

    def in_line(self, raw: bytes) -> bool:
        """Whether a results line has the text."""
        folded = raw.lower()
        if self._piece not in folded and not any(mark in folded or mark in raw for mark in _ODD):
            return False
        line = record_in(raw)
        return line is not None and any(self._text in text.lower() for text in searched(line))


def searched(line: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a line that a search goes through."""
    waiting: list[Any] = [line.get(name) for name in reversed(_SEARCHED)]
    while waiting:  # no recursion: anybody's JSON may be as deep as he likes
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())


def _certain(text: str) -> str:
    """The longest piece of it that stands in JSON as it is, where nothing is escaped, once ASCII is in lower case."""
    pieces = [""]
    for character in text:
        if _plain(character):
            pieces[-1] += character
        else:
            pieces.append("")
    return max(pieces, key=len)


def _plain(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and character not in '"\\/'
    return character.lower() == character.upper() and not character.isspace()


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


MAX_PART: Final = 6_000
FIRST_S: Final = 0.1
"""So long a request indexes a run itself before it answers with what is known."""


class Answers:
    """Everything that is answered from files. Methods raise Refused."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known_inside: Inside | None = None
        self._loading = threading.Lock()

    def by_name(self) -> Mapping[str, Callable[[dict[str, str]], Any]]:
        """Each answer in JSON by the last part of its address."""
        return {
            "runs": self.runs,
            "run": self.run,
            "instances": self.instances,
            "instance": self.instance,
            "trace": self.trace,
            "steps": self.steps,
            "step": self.step,
        }

    def runs(self, asked: Asked) -> Runs:
        rows = self._library.rows()
        folder = printable(str(self._library.root))
        return {"folder": folder, "version": __version__, "runs": rows, "damaged": self._library.damaged()}

    def run(self, asked: Asked) -> RunPage:
        run = self._opened(asked)
        row = self._library.row(run.place.name)
        if row is None:
            raise Refused(404, NO_RUN)
        return {
            "row": row,
            "manifest": dict(run.about.manifest),
            "summary": run.summary(),
            "beside": self._beside(run),
        }

    def instances(self, asked: Asked) -> InstanceList:
        return list_instances(self._opened(asked), instance_query(asked))

    def instance(self, asked: Asked) -> InstancePage:
        run = self._opened(asked)
        return self._inside().instance(run, asked.get("id", ""), self._beside(run))

    def trace(self, asked: Asked) -> TracePage:
        return self._inside().trace(self._opened(asked), asked.get("id", ""), whole(asked, "after", 0))

    def steps(self, asked: Asked) -> StepList:
        return self._inside().steps(self._opened(asked), asked.get("id", ""), whole(asked, "after", 0))

    def step(self, asked: Asked) -> bytes:
        return self._inside().step(self._opened(asked), whole(asked, "at", 0))

    def text(self, asked: Asked) -> str:
        """A long text, whole."""
        part = asked.get("part", "")
        if len(part) > MAX_PART:
            raise Refused(400, f"part: longer than {MAX_PART} characters")
        return self._inside().text(self._opened(asked), whole(asked, "at", 0), part)

    def read_on(self, asked: Asked) -> bool:
        """Read a little further in a run's files; whether there is more to come."""
        return self._opened(asked).advance(FIRST_S)

    def download(self, asked: Asked) -> tuple[str, Iterator[bytes]]:
        """A name for a file, and the lines of an instance."""
        return self._inside().download(self._opened(asked), asked.get("id", ""))

    def prepare(self, run: OpenRun) -> None:
        """Load what an instance's page will need."""
        self._inside().prepare(run)

    def _inside(self) -> Inside:
        with self._loading:
            if self._known_inside is None:
                # Roles, agent and datasets come with it: the list of instances is there before.
                from cts_async.report.viewer.instance import Inside

                self._known_inside = Inside()
            return self._known_inside

    def _opened(self, asked: Asked) -> OpenRun:
        run = self._library.open(asked.get("run", ""))
        if run is None:
            raise Refused(404, NO_RUN)
        run.looked_into = True
        run.advance(FIRST_S)
        return run

    def _beside(self, run: OpenRun) -> list[str]:
        over = self._library.over(self._library.data_sha(run.about))
        return [place.name for place, _ in over if place.name != run.place.name]
