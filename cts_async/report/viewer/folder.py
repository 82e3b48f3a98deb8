"""The folder of runs: which there are now, each by its name. Links are not followed, wherever they lead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cts_async.protocol.run_files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS
from cts_async.report.viewer.files import NO_FILE, stat_of
from cts_async.report.viewer.values import printable

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
