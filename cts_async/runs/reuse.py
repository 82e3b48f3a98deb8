"""Steps that other runs have finished, found by key: what a new version of a run need not pay again.

All runs of a folder are *origins*. Their journals are only read, never locked: a line that is being written is not there
yet. They are indexed when the first step is looked up, 16 bytes a step. The rules of who may take what stand in
`engine.reuse`; here is known which system and date a run is of, and what it sent by default.
"""

from __future__ import annotations

import os
import re
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import foreign_json
from cts_async.engine.journal_index import KEY_HEX, MAX_LINE, NO_KEYS, KeyIndex, index_of, scan_keys
from cts_async.engine.reuse import ReusedStep, ReuseRule
from cts_async.errors import InputError
from cts_async.records import is_one_line
from cts_async.runs.files import STEPS
from cts_async.runs.index import NO_FILE, line_at, opened, stat_of
from cts_async.runs.manifest import Manifest, read_manifest, require_manifest
from cts_async.runs.open_run import Place, find_places

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_OFFSET_BITS: Final = 44
"""Bits of a place that are an offset in a journal (16 TB); those above are the number of the origin."""
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_PARTS_OF_A_CALL: Final = ("/llm/", "/tool/")
"""What follows the name of a custom role's step in the names of the steps that were made within it."""
_SEARCH: Final = "search"
"""The step of a custom agent."""
MAX_NAMED_DAMAGE: Final = 5
"""Damaged origins that notices name one by one."""
MAX_OPEN_JOURNALS: Final = 64
"""Journals of origins that are kept open: opening one again for a line takes ten times as long as reading the line."""
_FIRST_BYTES: Final = 1 << 13
"""Bytes read at first of a line: most are shorter."""
_KEY: Final = re.compile(rf"[0-9a-f]{{{KEY_HEX}}}")
MAX_ORIGIN_NAME: Final = 4096
"""Characters of an origin's name: as many as a path may have."""


@dataclass(frozen=True, slots=True)
class OriginRun:
    """A run whose steps may be taken."""

    name: str
    """As the lines of its steps name it: its path below the folder of runs, or its whole path elsewhere."""
    directory: Path
    system: str
    """The system whose run it is; "" for a folder of several candidates, whose instances name it."""
    date: str
    """The date in its agent's prompt; "" without one."""
    sends_defaults: bool
    """Whether it sent the temperature that User Answerer, Rewriter and judge have by default (since 0.12)."""
    last_worked_on: str

    @property
    def journal(self) -> Path:
        """The file of its steps."""
        return self.directory / STEPS

    def system_of(self, record: Mapping[str, Any]) -> str:
        """The system that made a step of this run."""
        return self.system or str(record.get("instance")).partition("/")[0]


@dataclass(frozen=True, slots=True)
class FolderRuns:
    """The runs of a folder with their manifests, and what could not be read."""

    manifests: Mapping[str, Manifest]
    """By name: the path below the folder."""
    notices: tuple[str, ...] = ()


def read_folder(folder: Path, parts: Sequence[Path] = ()) -> FolderRuns:
    """Find all runs in a folder, at any depth, and read their manifests; none if there is no such folder.

    Of `parts`, folders within it, only these are searched.
    """
    manifests: dict[str, Manifest] = {}
    damaged: list[str] = []
    for place in _places_in(folder, parts):
        try:
            manifest = read_manifest(place.path)
        except (InputError, OSError) as error:
            damaged.append(f"{place.name}: nothing is reused from it: {error}")
            continue
        if manifest is not None:
            manifests[place.name] = manifest
    return FolderRuns(manifests, tuple(_first_damaged(damaged)))


def _places_in(folder: Path, parts: Sequence[Path] = ()) -> list[Place]:
    """The runs in a folder, which may be a link, or not exist."""
    root = folder.absolute()
    with suppress(OSError):
        root = root.resolve(strict=True)
    if not root.is_dir():
        return []
    return find_places(root, [root / part.name for part in parts])[0]


def _first_damaged(damaged: Sequence[str]) -> Iterator[str]:
    yield from damaged[:MAX_NAMED_DAMAGE]
    if len(damaged) > MAX_NAMED_DAMAGE:
        yield f"{len(damaged) - MAX_NAMED_DAMAGE} more runs are damaged, and nothing is reused from them"


def places_of_origins(
    folder: Path, parts: Sequence[Path] = (), *, whole_paths: bool = False, notify: Callable[[str], None]
) -> list[Place]:
    """The runs of a folder that have steps, by the names of origins; `parts` as in `read_folder`. None is read yet.

    `notify` is told of journals that are links, or no files.
    """
    places: list[Place] = []
    damaged: list[str] = []
    for place in _places_in(folder, parts):
        journal = place.path / STEPS
        if stat_of(journal) != NO_FILE:
            if whole_paths:
                place = Place(str(place.path), place.path)
            places.append(place)
        elif os.path.lexists(journal):
            damaged.append(f"{journal}: nothing is reused from it: not a regular file")
    for text in _first_damaged(damaged):
        notify(text)
    return places


