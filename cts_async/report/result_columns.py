"""A results file of many lines as columns of numbers."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from cts_async.protocol.results import HASHES, Mark, failed, latest_rows, placed_results, unmarked
from cts_async.records import UNKNOWN

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """`restore_score_100` by instance, in the order of the results; each instance once. 16 bytes a score.

    `ids` are hashes (int64), valid within this process only; `values` are float64.
    """

    ids: Array
    values: Array

    @classmethod
    def of(cls, scores: Mapping[str, float]) -> Scores:
        """Build from scores by id."""
        import numpy as np

        ids = array(HASHES, map(hash, scores))
        return cls(np.array(ids, np.int64), np.array(list(scores.values()), float))

    def __len__(self) -> int:
        return len(self.values)

    def get(self, id: str) -> float | None:
        """Return the instance's score, or None."""
        found = self.values[self.ids == hash(id)]
        return float(found[0]) if len(found) else None

    def numbers(self) -> Iterator[float]:
        """Yield the scores in ascending order; equal ones share one object, since a million scores have few values."""
        import numpy as np

        latest: float | None = None
        for value in np.sort(self.values).data:
            if value != latest:
                latest = value
            yield latest

    def paired(self, other: Scores) -> tuple[Array, Array]:
        """Return both scores of every instance that has both, in the order of this one."""
        import numpy as np

        _, here, there = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        order = np.argsort(here)
        return self.values[here[order]], other.values[there[order]]


# Tool health: which share of a run's searches and visits worked, and where and why the others failed. Scores fall with
# it, so it is shown beside them. It is read from the lines that count in results.jsonl. Hosts and reasons are untrusted
# text, from web pages and servers: they are bounded here, and escaped where they are printed.

TOOLS: Final = {"search": "searches", "visit": "visits"}
"""Tools, and what they are asked for."""
MOST: Final = 20
"""Causes that are listed, the most frequent first."""
MOST_PRINTED: Final = 3
_TEXT_CHARS: Final = 80

Cause = tuple[str, str, str]
"""Tool, host, reason."""


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """Queries and pages asked for, and failures by cause.

    `lexical` counts pages that no model could read, so that passages were chosen by their words.
    """

    asked: Mapping[str, int] = field(default_factory=dict)
    """By tool."""
    failed: Counter[Cause] = field(default_factory=Counter)
    lexical: int = 0

    @classmethod
    def total(cls, parts: Iterable[ToolHealth]) -> ToolHealth:
        """Sum the tool health of several lines."""
        asked, failed, lexical = dict.fromkeys(TOOLS, 0), Counter[Cause](), 0
        for part in parts:
            for tool, n in part.asked.items():
                asked[tool] += n
            failed.update(part.failed)
            lexical += part.lexical
        return cls(asked, failed, lexical)

    def n_failed(self, tool: str) -> int:
        return sum(n for (of, _, _), n in self.failed.items() if of == tool)

    def share(self, tool: str) -> float | None:
        """Share of requests that worked; None without requests."""
        asked = self.asked.get(tool, 0)
        return 1 - self.n_failed(tool) / asked if asked else None

    def as_json(self) -> dict[str, Any]:
        """Return `searches` and `visits` with their shares, then the most frequent causes; `other` counts the rest."""
        shown = ranked(self.failed)[:MOST]
        return {
            **{
                word: {
                    "asked": self.asked.get(tool, 0),
                    "failed": self.n_failed(tool),
                    "worked": self.share(tool),
                }
                for tool, word in TOOLS.items()
            },
            "read_lexically": self.lexical,
            "failures": [
                {"tool": tool, "host": host, "reason": reason, "n": n} for (tool, host, reason), n in shown
            ],
            "other_failures": self.failed.total() - sum(n for _, n in shown),
        }

    def lines(self) -> list[str]:
        """Return a line for each tool with failures: "visits worked: 87 % (http 404 at example.org 12, ...)"."""
        lines = []
        for tool, word in TOOLS.items():
            share = self.share(tool)
            if share is None or share == 1:
                continue
            causes = Counter({cause: n for cause, n in self.failed.items() if cause[0] == tool})
            shown = ranked(causes)[:MOST_PRINTED]
            parts = [f"{reason} at {host} {n}" if host else f"{reason} {n}" for (_, host, reason), n in shown]
            rest = causes.total() - sum(n for _, n in shown)
            parts += [f"others {rest}"] if rest else []
            lines.append(f"{word} worked: {_percent(share)} % ({', '.join(parts)})")
        return lines


def _percent(share: float) -> str:
    """Format a share: never 100 if something failed, nor 0 if something worked."""
    return f"{min(99.0, max(1.0, share * 100)) if share else 0:.0f}"


