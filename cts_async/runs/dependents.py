"""Which runs still need the journal of another one.

A step that was taken from another run is copied with the name of the run that executed it, the last field of its line:
`"reused":"NAME"`. Copies are complete, so a finished run can be audited without its origins. One that is unfinished, or
whose journal is damaged, takes steps from there again when its command is typed again.

Journals are searched in whole blocks, on bytes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

import orjson

from cts_async.engine.journal_index import scan_journal
from cts_async.errors import InputError
from cts_async.runs.directory import locker_exists
from cts_async.runs.files import STEPS, results_of
from cts_async.runs.index import opened
from cts_async.runs.manifest import Manifest, require_manifest
from cts_async.runs.open_run import find_places
from cts_async.runs.results import LatestLines

_FIELD: Final = b',"reused":"'
_ORIGIN: Final = re.compile(rb',"reused":("(?:[^"\\\x00-\x1f]|\\.){1,4096}")\}\n')
"""The end of a line. Within a text of the line the quotation marks would be escaped."""
_MAX_FIELD: Final = 8_192
"""Bytes that the field and the end of its line take at most."""
_BLOCK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Dependent:
    """A run that takes steps from others when its command is typed again."""

    directory: Path
    origins: frozenset[str]
    """As its journal names them: paths below the folder of runs, or whole paths."""
    reason: str
    """Why its copies do not suffice, such as `is unfinished`."""

    def needs(self, directory: Path) -> bool:
        """Whether a run directory is one of its origins."""
        place = directory.resolve()
        if place == self.directory.resolve():
            return False
        for origin in self.origins:
            # The folder that the path begins at is not recorded: a run with such an end is taken for the origin.
            parts = PurePath(origin).parts
            if parts and place.parts[-len(parts) :] == parts:
                return True
        return False


def find_dependents(folder: Path) -> list[Dependent]:
    """The runs below a folder that need origins, by name."""
    dependents: list[Dependent] = []
    for place in find_places(folder)[0]:
        origins = count_reused(place.path / STEPS)
        if not origins:
            continue
        reason = _reason_to_need(place.path)
        if reason:
            dependents.append(Dependent(place.path, frozenset(origins), reason))
    return dependents


def _reason_to_need(directory: Path) -> str:
    """Why a run cannot do without its origins; "" if it can."""
    try:
        manifest = require_manifest(directory)
        if is_being_written(manifest):
            return "is being written"
        if manifest.last_session.stopped or not _has_all_results(manifest):
            return "is unfinished"
        if scan_journal(directory / STEPS).damaged_lines:
            return f"has damaged lines in its {STEPS}"
    except (InputError, OSError):
        return "is damaged"
    return ""


def is_being_written(manifest: Manifest) -> bool:
    """Whether a command works on a run, as far as its files say; only its lock is proof."""
    session = manifest.last_session
    return bool(session.start) and not session.end and locker_exists(manifest.directory)


def _has_all_results(manifest: Manifest) -> bool:
    if manifest.is_of_several_systems:
        return True
    lines = LatestLines(manifest.directory / results_of(manifest.directory))
    return len(lines) >= manifest.n_expected - manifest.n_absent


def count_reused(journal: Path) -> Counter[str]:
    """The number of steps in a journal that were taken from other runs, by the run that executed them.

    Empty for anything but a regular file.
    """
    by_field: Counter[bytes] = Counter()
    # Links above the run are the user's own.
    path = journal.parent.resolve() / journal.name
    with suppress(OSError), opened(path) as fd:
        carried = b""
        while block := os.read(fd, _BLOCK):
            text = carried + block
            if _FIELD in text:
                by_field.update(match[1] for match in _ORIGIN.finditer(text))
            # The line whose end is still to come; a counted one ends before it.
            carried = text[text.rfind(b"\n") + 1 :][-_MAX_FIELD:]
    return _by_name(by_field.items())


def _by_name(fields: Iterable[tuple[bytes, int]]) -> Counter[str]:
    names: Counter[str] = Counter()
    for json_text, count in fields:
        with suppress(ValueError):  # what no journal writes
            names[orjson.loads(json_text)] += count
    return names
