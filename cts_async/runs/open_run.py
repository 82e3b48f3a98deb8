"""One run of the folder: where it lies, what its manifest says, and the indexes of its files."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cts_async.errors import InputError
from cts_async.runs.files import JUDGMENTS, MANIFEST, PER_ITEM, PROMPTS, RESULTS, SOURCES, STEPS, SUMMARY
from cts_async.runs.index import (
    NO_FILE,
    Tail,
    display_name,
    is_serializable,
    line_at,
    opened,
    read_object,
    record_in,
    stat_of,
)
from cts_async.runs.journal import JournalIndex, SpendingIndex
from cts_async.runs.manifest import Manifest, tolerant_manifest
from cts_async.runs.results import (
    ResultLines,
    ResultsIndex,
    about_same,
    instance_name,
    judged_fingerprint,
    no_fingerprint,
)

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_DEPTH: Final = 4
MAX_FOLDERS: Final = 20_000
"""Folders searched for runs: `cts view ~` must end, too."""
_RUN_FILES: Final = (MANIFEST, RESULTS, PER_ITEM)
_INNER_FOLDERS: Final = (JUDGMENTS, PROMPTS, SOURCES)
"""Folders inside a run that hold no runs."""
MAX_JUDGES: Final = 32
UNNAMED: Final = "unnamed"


# --- The folder


class Place(NamedTuple):
    """A directory that looks like a run; `name` is its printable path below the folder, with "/" between."""

    name: str
    path: Path


def find_places(root: Path, parts: Sequence[Path] = ()) -> tuple[list[Place], bool]:
    """All directories below `root`, or `root` itself, that hold a run's files, by name; whether these are all.

    Links are not followed. Of `parts`, folders within `root`, only these are searched.
    """
    places: set[Place] = set()
    waiting = [(part, 0) for part in parts or (root,)]
    n_searched = 0
    while waiting and n_searched < MAX_FOLDERS:
        directory, depth = waiting.pop()
        n_searched += 1
        if any(stat_of(directory / name) != NO_FILE for name in _RUN_FILES):
            names = directory.relative_to(root).parts or (directory.name,)
            places.add(Place(display_name("/".join(names)), directory))
        if depth < MAX_DEPTH:
            waiting += [(folder, depth + 1) for folder in _folders(directory)]
    return sorted(places), not waiting


def _folders(directory: Path) -> list[Path]:
    """The folders in a directory that may have runs, the last by name first: they are taken from the end of a list."""
    names: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    names.append(entry.name)
    except OSError:
        return []
    return [directory / name for name in sorted(names, reverse=True) if name not in _INNER_FOLDERS]


def judgment_files(directory: Path) -> list[Path]:
    """The files of a run's further judges, by name; none behind a link."""
    folder = directory / JUDGMENTS
    if folder.is_symlink():
        return []
    try:
        return sorted(folder.glob("*.jsonl"))
    except OSError:  # the folder is being removed
        return []


# --- The manifest


def viewed_manifest(directory: Path) -> Manifest | None:
    """The manifest of a run, read tolerantly; one without fields where there is none.

    None for a build of gold, and for the folder that `cts judge` writes above several candidates' runs.
    Raises ValueError if `run.json` is not a manifest.
    """
    raw = read_object(directory / MANIFEST)
    if raw is None:
        return Manifest(directory=directory)
    if not is_serializable(raw):
        raise ValueError("it is nested too deeply")
    manifest = tolerant_manifest(raw, directory)
    if not manifest.has_identity:
        raise ValueError("the field identity is missing")
    if manifest.is_gold_build or manifest.is_of_several_systems:
        return None
    return manifest


# --- The files


