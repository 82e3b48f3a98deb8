"""What a command has written itself, summed while it writes: its summary need not read those lines again.

Only files that the process began, and to which nobody else has added a byte, are known in this way; all others are read
as ever. So the summary is that of the files, whatever happened: a line that the disk refused, a file that another
process replaced, a run that is resumed, and lines that a cluster copied from another run all leave a file of another
length than was noted here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from os.path import normpath
from pathlib import Path
from typing import Any, Final

from cts_async.engine.journal import Journal
from cts_async.foreign_json import is_surely_shallow
from cts_async.runs.index import stat_of
from cts_async.runs.journal import Spent, SpentPart, system_of
from cts_async.runs.results import WrittenResults


class _WrittenSteps:
    """The sums of a journal that this process writes, as `spent_by` makes them: by system where it `is_shared`.

    Where it `is_custom`, code of the user's determines what its lines hold.
    """

    def __init__(self, *, is_shared: bool, is_custom: bool) -> None:
        self.spent: dict[str, Spent] = defaultdict(Spent)
        self.size = 0
        """Bytes of the lines that were added."""
        self._is_shared, self._is_custom = is_shared, is_custom

    def add(self, record: Mapping[str, Any], line: bytes) -> None:
        """Add a step with its line in the journal."""
        # Brackets are counted first: few lines have so many that their values have to be looked at.
        if self._is_custom and not (is_surely_shallow(line) or _is_flat_step(record)):
            # A reader may find it nested too deeply; by its length the file counts as one that has to be read.
            return
        self.size += len(line)
        system = ""
        if self._is_shared:
            system = system_of(record["instance"])
        self.spent[system].add(record)

    def add_part(self, part: SpentPart, size: int) -> None:
        """Add steps of one system that another process has summed; their lines have so many bytes."""
        if not part.is_whole:
            return  # by its length the file counts as one that has to be read
        self.size += size
        system = ""
        if self._is_shared:
            system = part.system
        self.spent[system].add_part(part)


class WrittenFiles:
    """The journals and results that a command writes from their beginning."""

    def __init__(self) -> None:
        self._steps: dict[Path, tuple[int, _WrittenSteps]] = {}
        self._results: dict[Path, tuple[int, WrittenResults]] = {}

    def follow_journal(self, journal: Journal, *, is_shared: bool, is_custom: bool = False) -> None:
        """Sum the steps that are appended to a journal from now on, unless it has some already.

        In one that `is_shared`, by the system that each instance is named after. In one that `is_custom`, code of the
        user's asks models.
        """
        if journal.size:
            return
        steps = _WrittenSteps(is_shared=is_shared, is_custom=is_custom)
        journal.on_append, journal.on_append_part = steps.add, steps.add_part
        self._steps[_normal(journal.path)] = (stat_of(journal.path).inode, steps)

    def follow_results(self, path: Path) -> WrittenResults | None:
        """Return what has to be given the verdicts that are appended to a file, and the bytes of their lines.

        None if the file has lines already.
        """
        state = stat_of(path)
        if state.size:
            return None
        results = WrittenResults(path)
        self._results[_normal(path)] = (state.inode, results)
        return results

    def spent(self) -> dict[Path, Mapping[str, Spent]]:
        """The sums of each journal that has the steps of this process and no others."""
        spent_by_journal: dict[Path, Mapping[str, Spent]] = {}
        for path, (inode, steps) in self._steps.items():
            if _is_as_written(path, inode, steps.size):
                spent_by_journal[path] = steps.spent
        return spent_by_journal

    def results(self, path: Path) -> WrittenResults | None:
        """The numbers of a file that has the verdicts of this process and no other lines; None of any other file."""
        found = self._results.get(_normal(path))
        if found is None:
            return None
        inode, results = found
        if not _is_as_written(path, inode, results.size):
            return None
        results.settle()
        return results


_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
FLAT_LEVELS: Final = 4
"""Levels of arrays and objects in usual messages to models and in their replies, whose usage is an object."""


def _is_flat_step(record: Mapping[str, Any]) -> bool:
    """True if what code of the user's determines in a step is flat: its request and its response."""
    return _is_flat(record.get("request")) and _is_flat(record.get("response"))


def _is_flat(value: Any, levels: int = FLAT_LEVELS) -> bool:
    """True for JSON of at most so many levels, built of Python's own types."""
    parts: Iterable[Any] = (value,)
    if type(value) is dict:
        parts = value.values()
    elif type(value) is list:
        parts = value
    for part in parts:
        # On the way of every step: only what has parts itself is a call.
        if type(part) not in _LEAVES and (levels == 1 or part is value or not _is_flat(part, levels - 1)):
            return False
    return True


def _normal(path: Path) -> Path:
    return Path(normpath(path))


def _is_as_written(path: Path, inode: int, size: int) -> bool:
    state = stat_of(path)
    return state.inode == inode and state.size == size
