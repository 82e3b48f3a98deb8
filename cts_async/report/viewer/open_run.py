"""A run's files, indexed as far as anybody has come: results first, then further judges, then the journal."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.engine.torn_tail import MAX_LINE
from cts_async.protocol.results import judged_mark, unmarked
from cts_async.protocol.run_files import PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.report.viewer.about import About
from cts_async.report.viewer.files import NO_FILE, line_at, opened, read_object, record_in, stat_of
from cts_async.report.viewer.folder import Place, verdict_files
from cts_async.report.viewer.journal_index import JournalIndex
from cts_async.report.viewer.results_index import Lines, ResultsIndex, name_of
from cts_async.report.viewer.tail import Tail
from cts_async.report.viewer.values import can_be_shown, printable

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

UNNAMED: Final = "unnamed"
MAX_JUDGES: Final = 32


class OpenRun:
    """Indices of one run. `advance` may be called by any thread; what is read meanwhile is what is known by then."""

    def __init__(self, place: Place, about: About, journal: Path | None) -> None:
        self.place, self.about = place, about
        directory = place.path
        candidates = about.changeable or stat_of(directory / PER_ITEM) != NO_FILE
        judged = candidates and stat_of(directory / RESULTS) == NO_FILE
        self._mark = judged_mark if judged else unmarked
        self.results = ResultsIndex(directory / (PER_ITEM if judged else RESULTS), self._mark)
        self.verdicts: dict[str, ResultsIndex] = {}
        """Further judges' files, by name."""
        self.journal = None if journal is None else JournalIndex(journal)
        self.looked_into = False
        """Whether somebody has looked at an instance: only then are its journal and its gold indexed."""
        self.prepared = False
        """Whether its gold was looked for."""
        self._advancing = threading.Lock()

    @property
    def nbytes(self) -> int:
        results = sum(index.nbytes for index in (self.results, *self.verdicts.values()))
        return results + (self.journal.nbytes if self.journal else 0)

    def advance(self, most_s: float) -> bool:
        """Index for about so long; whether there is more to do."""
        until = time.monotonic() + most_s
        if not self._advancing.acquire(timeout=most_s):
            return True
        try:
            self._find_verdicts()
            todo: list[Callable[[], bool]] = [self.results.advance]
            todo += [index.advance for index in self.verdicts.values()]
            todo += [self.journal.advance] if self.looked_into and self.journal else []
            for advance in todo:
                while advance():
                    if time.monotonic() >= until:
                        return True
            return False
        finally:
            self._advancing.release()

    def summary(self) -> dict[str, Any] | None:
        """What `summary.json` holds, as it is; None where there is none."""
        try:
            summary = read_object(self.place.path / SUMMARY)
        except ValueError:
            return None
        return summary if can_be_shown(summary) else None

    @property
    def ready(self) -> float:
        """How much of results and judgments is indexed, 0 to 1."""
        tails = self._tails()
        total = sum(tail.size for tail in tails)
        behind = sum(tail.behind for tail in tails)
        return 1.0 if behind <= 0 else max(0.0, min(math.nextafter(1.0, 0.0), 1 - behind / max(1, total)))

    @property
    def journal_ready(self) -> bool:
        return self.journal is None or self.journal.tail.behind == 0

    @property
    def is_prepared(self) -> bool:
        """Whether everything is there that a page about an instance may ask for."""
        return self.journal_ready and self.prepared

    def judges(self) -> dict[str, ResultsIndex]:
        """The index of each judge's verdicts, the scoring judge's first."""
        own = self.results.judge or self.about.judge
        lines = self.results.lines()
        found = {}
        if own or (len(lines) and (lines.scores == lines.scores).any()):
            found[own or UNNAMED] = self.results
        for stem, index in self.verdicts.items():
            found.setdefault(index.judge or printable(stem), index)
        return found

    def scores(self, index: ResultsIndex, lines: Lines) -> Array:
        """A judge's score of each row of the results, NaN where there is none."""
        import numpy as np

        if index is self.results:
            return lines.scores
        said, rows = self._verdict_rows(index, lines)
        return np.where(rows >= 0, said.scores[rows], np.nan) if len(said) else np.full(len(lines), np.nan)

    def first(self) -> dict[str, Any] | None:
        """The first line that counts."""
        lines = self.results.lines()
        return self.line(self.results, int(lines.offsets[0])) if len(lines) else None

    def verdict(self, index: ResultsIndex, lines: Lines, row: int) -> dict[str, Any] | None:
        """A judge's line on the answer in a row of the results."""
        said, rows = self._verdict_rows(index, lines)
        return None if not len(said) or rows[row] < 0 else self.line(index, int(said.offsets[rows[row]]))

    def line(self, index: ResultsIndex, offset: int) -> dict[str, Any] | None:
        """The line of an indexed file at an offset; None where it is there no longer."""
        with suppress(OSError), opened(index.path) as fd:
            return record_in(line_at(fd, offset))
        return None

    def find(self, lines: Lines, id: str) -> tuple[int, dict[str, Any]] | None:
        """The row of an instance and its line; None where there is none of that name."""
        row = lines.row(id)
        line = None if row is None else self.line(self.results, int(lines.offsets[row]))
        return (row, line) if row is not None and line is not None and name_of(line) == id else None

    def _verdict_rows(self, index: ResultsIndex, lines: Lines) -> tuple[Lines, Array]:
        """A judge's lines, and which of them is on each row's answer, -1 for none.

        A verdict on another answer than the one recorded does not count, as far as it says so.
        """
        import numpy as np

        said = index.lines()
        rows = said.rows_of_hashes(lines.ids)
        if len(said) and self._mark is not unmarked:
            marks = said.marks[rows]
            rows = np.where((marks == lines.marks) | (marks == 0) | (lines.marks == 0), rows, -1)
        return said, rows

    def damaged(self) -> list[str]:
        """The lines that are too long to be shown, one message each."""
        tails = [*self._tails(), *([self.journal.tail] if self.journal else [])]
        return [
            f"{tail.path.name}: the line at byte {start:,} is longer than {MAX_LINE >> 20} MiB: damaged, left out"
            for tail in tails
            for start in tail.overlong
        ]

    def _tails(self) -> list[Tail]:
        return [index.tail for index in (self.results, *self.verdicts.values())]

    def _find_verdicts(self) -> None:
        paths = verdict_files(self.place.path)[:MAX_JUDGES]
        found = {path.stem: path for path in paths if stat_of(path) != NO_FILE}
        if found.keys() != self.verdicts.keys():
            self.verdicts = {
                stem: self.verdicts.get(stem) or ResultsIndex(path, self._mark)
                for stem, path in found.items()
            }


def journal_of(place: Place, about: About, root: Path) -> Path | None:
    """Where a run's steps stand: with it, or if its manifest says so in the folder above, where that is in `root`."""
    own = place.path / STEPS
    if about.shared_journal and stat_of(own) == NO_FILE:
        above = place.path.parent
        return above / STEPS if above == root or root in above.parents else None
    return own
