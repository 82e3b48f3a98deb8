"""Which version of a run a command works on, and from which other runs its steps may be taken.

The same settings resume the version that has them, the one that was worked on last first; other settings make a new one
beside it. The date in the agent's prompt is one of the settings that nobody types: it is that of the runs over the same
data by the same agent, since otherwise nothing of the agent could be reused from the next day on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from cts_async.config import CommandConfig
from cts_async.engine.events import Events, Notice
from cts_async.errors import UsageError
from cts_async.runs.identity import resumed_identity
from cts_async.runs.manifest import Manifest, manifest_of, read_manifest
from cts_async.runs.open_run import Place
from cts_async.runs.reuse import Origins, SystemSource, places_of_origins
from cts_async.runs.versions import (
    RunVersion,
    changed_settings,
    describe_changes,
    next_version,
    version_of,
    versions_of_series,
)


@dataclass(frozen=True, slots=True)
class Series:
    """The versions of one run: the directory of the first, and where tables see the system."""

    first_directory: Path
    lineage: str = ""
    """The name that tables know it by; "" for that of the first version's directory."""
    earlier_names: tuple[Path, ...] = ()
    """Directories in which versions of this package up to 0.13 would have made this run."""

    def versions(self) -> list[RunVersion]:
        """The versions that exist, the one that was worked on last first."""
        versions = versions_of_series(self.first_directory)
        for directory in self.earlier_names:
            if directory.is_dir() and not directory.is_symlink():
                versions.append(version_of(manifest_of(directory)))
        return sorted(versions, key=lambda version: version.recency, reverse=True)


@dataclass(frozen=True, slots=True)
class ChosenVersion:
    """The version that a command works on."""

    directory: Path
    number: int = 1
    lineage: str = ""
    changed: tuple[str, ...] = ()
    """What changed from the version that it was compared with."""
    changed_from: str = ""
    is_new: bool = True
    reuses: bool = True
    """Whether steps of other runs may be taken."""
    recorded_reuses: bool | None = None
    """What run.json says of this for a version that is resumed: true once a command was allowed to take some."""

    @property
    def begun_from(self) -> Path | None:
        """The directory of the version that a new one was compared with; None for a first one or a resumed one."""
        if not (self.is_new and self.changed_from):
            return None
        return self.directory.parent / self.changed_from

    @property
    def manifest_notes(self) -> dict[str, Any]:
        """What run.json records of it."""
        notes: dict[str, Any] = {"run_version": self.number}
        if self.lineage and self.lineage != self.directory.name:
            notes["lineage"] = self.lineage
        if self.changed_from:
            notes["changed"] = list(self.changed)
            notes["changed_from"] = self.changed_from
        may_have_reused = self.recorded_reuses
        if self.is_new:
            may_have_reused = self.reuses
        if may_have_reused is not None:  # not known of a run that version 0.13 began, which took none
            notes["reuses"] = may_have_reused
        return notes

    @property
    def announcement(self) -> str:
        """What made a new version of an older one; "" for a first version, and for one that is resumed."""
        if not self.is_new or self.number == 1:
            return ""
        change = "nothing reused (--new)"
        if self.changed:
            change = f"settings changed: {describe_changes(self.changed)}"
        return f"{self.directory.name}: {change}; version {self.number}"


def choose_version(
    series: Series,
    identity: Mapping[str, Any],
    config: CommandConfig,
    *,
    agrees: Callable[[Manifest], bool] | None = None,
) -> ChosenVersion:
    """The version that has these settings, or a new one. Raises InputError for a damaged manifest.

    `agrees` says whether a run is one of these settings, where `identity` alone does not.
    """
    if series.first_directory.is_symlink():  # refused where it is opened
        return ChosenVersion(series.first_directory)
    versions = series.versions()
    for version in versions:
        manifest = read_manifest(version.directory)
        # A directory without a manifest: nothing was begun there, or `open_run_files` says what it holds instead.
        if manifest is None:
            return ChosenVersion(version.directory, lineage=series.lineage, reuses=_may_reuse(config))
        if resumed_identity(manifest, identity) is None or not (agrees is None or agrees(manifest)):
            continue
        if config.new and not _is_unfinished_new(manifest):
            continue
        # What was begun without, by --new or by an earlier version of this package, is finished without.
        reuses = _may_reuse(config) and (manifest.reuses is True or bool(config.reuse))
        return ChosenVersion(
            directory=version.directory,
            number=version.number,
            lineage=series.lineage,
            changed=version.changed,
            changed_from=version.changed_from,
            is_new=False,
            reuses=reuses,
            recorded_reuses=reuses or manifest.reuses,
        )
    directory, number = next_version(series.first_directory)
    chosen = ChosenVersion(directory, number, series.lineage, reuses=_may_reuse(config))
    if not versions:
        return chosen
    latest = versions[0].directory
    changed = changed_settings(manifest_of(latest).raw_identity, identity)
    return replace(chosen, changed=tuple(changed), changed_from=latest.name)


