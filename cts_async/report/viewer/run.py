"""One run of the folder: where it lies, what its manifest says, and the indexes of its files."""

from __future__ import annotations

import math
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cts_async.analysis.runs import named_system
from cts_async.engine.journal_index import MAX_LINE
from cts_async.protocol.results import judged_mark, unmarked
from cts_async.protocol.run_files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.protocol.run_folders import GOLDBUILD, TALK
from cts_async.report.viewer.api_types import Kind
from cts_async.report.viewer.files import (
    NO_FILE,
    as_count,
    as_float,
    as_list,
    as_object,
    as_text,
    as_texts,
    can_be_shown,
    line_at,
    opened,
    printable,
    read_object,
    record_in,
    stat_of,
)
from cts_async.report.viewer.index import JournalIndex, Lines, ResultsIndex, Tail, name_of

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_DEPTH: Final = 4
MAX_FOLDERS: Final = 20_000
"""Folders that are looked into; somebody's home is no folder of runs."""
_MARKS: Final = (MANIFEST, RESULTS, PER_ITEM)
_NO_RUNS: Final = (JUDGMENTS, "prompts")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that looks like a run; `name` is its path below the folder, printable and with "/" between."""

    name: str
    path: Path


@dataclass(slots=True)
class _Walk:
    root: Path
    left: int
    found: list[Place] = field(default_factory=list)


class Places(NamedTuple):
    """What was found; `whole` unless there are more folders than are looked into."""

    found: list[Place]
    whole: bool


def find_places(root: Path) -> Places:
    """All directories below `root`, or itself, that hold a run's files, by name. A folder that vanished has none."""
    walk = _Walk(root, MAX_FOLDERS)
    _look(walk, root, 0)
    return Places(sorted(walk.found, key=lambda place: place.name), walk.left >= 0)


def verdict_files(directory: Path) -> list[Path]:
    """What a run's further judges said, by name; none behind a link, or where the folder is just vanishing."""
    folder = directory / JUDGMENTS
    try:
        return [] if folder.is_symlink() else sorted(folder.glob("*.jsonl"))
    except OSError:
        return []


def _look(walk: _Walk, directory: Path, depth: int) -> None:
    walk.left -= 1
    if walk.left < 0:
        return
    if any(stat_of(directory / mark) != NO_FILE for mark in _MARKS):
        walk.found.append(Place(_name(walk.root, directory), directory))
    if depth < MAX_DEPTH:
        for inner in _folders(directory):
            _look(walk, inner, depth + 1)


def _folders(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    yield from (directory / name for name in names if name not in _NO_RUNS and not name.startswith("."))


def _name(root: Path, directory: Path) -> str:
    """A run that is the folder itself has the folder's name."""
    parts = directory.relative_to(root).parts or (directory.name,)
    return printable("/".join(parts))


MAX_COMMAND: Final = 1 << 16
"""Characters of a command that are read: to take it apart takes a second for each million."""


@dataclass(frozen=True, slots=True)
class About:
    """A run by its manifest; everything has a value where there is none."""

    kind: Kind
    system: str
    data: str
    data_sha256: str
    gold_sha256: str
    k: int | None
    scheme: str | None
    mode: str | None
    judge: str | None
    """The scoring judge."""
    changeable: bool
    """Answers may change under their ids: they are somebody's candidates."""
    shared_journal: bool
    """Its steps stand in the folder above, with those of others."""
    embedded: bool
    n_expected: int
    started: str | None
    ended: str | None
    wall_s: float | None
    data_files: tuple[str, ...]
    """Where the run says that its queries and gold were, likelier ones for gold first."""
    fields: Mapping[str, str]
    manifest: Mapping[str, Any]

    @property
    def gold_digest(self) -> str:
        """The sha256 of the file that the nuggets stand in, "" where nobody says."""
        return self.gold_sha256 or self.data_sha256

    def known_as(self, id: str) -> str:
        """What an instance is called in the journal."""
        return f"{self.system}/{id}" if self.shared_journal else id


def read_about(directory: Path) -> About | None:
    """None where it is no run: a build of gold, or what stands above the verdicts on several files.

    Raises ValueError where the manifest is none.
    """
    manifest = read_object(directory / MANIFEST)
    if manifest is None:
        manifest = {}
    elif not can_be_shown(manifest):
        raise ValueError("it is nested too deeply")
    elif "identity" not in manifest:
        raise ValueError("it does not say what it is (identity)")
    identity = as_object(manifest.get("identity"))
    if identity.get("system") == GOLDBUILD or isinstance(manifest.get("systems"), list):
        return None
    return _about(directory.name, manifest, identity)


def _about(name: str, manifest: Mapping[str, Any], identity: Mapping[str, Any]) -> About:
    system, k = as_text(identity.get("system")) or name, identity.get("k")
    candidates = "candidates" in identity or not manifest
    kind: Kind = "judged" if candidates else "talk" if identity.get("task") == TALK else "run"
    data, judges = as_object(identity.get("data")), as_texts(identity.get("judges"))
    sessions = _sessions(manifest)
    return About(
        kind=kind,
        system=system,
        data=as_text(data.get("name")) or "",
        data_sha256=as_text(data.get("sha256")) or "",
        gold_sha256=as_text(data.get("gold_sha256")) or as_text(identity.get("gold_sha256")) or "",
        k=(named_system(system)[1] or None) if candidates else None if k is None else as_count(k),
        scheme=None if candidates else as_text(identity.get("scheme")),
        mode=None if candidates else as_text(identity.get("mode")),
        judge=judges[0] if judges else None,
        changeable=candidates,
        shared_journal=manifest.get("journal") == f"../{STEPS}",
        embedded=bool(manifest.get("embedded")),
        n_expected=as_count(manifest.get("n_expected")),
        started=as_text(sessions[0].get("start")) if sessions else None,
        ended=as_text(sessions[-1].get("end")) if sessions else None,
        wall_s=sum(as_float(session.get("wall_s")) or 0.0 for session in sessions) if sessions else None,
        data_files=tuple(_data_files(manifest)),
        fields=_fields(as_object(manifest.get("data"))),
        manifest=manifest,
    )


def _sessions(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in as_list(manifest.get("sessions")) if isinstance(one, dict)]


def _data_files(manifest: Mapping[str, Any]) -> list[str]:
    """The gold that was named, also in the command of `cts judge`, then the queries."""
    data, command = as_object(manifest.get("data")), as_text(manifest.get("command")) or ""
    named = [as_text(data.get("gold")), *_golds_of(command), as_text(data.get("path"))]
    return list(dict.fromkeys(name for name in named if name))


def _golds_of(command: str) -> list[str]:
    try:
        words = shlex.split(command[:MAX_COMMAND])
    except ValueError:
        return []
    found = [after for word, after in pairwise(words) if word in ("--gold", "--gold_a")]
    return found + [word.partition("=")[2] for word in words if word.startswith(("--gold=", "--gold_a="))]


def _fields(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: to for name, to in as_object(data.get("fields")).items() if isinstance(to, str)}


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
