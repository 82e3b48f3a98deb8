"""A results file of very many lines as columns of numbers: what summaries are computed from."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.protocol.results import HASHES, Mark, failed, latest_rows, placed_results, unmarked
from cts_async.records import UNKNOWN
from cts_async.report.scores import Scores
from cts_async.report.tool_health import HealthColumns

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

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
