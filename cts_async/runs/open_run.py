"""One run of the folder: where it lies, what its manifest says, and the indexes of its files."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cts_async.errors import InputError
from cts_async.runs.files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.runs.index import (
    NO_FILE,
    JournalIndex,
    SpendingIndex,
    Tail,
    display_name,
    is_serializable,
    line_at,
    opened,
    read_object,
    record_in,
    stat_of,
)
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
_INNER_FOLDERS: Final = (JUDGMENTS, "prompts")
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
    found: set[Place] = set()
    waiting, n_seen = [(part, 0) for part in parts or (root,)], 0
    while waiting and n_seen < MAX_FOLDERS:
        directory, depth = waiting.pop()
        n_seen += 1
        if any(stat_of(directory / name) != NO_FILE for name in _RUN_FILES):
            names = directory.relative_to(root).parts or (directory.name,)
            found.add(Place(display_name("/".join(names)), directory))
        if depth < MAX_DEPTH:
            waiting += [(inner, depth + 1) for inner in _folders(directory)]
    return sorted(found), not waiting


def _folders(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            names = sorted(
                (entry.name for entry in entries if entry.is_dir(follow_symlinks=False)), reverse=True
            )
    except OSError:
        return
    yield from (directory / name for name in names if name not in _INNER_FOLDERS and not name.startswith("."))


def judgment_files(directory: Path) -> list[Path]:
    """The files of a run's further judges, by name; none behind a link."""
    folder = directory / JUDGMENTS
    try:
        return [] if folder.is_symlink() else sorted(folder.glob("*.jsonl"))
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
        self._mark = judged_fingerprint if judged else no_fingerprint
        self.results = ResultsIndex(directory / (PER_ITEM if judged else RESULTS), self._mark)
        self.judgments: dict[str, ResultsIndex] = {}
        """Further judges' files by stem."""
        self.journal = None if journal is None else JournalIndex(journal)
        self.spending: SpendingIndex | None = None
        """What each instance took, once `index_spending` was called."""
        self.viewed = False
        """Whether a page of this run was requested: only then are its journal and gold indexed."""
        self.prepared = False
        """Whether its gold was looked for."""
        self._advancing = threading.Lock()

    @property
    def nbytes(self) -> int:
        results = sum(index.nbytes for index in (self.results, *self.judgments.values()))
        return results + sum(index.nbytes for index in (self.journal, self.spending) if index)

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
            todo: list[Callable[[], bool]] = [self.results.advance]
            todo += [index.advance for index in self.judgments.values()]
            todo += [self.spending.advance] if self.spending else []
            todo += [self.journal.advance] if self.viewed and self.journal else []
            for advance in todo:
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
        return summary if is_serializable(summary) else None

    @property
    def ready(self) -> float:
        """Share of results and judgments that is indexed, 0 to 1."""
        tails = self._tails()
        total = sum(tail.size for tail in tails)
        behind = sum(tail.behind for tail in tails)
        return 1.0 if behind <= 0 else max(0.0, min(math.nextafter(1.0, 0.0), 1 - behind / max(1, total)))

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
        own = self.results.judge or self.manifest.judge
        lines = self.results.lines()
        found = {}
        if own or (len(lines) and (lines.scores == lines.scores).any()):
            found[own or UNNAMED] = self.results
        for stem, index in self.judgments.items():
            found.setdefault(index.judge or display_name(stem), index)
        return found

    def scores(self, index: ResultsIndex, lines: ResultLines) -> Array:
        """A judge's score for each row of the results, NaN if there is none; shape (lines,)."""
        import numpy as np

        if index is self.results:
            return lines.scores
        judged, rows = self._judged_rows(index, lines)
        return (
            np.where(rows >= 0, judged.scores[rows], np.nan) if len(judged) else np.full(len(lines), np.nan)
        )

    def first(self) -> dict[str, Any] | None:
        """The first results line that counts."""
        lines = self.results.lines()
        return self.line(self.results, int(lines.offsets[0])) if len(lines) else None

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
        line = None if row is None else self.line(self.results, int(lines.offsets[row]))
        return (row, line) if row is not None and line is not None and instance_name(line) == id else None

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

    def _tails(self) -> list[Tail]:
        return [index.tail for index in (self.results, *self.judgments.values())]

    def _find_judgments(self) -> None:
        paths = judgment_files(self.place.path)[:MAX_JUDGES]
        found = {path.stem: path for path in paths if stat_of(path) != NO_FILE}
        if found.keys() != self.judgments.keys():
            self.judgments = {
                stem: self.judgments.get(stem) or ResultsIndex(path, self._mark)
                for stem, path in found.items()
            }


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
    own = place.path / STEPS
    if shares_journal(manifest) and stat_of(own) == NO_FILE:
        above = place.path.parent
        return above / STEPS if above == root or root in above.parents else None
    return own


def shares_journal(manifest: Manifest) -> bool:
    """Whether its steps stand in the folder above, together with those of other systems."""
    return manifest.journal == f"../{STEPS}"