class OpenRun:
    """The indexes of one run. Any thread may call `advance`; readers see what is indexed so far."""

    def __init__(self, place: Place, manifest: Manifest, journal: Path | None) -> None:
        self.place = place
        self.manifest = manifest
        directory = place.path
        # The answers of judged candidates may change under their ids.
        candidates = manifest.kind == "judged" or stat_of(directory / PER_ITEM) != NO_FILE
        judged = candidates and stat_of(directory / RESULTS) == NO_FILE
        self._mark = no_fingerprint
        path = directory / RESULTS
        if judged:
            self._mark = judged_fingerprint
            path = directory / PER_ITEM
        self.results = ResultsIndex(path, self._mark)
        self.judgments: dict[str, ResultsIndex] = {}
        """Further judges' files by stem."""
        self.journal: JournalIndex | None = None
        if journal is not None:
            self.journal = JournalIndex(journal)
        self.spending: SpendingIndex | None = None
        """What each instance took, once `index_spending` was called."""
        self.viewed = False
        """Whether a page of this run was requested: only then are its journal and gold indexed."""
        self.prepared = False
        """Whether its gold was looked for."""
        self._advancing = threading.Lock()

    @property
    def nbytes(self) -> int:
        nbytes = sum(index.nbytes for index in self._results_files())
        if self.journal is not None:
            nbytes += self.journal.nbytes
        if self.spending is not None:
            nbytes += self.spending.nbytes
        return nbytes

    def index_spending(self) -> None:
        """From now on index what each instance took, too; nothing without a journal."""
        if self.spending is None and self.journal is not None:
            self.spending = SpendingIndex(self.journal.path, self.journal_name(""), self.manifest.prices)

    def journal_name(self, id: str) -> str:
        """The name of an instance in the journal, which may have the steps of other systems, too."""
        if shares_journal(self.manifest):
            return f"{self.manifest.system}/{id}"
        return id

    def advance(self, max_s: float = threading.TIMEOUT_MAX) -> bool:
        """Index results, judgments, then the journal, for about `max_s` seconds; whether there is more to do."""
        until = time.monotonic() + max_s
        if not self._advancing.acquire(timeout=max_s):
            return True
        try:
            self._find_judgments()
            # What every page needs comes first, the journal, which may have gigabytes, last.
            steps: list[Callable[[], bool]] = [self.results.advance]
            steps += [index.advance for index in self.judgments.values()]
            if self.spending is not None:
                steps.append(self.spending.advance)
            if self.viewed and self.journal is not None:
                steps.append(self.journal.advance)
            for advance in steps:
                while advance():
                    if time.monotonic() >= until:
                        return True
            return False
        finally:
            self._advancing.release()

    def summary(self) -> dict[str, Any] | None:
        """The contents of `summary.json`; None if there is none."""
        try:
            summary = read_object(self.place.path / SUMMARY)
        except ValueError:
            return None
        if not is_serializable(summary):
            return None
        return summary

    @property
    def ready(self) -> float:
        """Share of results and judgments that is indexed, 0 to 1."""
        tails = self._tails()
        behind = sum(tail.behind for tail in tails)
        if behind <= 0:
            return 1.0
        share = 1 - behind / max(1, sum(tail.size for tail in tails))
        # Below 1, however little is left of a large file: 1 means that nothing is.
        return max(0.0, min(math.nextafter(1.0, 0.0), share))

    @property
    def journal_ready(self) -> bool:
        return self.journal is None or self.journal.tail.behind == 0

    @property
    def spending_ready(self) -> bool:
        return self.spending is None or self.spending.tail.behind == 0

    @property
    def needs_indexing(self) -> bool:
        """Whether anything that a page may ask for is not indexed yet."""
        return (
            self.ready < 1
            or not self.spending_ready
            or (self.viewed and not (self.journal_ready and self.prepared))
        )

    def judges(self) -> dict[str, ResultsIndex]:
        """The index of each judge's verdicts, the scoring judge's first."""
        import numpy as np

        scoring = self.results.judge or self.manifest.judge
        # Files of other programs may name no judge: their scores are shown all the same.
        if not scoring and not np.isnan(self.results.lines().scores).all():
            scoring = UNNAMED
        judges: dict[str, ResultsIndex] = {}
        if scoring:
            judges[scoring] = self.results
        for stem, index in self.judgments.items():
            judges.setdefault(index.judge or display_name(stem), index)
        return judges

    def scores(self, index: ResultsIndex, lines: ResultLines) -> Array:
        """A judge's score for each row of the results, NaN if there is none; shape (lines,)."""
        import numpy as np

        if index is self.results:
            return lines.scores
        judged, rows = self._judged_rows(index, lines)
        if not len(judged):
            return np.full(len(lines), np.nan)
        return np.where(rows >= 0, judged.scores[rows], np.nan)

    def contradictions(self) -> list[str]:
        """A sentence on each file with stored scores that contradict their labels, as far as it is indexed."""
        sentences: list[str] = []
        for index in self._results_files():
            name = display_name(str(index.path.relative_to(self.place.path)))
            sentence = index.contradictions(name, partial(self.line, index))
            if sentence:
                sentences.append(sentence)
        return sentences

    def first_line(self) -> dict[str, Any] | None:
        """The first results line that counts."""
        lines = self.results.lines()
        if not len(lines):
            return None
        return self.line(self.results, int(lines.offsets[0]))

    def verdict(self, index: ResultsIndex, lines: ResultLines, row: int) -> dict[str, Any] | None:
        """A judge's line on the answer in a row of the results."""
        judged, rows = self._judged_rows(index, lines)
        if not len(judged) or rows[row] < 0:
            return None
        return self.line(index, int(judged.offsets[rows[row]]))

    def line(self, index: ResultsIndex, offset: int) -> dict[str, Any] | None:
        """The line of an indexed file at an offset; None if it is no longer there."""
        with suppress(OSError), opened(index.path) as fd:
            return record_in(line_at(fd, offset))
        return None

    def find(self, lines: ResultLines, id: str) -> tuple[int, dict[str, Any]] | None:
        """The row of an instance and its line, or None."""
        row = lines.row(id)
        if row is None:
            return None
        line = self.line(self.results, int(lines.offsets[row]))
        # Rows are found by a hash of the id, which two ids may share.
        if line is None or instance_name(line) != id:
            return None
        return row, line

    def _judged_rows(self, index: ResultsIndex, lines: ResultLines) -> tuple[ResultLines, Array]:
        """A judge's lines, and which of them is about each row's answer; -1 for none.

        A verdict that names another answer than the recorded one does not count.
        """
        import numpy as np

        judged = index.lines()
        rows = judged.rows_of_hashes(lines.ids)
        if len(judged):
            rows = np.where(about_same(judged.marks[rows], lines.marks), rows, -1)
        return judged, rows

    def _results_files(self) -> list[ResultsIndex]:
        """The indexes of the results and of the further judges' files."""
        indexes = [self.results]
        indexes += self.judgments.values()
        return indexes

    def _tails(self) -> list[Tail]:
        return [index.tail for index in self._results_files()]

    def _find_judgments(self) -> None:
        indexes: dict[str, ResultsIndex] = {}
        for path in judgment_files(self.place.path)[:MAX_JUDGES]:
            if stat_of(path) != NO_FILE:
                indexes[path.stem] = self.judgments.get(path.stem) or ResultsIndex(path, self._mark)
        # Replaced as a whole, and only if a file came or went: other threads iterate over it.
        if indexes.keys() != self.judgments.keys():
            self.judgments = indexes


