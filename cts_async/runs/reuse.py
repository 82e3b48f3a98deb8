"""Steps that other runs have finished, found by key: what a new version of a run need not pay again.

All runs of a folder are *origins*. Their journals are only read, never locked: a line that is being written is not there
yet. They are indexed when the first step is looked up, 16 bytes a step. The rules of who may take what stand in
`engine.reuse`; here is known which system and date a run is of, and what it sent by default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import foreign_json
from cts_async.engine.journal import placed_records
from cts_async.engine.journal_index import NO_KEYS, KeyIndex, index_of, scan_journal
from cts_async.engine.reuse import ReusedStep, ReuseRule
from cts_async.errors import InputError
from cts_async.runs.files import STEPS
from cts_async.runs.index import NO_FILE, line_at, opened, stat_of
from cts_async.runs.manifest import Manifest, read_manifest
from cts_async.runs.open_run import find_places

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_OFFSET_BITS: Final = 44
"""Bits of a place that are an offset in a journal (16 TB); those above are the number of the origin."""
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_PARTS_OF_A_CALL: Final = ("/llm/", "/tool/")
"""What follows the name of a custom role's step in the names of the steps that were made within it."""
MAX_NAMED_DAMAGE: Final = 5
"""Damaged origins that notices name one by one."""


@dataclass(frozen=True, slots=True)
class Origin:
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


def runs_in(folder: Path, parts: Sequence[Path] = ()) -> FolderRuns:
    """Find all runs in a folder, at any depth, and read their manifests; none if there is no such folder.

    Of `parts`, folders within it, only these are searched.
    """
    manifests: dict[str, Manifest] = {}
    damaged: list[str] = []
    root = folder.absolute()
    with suppress(OSError):
        root = root.resolve(strict=True)
    if not root.is_dir():
        return FolderRuns({})
    parts = [root / part.name for part in parts]
    for place in find_places(root, parts)[0]:
        try:
            manifest = read_manifest(place.path)
        except (InputError, OSError) as error:
            damaged.append(f"{place.name}: nothing is reused from it: {error}")
            continue
        if manifest is not None:
            manifests[place.name] = manifest
    return FolderRuns(manifests, tuple(_first_damaged(damaged)))


def _first_damaged(damaged: Sequence[str]) -> Iterator[str]:
    yield from damaged[:MAX_NAMED_DAMAGE]
    if len(damaged) > MAX_NAMED_DAMAGE:
        yield f"{len(damaged) - MAX_NAMED_DAMAGE} more runs are damaged, and nothing is reused from them"


def origins_among(
    runs: Mapping[str, Manifest], *, except_for: Collection[Path], whole_paths: bool = False
) -> list[Origin]:
    """The runs that have steps, but for those in the directories `except_for`, which look into their own journals."""
    excepted = {directory.resolve() for directory in except_for}
    origins: list[Origin] = []
    for name, manifest in runs.items():
        directory = manifest.directory
        if directory in excepted or stat_of(directory / STEPS) == NO_FILE:
            continue
        system = manifest.identity.system
        if manifest.is_of_several_systems:
            system = ""
        if whole_paths:
            name = str(directory)
        origins.append(
            Origin(
                name=name,
                directory=directory,
                system=system,
                date=manifest.identity.current_date,
                sends_defaults=manifest.fixed_temperature is not None,
                last_worked_on=manifest.last_session.start,
            )
        )
    return origins


class Origins:
    """The finished steps of other runs, by key."""

    def __init__(self, origins: Iterable[Origin], notify: Callable[[str], None]) -> None:
        """`notify` is told of damaged journals, when they are read: at the first lookup."""
        # The latest counts: after a version that reused nothing, its steps are those to build on.
        self._origins = sorted(origins, key=lambda origin: (origin.last_worked_on, origin.name))
        self._notify = notify
        self._index: KeyIndex | None = None
        self._within: dict[Path, Mapping[tuple[str, str], Sequence[int]]] = {}

    def __len__(self) -> int:
        return len(self._origins)

    def records(self, key: str) -> Iterator[tuple[Origin, Mapping[str, Any]]]:
        """The intact records of a step, those of the run that was worked on last first."""
        if self._index is None:
            self._index = self._indexed()
        for place in self._index.lookup(key):
            origin = self._origins[place >> _OFFSET_BITS]
            record = _record_at(origin.journal, place & _OFFSET_MASK)
            if record is not None and record.get("key") == key and "response" in record:
                yield origin, record

    def within(self, origin: Origin, record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The lines of the steps that were made within a custom role's step, in the order of the journal."""
        if origin.directory not in self._within:
            self._within[origin.directory] = _steps_within(origin.journal)
        place = str(record.get("instance")), str(record.get("step"))
        records: list[Mapping[str, Any]] = []
        for offset in self._within[origin.directory].get(place, ()):
            inner = _record_at(origin.journal, offset)
            if inner is not None and "response" in inner:
                records.append(inner)
        return records

    def _indexed(self) -> KeyIndex:
        """Index all origins as one; a place is the number of an origin and an offset in its journal."""
        fingerprints: list[Array] = []
        places: list[Array] = []
        damaged: list[str] = []
        for number, origin in enumerate(self._origins):
            try:
                scan = scan_journal(origin.journal)
            except OSError as error:
                damaged.append(f"{origin.journal}: nothing is reused from it: {error.strerror}")
                continue
            if scan.damaged_lines:
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


class OwnSteps:
    """The finished steps of some journals, which are only read: those of a run that is not opened to be continued."""

    def __init__(self, journals: Sequence[Path]) -> None:
        """A journal may not exist. Damaged lines are not there; whoever continues the run says so."""
        origins: list[Origin] = []
        for journal in journals:
            directory = journal.parent.absolute()
            with suppress(OSError):
                directory = directory.resolve(strict=True)
            if stat_of(directory / STEPS) != NO_FILE:
                origins.append(Origin(journal.parent.name, directory, "", "", True, ""))
        self._origins = Origins(origins, _ignore)

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


def _record_at(path: Path, offset: int) -> Mapping[str, Any] | None:
    """The record of a finished step whose line begins at `offset`; None if it is none any more."""
    with suppress(OSError, ValueError), opened(path) as fd:
        line = line_at(fd, offset)
        if line is not None:
            record = foreign_json.loads(line)
            if isinstance(record, dict) and record.get("ok") is True:
                return record
    return None


def _steps_within(journal: Path) -> Mapping[tuple[str, str], Sequence[int]]:
    """The offsets of steps that were made within others, by instance and name of the outer step."""
    offsets: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for offset, record in placed_records(journal):
        step = str(record.get("step"))
        if record.get("ok") is not True:
            continue
        for part in _PARTS_OF_A_CALL:
            outer, separator, _ = step.partition(part)
            if separator:
                offsets[str(record.get("instance")), outer].append(offset)
                break
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
        for origin, record in self._origins.records(key):
            if not self._may_take(origin, record, rule):
                continue
            if notes is not None and record.get("notes") != notes:
                continue
            within: Sequence[Mapping[str, Any]] = ()
            request = record.get("request")
            if isinstance(request, Mapping) and "custom" in request:
                within = self._origins.within(origin, record)
            # The run that executed it, however often it was taken since.
            executed_by = record.get("reused")
            if not isinstance(executed_by, str) or not executed_by:
                executed_by = origin.name
            return ReusedStep(record, executed_by, within)
        return None

    def _may_take(self, origin: Origin, record: Mapping[str, Any], rule: ReuseRule) -> bool:
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