def _may_reuse(config: CommandConfig) -> bool:
    return not (config.new or config.no_reuse)


def _is_unfinished_new(manifest: Manifest) -> bool:
    """Whether `--new` made this version and it did not end: the same command resumes it."""
    session = manifest.last_session
    return manifest.reuses is False and (bool(session.stopped) or not session.end)


# --- The date


def choose_date(
    typed: str | None,
    series: Iterable[Series],
    n_resumed: Callable[[str], int],
    folder: Callable[[], Iterable[Manifest]],
    today: str,
) -> tuple[str, str]:
    """The date in the agent's prompt, and the name of the run that it is taken from ("" for none).

    As `typed`; else the one with which most versions are resumed (`n_resumed`), of several the last one worked with;
    else that of the run that was worked on last in `folder`, which has those over the same data by the same agent; else
    `today`.
    """
    if typed:
        return typed, ""
    dates = recorded_dates(series)
    # A reference point may have been made at another date meanwhile, for another system: that must not move this one.
    chosen_date, most_resumed = "", 0
    for recorded in dates:
        n = n_resumed(recorded)
        if n > most_resumed:
            chosen_date, most_resumed = recorded, n
    if chosen_date:
        return chosen_date, dates[chosen_date]
    latest: Manifest | None = None
    for manifest in folder():
        if not _is_date(manifest.identity.current_date):
            continue
        if latest is None or manifest.last_session.start > latest.last_session.start:
            latest = manifest
    if latest is not None:
        return latest.identity.current_date, latest.directory.name
    return today, ""


def recorded_dates(series: Iterable[Series]) -> dict[str, str]:
    """The dates in the agent's prompt of all versions, each with the name of a version's directory."""
    dates: dict[str, str] = {}
    for one_series in series:
        for version in one_series.versions():
            recorded = manifest_of(version.directory).identity.current_date
            if _is_date(recorded):
                dates.setdefault(recorded, version.directory.name)
    return dates


def _is_date(text: str) -> bool:
    """Whether a recorded date is one: the agent's prompt has it, and a folder's manifests may be anybody's."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


# --- Steps of other runs


@dataclass(frozen=True, slots=True)
class Reuse:
    """Where a command looks for steps of other runs."""

    folder: Path
    """The folder of its own runs."""
    parts: tuple[Path, ...] = ()
    """Folders within it that alone are searched; empty: all of it is."""
    other_folders: tuple[Path, ...] = ()
    """Further folders (`--reuse`)."""
    shares_sampled: bool = False

    def check(self) -> None:
        """Raise UsageError for a folder of `--reuse` that does not exist."""
        for folder in self.other_folders:
            if not folder.is_dir():
                raise UsageError(f"--reuse {folder}: no such folder")

    def origins(self, except_for: Sequence[Path], events: Events) -> Origins | None:
        """The runs that have steps, without those that the command itself writes; None if there are none."""

        def notify(text: str) -> None:
            events.emit(Notice(text))

        own = {directory.resolve() for directory in except_for}
        home = self.folder.resolve()
        places: dict[Path, Place] = {}
        for folder in (self.folder, *self.other_folders):
            parts: tuple[Path, ...] = ()
            if folder is self.folder:
                parts = self.parts
            # The same folder may have been named by another path, too.
            is_elsewhere = folder.resolve() != home
            for place in places_of_origins(folder, parts, whole_paths=is_elsewhere, notify=notify):
                if place.path not in own:
                    places.setdefault(place.path, place)
        if not places:
            return None
        return Origins(places.values(), notify)

    def source(self, origins: Origins, system: str, *, date: str = "", sends_defaults: bool) -> SystemSource:
        """Where one system looks its steps up."""
        return SystemSource(
            origins,
            system,
            date=date,
            sends_defaults=sends_defaults,
            shares_sampled=self.shares_sampled,
        )