def whole_run(directory: Path, *, journal: bool) -> OpenRun | None:
    """Open a run by itself and index all of its results, and its `journal` if wanted; None as in `viewed_manifest`.

    Raises InputError if `run.json` is not a manifest.
    """
    directory = directory.resolve()
    place = Place(directory.name, directory)
    try:
        manifest = viewed_manifest(directory)
    except ValueError as error:
        raise InputError(directory / MANIFEST, f"not a manifest ({error})") from None
    if manifest is None:
        return None
    run = OpenRun(place, manifest, journal_of(place, manifest, directory.parent))
    run.viewed = journal
    run.advance()
    return run


def journal_of(place: Place, manifest: Manifest, root: Path) -> Path | None:
    """The journal of a run: its own, or the one above that its manifest names, provided that lies in `root`."""
    journal = place.path / STEPS
    # A directory that was copied out of its campaign may have a journal of its own.
    if shares_journal(manifest) and stat_of(journal) == NO_FILE:
        above = place.path.parent
        # A manifest from anywhere must not have files outside of the folder read.
        if above != root and root not in above.parents:
            return None
        return above / STEPS
    return journal


def shares_journal(manifest: Manifest) -> bool:
    """Whether its steps stand in the folder above, together with those of other systems."""
    return manifest.journal == f"../{STEPS}"
