"""A results file of many lines as columns of numbers."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from cts_async.protocol.results import HASHES, Mark, failed, latest_rows, placed_results, unmarked
from cts_async.records import UNKNOWN

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# --- scores
#
# Scores of very many instances in little memory: 16 bytes each, ids by their hashes.


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """`restore_score_100` by instance, in the order of the results; each instance once.

    `ids` are hashes, good within this process only (int64); `values` stand beside them (float64).
    """

    ids: Array
    values: Array

    @classmethod
    def of(cls, scores: Mapping[str, float]) -> Scores:
        """Scores by id, as a table that is written by hand has them."""
        import numpy as np

        ids = array(HASHES, map(hash, scores))
        return cls(np.array(ids, np.int64), np.array(list(scores.values()), float))

    def __len__(self) -> int:
        return len(self.values)

    def get(self, id: str) -> float | None:
        """The instance's score; None where it has none."""
        found = self.values[self.ids == hash(id)]
        return float(found[0]) if len(found) else None

    def numbers(self) -> Iterator[float]:
        """The scores in ascending order; equal ones are one object, since a million have few different."""
        import numpy as np

        latest: float | None = None
        for value in np.sort(self.values).data:
            if value != latest:
                latest = value
            yield latest

    def paired(self, other: Scores) -> tuple[Array, Array]:
        """Both scores of every instance that has both, in this one's order."""
        import numpy as np

        _, here, there = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        order = np.argsort(here)
        return self.values[here[order]], other.values[there[order]]


# --- tool_health
#
# Tool health: which share of a run's searches and visits worked, and where and why the others did not.
#
# Scores fall with it, so it stands beside them. It is read from the lines that count in `results.jsonl`. Hosts and
# reasons are untrusted text, from web pages and servers: they are bounded here, and escaped where they are shown.

TOOLS: Final = {"search": "searches", "visit": "visits"}
"""A tool and the word for what it was asked."""
MOST: Final = 20
"""Hosts and reasons that are told, the most frequent ones."""
MOST_SAID: Final = 3
_TEXT_CHARS: Final = 80

Cause = tuple[str, str, str]
"""Tool, host, reason."""


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """Queries and pages asked for, and those that failed, by cause.

    `lexical` are pages that no model could read for their goal.
    """

    asked: Mapping[str, int] = field(default_factory=dict)
    """By tool."""
    failed: Counter[Cause] = field(default_factory=Counter)
    lexical: int = 0

    def n_failed(self, tool: str) -> int:
        return sum(n for (of, _, _), n in self.failed.items() if of == tool)

    def share(self, tool: str) -> float | None:
        """The share of what was asked that worked; None where nothing was."""
        asked = self.asked.get(tool, 0)
        return 1 - self.n_failed(tool) / asked if asked else None

    def as_json(self) -> dict[str, Any]:
        """`searches` and `visits` with their shares, then the most frequent causes; `other` counts the rest."""
        told = ranked(self.failed)[:MOST]
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
                {"tool": tool, "host": host, "reason": reason, "n": n} for (tool, host, reason), n in told
            ],
            "other_failures": self.failed.total() - sum(n for _, n in told),
        }

    def lines(self) -> list[str]:
        """One line for each tool that failed at all: "visits worked: 87 % (http 404 at example.org 12, ...)"."""
        said = []
        for tool, word in TOOLS.items():
            share = self.share(tool)
            if share is None or share == 1:
                continue
            causes = Counter({cause: n for cause, n in self.failed.items() if cause[0] == tool})
            told = ranked(causes)[:MOST_SAID]
            parts = [f"{reason} at {host} {n}" if host else f"{reason} {n}" for (_, host, reason), n in told]
            rest = causes.total() - sum(n for _, n in told)
            parts += [f"others {rest}"] if rest else []
            said.append(f"{word} worked: {_percent(share)} % ({', '.join(parts)})")
        return said


def _percent(share: float) -> str:
    """Never 100 where something failed, nor 0 where something worked."""
    return f"{min(99.0, max(1.0, share * 100)) if share else 0:.0f}"