class Origins:
    """The finished steps of other runs, by key. Manifests and journals are read at the first lookup."""

    def __init__(
        self,
        places: Iterable[Place],
        notify: Callable[[str], None],
        read_origin: Callable[[Place], OriginRun] | None = None,
    ) -> None:
        """`places` have steps; `notify` is told of those that are damaged, when they are read.

        `read_origin` says what a run is, and raises InputError or OSError; None: its manifest says so.
        """
        self._places = list(places)
        self._read_origin = read_origin or _origin_at
        self._notify = notify
        self._origins: list[OriginRun] = []
        self._index: KeyIndex | None = None
        self._is_damaged: set[int] = set()
        """Numbers of the origins whose journals have damaged lines."""
        self._within: dict[tuple[int, bool], Mapping[tuple[str, str], Sequence[int]]] = {}
        self._files: dict[int, int] = {}
        """Descriptors of journals that are open, by number of their origin; the last used is the last."""
        weakref.finalize(self, _close_all, self._files)

    def __len__(self) -> int:
        return len(self._places)

    def records(self, key: str) -> Iterator[tuple[OriginRun, Mapping[str, Any]]]:
        """The intact records of a step, those of the run that was worked on last first."""
        for number, record in self._numbered_records(key):
            yield self._origins[number], record

    def find(self, key: str, may_take: Callable[[OriginRun, Mapping[str, Any]], bool]) -> ReusedStep | None:
        """The step of the first run, in the order of `records`, that `may_take` allows; None if there is none."""
        for number, record in self._numbered_records(key):
            origin = self._origins[number]
            if not may_take(origin, record):
                continue
            within: Sequence[Mapping[str, Any]] = ()
            if _is_custom(record):
                # One of the steps within it may be what is damaged, and what a role has asked must not get lost.
                if number in self._is_damaged:
                    continue
                within = self._steps_within(number, record)
            # The run that executed it, however often it was taken since.
            executed_by = origin.name
            if _is_name(record.get("reused")):
                executed_by = str(record["reused"])
            return ReusedStep(record, executed_by, within)
        return None

    def _numbered_records(self, key: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        if self._index is None:
            self._index = self._indexed()
        for place in self._index.lookup(key):
            number = place >> _OFFSET_BITS
            record = self._record_at(number, place & _OFFSET_MASK)
            if record is not None and record["key"] == key:
                yield number, record

    def _steps_within(self, number: int, record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The lines of the steps that were made within a custom role's step, in the order of the journal."""
        step = str(record.get("step"))
        # Apart, since the searches of a model are named like those of a custom agent, and there are far more of them.
        part = number, step == _SEARCH
        if part not in self._within:
            with suppress(OSError):
                self._within[part] = _offsets_within(self._file(number), of_search=step == _SEARCH)
        records: list[Mapping[str, Any]] = []
        offsets = self._within.get(part, {})
        for offset in offsets.get((str(record.get("instance")), step), ()):
            inner = self._record_at(number, offset)
            if inner is not None:
                records.append(inner)
        return records

    def _indexed(self) -> KeyIndex:
        """Read all origins, and index them as one; a place is the number of an origin and an offset in its journal."""
        damaged: list[str] = []
        for place in self._places:
            try:
                self._origins.append(self._read_origin(place))
            except (InputError, OSError) as error:
                damaged.append(f"{place.name}: nothing is reused from it: {error}")
        # The latest counts: after a version that reused nothing, its steps are those to build on.
        self._origins.sort(key=lambda origin: (origin.last_worked_on, origin.name))
        fingerprints: list[Array] = []
        places: list[Array] = []
        for number, origin in enumerate(self._origins):
            try:
                scan = scan_keys(self._file(number))
            except OSError as error:
                damaged.append(f"{origin.journal}: nothing is reused from it: {error}")
                continue
            if scan.damaged_lines:
                self._is_damaged.add(number)
                damaged.append(
                    f"{origin.journal}: damaged lines: {len(scan.damaged_lines)} (first: line "
                    f"{scan.damaged_lines[0]}); these steps are not reused"
                )
            if len(scan.index):
                import numpy as np

                fingerprints.append(np.asarray(scan.index.fingerprints))
                places.append(np.asarray(scan.index.offsets) + (number << _OFFSET_BITS))
        for text in _first_damaged(damaged):
            self._notify(text)
        if not fingerprints:
            return NO_KEYS
        return index_of(np.concatenate(fingerprints), np.concatenate(places))

    def _record_at(self, number: int, offset: int) -> Mapping[str, Any] | None:
        """The record of a finished step whose line begins at `offset`; None if it is none any more."""
        with suppress(OSError, ValueError):
            line = line_at(self._file(number), offset, _FIRST_BYTES)
            record = foreign_json.loads(line or b"")
            # It may be anything: another folder's journals are a stranger's.
            if isinstance(record, dict) and record.get("ok") is True and "response" in record:
                key = record.get("key")
                if isinstance(key, str) and _KEY.fullmatch(key):
                    return record
        return None

    def _file(self, number: int) -> int:
        """A descriptor of an origin's journal. Raises OSError, also where it is a link or no regular file."""
        fd = self._files.pop(number, None)
        if fd is None:
            if len(self._files) == MAX_OPEN_JOURNALS:
                os.close(self._files.pop(next(iter(self._files))))
            with opened(self._origins[number].journal) as opened_fd:
                fd = os.dup(opened_fd)
        self._files[number] = fd
        return fd


class OwnSteps:
    """The finished steps of some journals, which are only read: those of a run that is not opened to be continued."""

    def __init__(self, journals: Sequence[Path]) -> None:
        """A journal may not exist. Damaged lines are not there; whoever continues the run says so."""
        places: list[Place] = []
        for journal in journals:
            directory = journal.parent.absolute()
            with suppress(OSError):
                directory = directory.resolve(strict=True)
            if stat_of(directory / STEPS) != NO_FILE:
                places.append(Place(directory.name, directory))
        # Nobody asks of whom these are: the run may have no manifest yet.
        self._origins = Origins(places, _ignore, _nameless_origin)

    def __len__(self) -> int:
        """The number of journals that there are."""
        return len(self._origins)

    def find(self, key: str) -> dict[str, Any] | None:
        """The record of a finished step; None if there is none that can be read."""
        for _, record in self._origins.records(key):
            return dict(record)
        return None


def _ignore(notice: str) -> None:
    """Do nothing with a notice."""


def _nameless_origin(place: Place) -> OriginRun:
    """A run of which only its place is known."""
    return OriginRun(place.name, place.path, "", "", sends_defaults=True, last_worked_on="")


def _close_all(files: dict[int, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def _origin_at(place: Place) -> OriginRun:
    """What a run's manifest says of it. Raises InputError, OSError."""
    manifest = require_manifest(place.path)
    system = manifest.identity.system
    if manifest.is_of_several_systems:
        system = ""
    return OriginRun(
        name=place.name,
        directory=place.path,
        system=system,
        date=manifest.identity.current_date,
        sends_defaults=manifest.fixed_temperature is not None,
        last_worked_on=manifest.last_session.start,
    )


def _is_custom(record: Mapping[str, Any]) -> bool:
    """Whether code of a user's played the role whose step it is."""
    request = record.get("request")
    return isinstance(request, Mapping) and "custom" in request


def _is_name(value: Any) -> bool:
    """Whether a line's note of its origin can be one: tables show it."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ORIGIN_NAME and is_one_line(value)


_BEGINNING: Final = re.compile(
    rb'\{"key":"[0-9a-f]{32}","ok":true,"instance":("(?:[^"\\]|\\.)*"),"step":("(?:[^"\\]|\\.)*")[,}]'
)


def _offsets_within(fd: int, *, of_search: bool) -> Mapping[tuple[str, str], Sequence[int]]:
    """The offsets of steps that were made within others, by instance and name of the outer step.

    Either those within the search, or all others. Raises OSError.
    """
    offsets: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    offset = 0
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", buffering=1 << 20, closefd=False) as file:
        while line := file.readline(MAX_LINE):
            beginning = _BEGINNING.match(line)
            if beginning:
                instance, step = foreign_json.loads(beginning[1]), foreign_json.loads(beginning[2])
                for part in _PARTS_OF_A_CALL:
                    outer, separator, _ = step.partition(part)
                    if separator and (outer == _SEARCH) == of_search:
                        offsets[instance, outer].append(offset)
                        break
            offset += len(line)
    return offsets


class SystemSource:
    """`engine.reuse.StepSource` for one system of a command."""

    def __init__(
        self, origins: Origins, system: str, *, date: str = "", sends_defaults: bool, shares_sampled: bool
    ) -> None:
        self._origins, self._system, self._date = origins, system, date
        self._sends_defaults, self._shares_sampled = sends_defaults, shares_sampled

    def find(self, key: str, rule: ReuseRule, notes: Any = None) -> ReusedStep | None:
        """The finished step of the run that was worked on last among those that this system may take it from."""

        def may_take(origin: OriginRun, record: Mapping[str, Any]) -> bool:
            if notes is not None and record.get("notes") != notes:
                return False
            return self._may_take(origin, record, rule)

        return self._origins.find(key, may_take)

    def _may_take(self, origin: OriginRun, record: Mapping[str, Any], rule: ReuseRule) -> bool:
        if rule is ReuseRule.DATED:
            return origin.date == self._date
        if rule is ReuseRule.FIXED_BY_DEFAULT:
            if origin.sends_defaults != self._sends_defaults:
                return False
            if self._sends_defaults:
                rule = ReuseRule.FIXED
        if rule is ReuseRule.FIXED and not _refused_temperature(record):
            return True
        return self._shares_sampled or origin.system_of(record) == self._system


def _refused_temperature(record: Mapping[str, Any]) -> bool:
    """Whether a model's server has refused the temperature: then the reply was sampled, whatever was asked for."""
    response = record.get("response")
    if not isinstance(response, Mapping):
        return False
    return "temperature" in foreign_json.as_list(response.get("dropped"))