def tool_health_of(line: Mapping[str, Any]) -> ToolHealth | None:
    """Return the tool health of one results line; None without tools. Malformed counts and causes are ignored."""
    search = line.get("search")
    tools = search.get("tools") if isinstance(search, Mapping) else None
    if not isinstance(tools, Mapping):
        return None
    counts = {
        name: n
        for name, word in (*TOOLS.items(), ("lexical", "lexical"))
        if isinstance(n := tools.get(word), int) and n > 0
    }
    failures: Counter[Cause] = Counter()
    failed = tools.get("failed")
    for failure in failed if isinstance(failed, list) else ():
        if isinstance(failure, Mapping) and isinstance(n := failure.get("n", 1), int):
            tool, host, reason = (_bounded(failure.get(part)) for part in ("tool", "host", "reason"))
            failures[tool, host, reason] += n
    return ToolHealth(counts, failures, counts.pop("lexical", 0))


def _bounded(value: object) -> str:
    return " ".join(str(value or "").split())[:_TEXT_CHARS]


_NO_SCORE: Final = float("nan")
_READ: Final = ("judge", "answers", "restore_score_100", "error")


class ResultColumns:
    """The lines that count of a results file, in columns: 21 bytes a line, however long the lines are.

    `mark` identifies the answer that a verdict is about (see `LatestLines`), in 8 bytes more unless `unmarked`.
    """

    def __init__(self, path: Path, mark: Mark) -> None:
        import numpy as np

        self.path = path
        self.judge: str | None = None
        """The first judge named by a line."""
        ids, scores, asked, unknown = array(HASHES), array("d"), array("H"), array("H")
        marks = array("q")
        tools: dict[int, ToolHealth] = {}  # by row; candidates have none
        failures, failed_at = array("q"), array("q")  # numbers of failed lines, and their offsets
        for offset, line in placed_results(path, _READ):
            self.judge = self.judge or line.get("judge")
            answers = line.get("answers") or ()
            score = line.get("restore_score_100")
            if failed(line):
                failures.append(len(ids))
                failed_at.append(offset)
            if health := tool_health_of(line):
                tools[len(ids)] = health
            ids.append(hash(line["id"]))
            if mark is not unmarked:
                marks.append(mark(line))
            scores.append(_NO_SCORE if score is None else score)
            asked.append(len(answers))
            unknown.append(answers.count(UNKNOWN))
        rows = latest_rows(ids)
        # With an empty list, which is one of floats, `isin` would copy and sort all rows.
        counted = np.isin(np.fromiter(tools, np.int64), rows)
        self.tools = ToolHealth.total(compress(tools.values(), counted))
        self.failed: Array = np.isin(rows, _array(failures))
        counting = np.isin(_array(failures), rows)
        self.failures: Array = _array(failed_at)[counting]
        """Offsets of the failures that count, in the order of the file."""
        self._failed_ids = _array(ids)[_array(failures)[counting].astype(int)]
        self.ids, self.scores, self.asked, self.unknown, self._marks = (
            _array(column) if len(rows) == len(ids) or not column else _array(column)[rows]
            for column in (ids, scores, asked, unknown, marks)
        )

    @property
    def n(self) -> int:
        return len(self.ids)

    @property
    def n_failed(self) -> int:
        return int(self.failed.sum())

    def failures_in(self, rows: Array) -> Array:
        """Return the offsets of the failures in those rows (a mask), in the order of the file."""
        import numpy as np

        found: Array = self.failures[np.isin(self._failed_ids, self.ids[rows & self.failed])]
        return found

    def answered_in(self, results: ResultColumns) -> Array:
        """Return which of these verdicts (a mask) are about the answers in `results`, as far as they say so."""
        import numpy as np

        if not results.n:
            return np.zeros(self.n, bool)
        order = np.argsort(results.ids)
        places = np.minimum(np.searchsorted(results.ids[order], self.ids), results.n - 1)
        rows = order[places]
        found: Array = results.ids[rows] == self.ids
        if len(self._marks) and len(results._marks):
            recorded = results._marks[rows]
            found &= (self._marks == recorded) | (self._marks == 0) | (recorded == 0)
        return found

    @property
    def unknown_rate(self) -> float | None:
        """Fraction of the User Answerer's answers that are `unknown`; None without questions."""
        answers = self.asked[~self.failed].sum(dtype=int)
        return float(self.unknown[~self.failed].sum(dtype=int) / answers) if answers else None

    @property
    def all_unknown_rate(self) -> float | None:
        """Fraction of the instances with questions whose answers are all `unknown`; None without questions."""
        replied = ~self.failed & (self.asked > 0)
        return float((self.unknown == self.asked)[replied].mean()) if replied.any() else None

    def scores_of(self, rows: Array) -> Scores:
        """Return the scores in those rows (a mask) that have one."""
        scored = rows & ~self.failed & (self.scores == self.scores)  # NaN is no score
        if scored.all():
            return Scores(self.ids, self.scores)
        return Scores(self.ids[scored], self.scores[scored])


def _array(column: array[Any]) -> Array:
    """View the column as a numpy array, without a copy."""
    import numpy as np

    return np.frombuffer(column, column.typecode) if column else np.empty(0, column.typecode)


Counted = TypeVar("Counted", str, tuple[str, str], tuple[str, str, str])


def ranked(counts: Mapping[Counted, int]) -> list[tuple[Counted, int]]:
    """Sort counts: the largest first, equal ones by name."""
    return sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