class HealthColumns:
    """The health of many lines, by row, so that lines that were superseded can be left out again.

    Rows without tools take no memory, and causes are kept once.
    """

    def __init__(self) -> None:
        self._asked: dict[str, tuple[array[int], array[int]]] = {
            name: (array("q"), array("q")) for name in (*TOOLS, "lexical")
        }
        self._rows, self._causes, self._counts = array("q"), array("q"), array("q")
        self._known: dict[Cause, int] = {}

    def add(self, row: int, line: Mapping[str, Any]) -> None:
        """Take in what the results line number `row` says; a line that says nothing, or nonsense, counts nothing."""
        search = line.get("search")
        tools = search.get("tools") if isinstance(search, Mapping) else None
        if not isinstance(tools, Mapping):
            return
        for name, word in (*TOOLS.items(), ("lexical", "lexical")):
            if isinstance(n := tools.get(word), int) and n > 0:
                rows, counts = self._asked[name]
                rows.append(row)
                counts.append(n)
        failed = tools.get("failed")
        for failure in failed if isinstance(failed, list) else ():
            if not isinstance(failure, Mapping) or not isinstance(n := failure.get("n", 1), int):
                continue
            cause = tuple(_bounded(failure.get(part)) for part in ("tool", "host", "reason"))
            self._rows.append(row)
            self._causes.append(self._known.setdefault(cause, len(self._known)))  # type: ignore[arg-type]
            self._counts.append(n)

    def of(self, rows: np.ndarray[Any, Any]) -> ToolHealth:
        """The health of those rows together."""
        import numpy as np

        def kept(own: array[int], values: array[int]) -> list[int]:
            if not own:
                return []
            chosen: list[int] = np.asarray(values)[np.isin(np.asarray(own), rows)].tolist()
            return chosen

        asked = {name: sum(kept(*columns)) for name, columns in self._asked.items()}
        causes = list(self._known)
        failed: Counter[Cause] = Counter()
        numbers = zip(kept(self._rows, self._causes), kept(self._rows, self._counts), strict=True)
        for number, n in numbers:
            failed[causes[number]] += n
        lexical = asked.pop("lexical")
        return ToolHealth(asked, failed, lexical)


def _bounded(value: object) -> str:
    return " ".join(str(value or "").split())[:_TEXT_CHARS]


# --- result_columns
#
# A results file of very many lines as columns of numbers: what summaries are computed from.

_NO_SCORE: Final = float("nan")
_READ: Final = ("judge", "answers", "restore_score_100", "error")


class ResultColumns:
    """The lines that count of a results file, in columns: 21 bytes a line, however long the lines are.

    By `mark` it is held which answers verdicts are about (see `LatestLines`), in 8 bytes more unless `unmarked`.
    """

    def __init__(self, path: Path, mark: Mark) -> None:
        import numpy as np

        self.path = path
        self.judge: str | None = None
        """The first judge that a line names."""
        ids, scores, asked, unknown = array(HASHES), array("d"), array("H"), array("H")
        marks = array("q")
        health = HealthColumns()
        failures, failed_at = array("q"), array("q")  # numbers of failed lines, and where they begin
        for offset, line in placed_results(path, _READ):
            self.judge = self.judge or line.get("judge")
            answers = line.get("answers") or ()
            score = line.get("restore_score_100")
            if failed(line):
                failures.append(len(ids))
                failed_at.append(offset)
            health.add(len(ids), line)
            ids.append(hash(line["id"]))
            if mark is not unmarked:
                marks.append(mark(line))
            scores.append(_NO_SCORE if score is None else score)
            asked.append(len(answers))
            unknown.append(answers.count(UNKNOWN))
        rows = latest_rows(ids)
        self.tools = health.of(rows)
        self.failed: Array = np.isin(rows, _array(failures))
        counting = np.isin(_array(failures), rows)
        self.failures: Array = _array(failed_at)[counting]
        """Where the failures that count begin, in the order of the file."""
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
        """Where the failures of those rows (a mask) begin, in the order of the file."""
        import numpy as np

        found: Array = self.failures[np.isin(self._failed_ids, self.ids[rows & self.failed])]
        return found

    def answered_in(self, results: ResultColumns) -> Array:
        """Which of these verdicts (a mask) are on answers in `results`: the very ones, as far as they say so."""
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
        """Of all answers of the User Answerer, those that are `unknown`; None where nothing was asked."""
        answers = self.asked[~self.failed].sum(dtype=int)
        return float(self.unknown[~self.failed].sum(dtype=int) / answers) if answers else None

    @property
    def all_unknown_rate(self) -> float | None:
        """Of all instances that were asked something, those where nothing but `unknown` came back."""
        replied = ~self.failed & (self.asked > 0)
        return float((self.unknown == self.asked)[replied].mean()) if replied.any() else None

    def scores_of(self, rows: Array) -> Scores:
        """The scores in those rows (a mask) that have one."""
        scored = rows & ~self.failed & (self.scores == self.scores)  # NaN is no score
        if scored.all():
            return Scores(self.ids, self.scores)
        return Scores(self.ids[scored], self.scores[scored])


def _array(column: array[Any]) -> Array:
    """The column as numpy sees it; nothing is copied."""
    import numpy as np

    return np.frombuffer(column, column.typecode) if column else np.empty(0, column.typecode)


# --- ranked
#
# Counts as they are shown: the largest first, and equal ones by name, whatever was counted first.

Named = TypeVar("Named", str, tuple[str, str], tuple[str, str, str])


def ranked(counts: Mapping[Named, int]) -> list[tuple[Named, int]]:
    """What was counted, with how often; [] for nothing."""
    return sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
