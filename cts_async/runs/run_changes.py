"""What differs between two runs: settings, the texts that were used, and scores.

Both directories may come from anywhere: files are read without following links, and bounded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cts_async.errors import InputError
from cts_async.runs.files import MANIFEST, PROMPTS, SOURCES, results_of
from cts_async.runs.index import opened
from cts_async.runs.manifest import Manifest, require_manifest
from cts_async.runs.results import checked_results, score_of

_NOT_SETTINGS: Final = frozenset(
    {"identity", "sessions", "forecast", "run_version", "lineage", "changed", "changed_from"}
)
"""Fields of a manifest that no notes on settings are in."""
MAX_TEXT_BYTES: Final = 512 << 10
"""A longer prompt or source is not compared line by line; shipped prompts have a few kilobytes."""
_MAX_FILES: Final = 1_000
ABSENT: Final = "(absent)"
"""The value of a setting that a run does not have, which null differs from."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A field of `run.json` that differs: dotted name, and both values as JSON has them."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class TextChange:
    """A prompt, or a source of a role, that differs; None where a run does not have it."""

    name: str
    """Its path in the run directory; both where they differ, as `sources/a.clarifier.py, now sources/b.clarifier.py`."""
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """An instance that both runs have a score of, 0 to 100."""

    id: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class ScoreChanges:
    """The scoring judges' scores of two runs, instance by instance."""

    judge_before: str
    judge_after: str
    n_common: int
    """Instances that both runs have a score of."""
    n_before: int
    n_after: int
    """Instances that only the one run has a score of."""
    changes: tuple[ScoreChange, ...]
    """The scores that differ, the largest change first."""
    mean_change: float | None
    """Over the common instances; None without any."""


@dataclass(frozen=True, slots=True)
class RunChanges:
    """All that differs between two runs."""

    before: Manifest
    after: Manifest
    settings: tuple[SettingChange, ...]
    """What determines results."""
    notes: tuple[SettingChange, ...]
    """The other fields: command, version, paths, prices."""
    texts: tuple[TextChange, ...]
    scores: ScoreChanges | None
    """None where a run has no results, or they were not compared."""
    problems: tuple[str, ...] = ()
    """What could not be compared."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs that determines results, and no score does."""
        has_scores = self.scores is not None and bool(self.scores.changes)
        return not (self.settings or self.texts or has_scores or self.problems)


def origin_of(directory: Path) -> Path:
    """The directory of the version that a version was compared with when it was made. Raises InputError."""
    manifest = require_manifest(directory)
    name = manifest.changed_from
    if not name:
        raise InputError(directory, "is the first version of its series; name the run to compare it with")
    # The manifest may come from anywhere: the name of a neighbour, and no path.
    if name != Path(name).name:
        raise InputError(directory / MANIFEST, "has to be the name of a run", field="changed_from")
    origin = directory.absolute().parent / name
    if not (origin / MANIFEST).is_file():
        raise InputError(directory, f"came from {name}, which is gone; name the run to compare it with")
    return directory.parent / name


def compare_two(before: Path, after: Path, *, with_scores: bool = True) -> RunChanges:
    """Compare two run directories, their results only `with_scores`. Raises InputError for one that is no run."""
    manifest, manifest_after = require_manifest(before), require_manifest(after)
    problems: list[str] = []
    texts: list[TextChange] = []
    for folder in (PROMPTS, SOURCES):
        texts += _text_changes(before / folder, after / folder, problems)
    settings = _setting_changes(manifest.raw_identity, manifest_after.raw_identity)
    shown_prompts = {f"{PROMPTS}.{Path(text.name).stem}" for text in texts}
    scores = None
    try:
        if with_scores:
            scores = _score_changes(manifest, manifest_after)
    except (InputError, OSError) as error:
        problems.append(f"scores cannot be compared: {error}")
    return RunChanges(
        before=manifest,
        after=manifest_after,
        # A prompt's text says more than its digest.
        settings=tuple(change for change in settings if change.name not in shown_prompts),
        notes=tuple(_setting_changes(_notes_of(manifest), _notes_of(manifest_after))),
        texts=tuple(texts),
        scores=scores,
        problems=tuple(problems),
    )


def _notes_of(manifest: Manifest) -> Mapping[str, Any]:
    return {name: value for name, value in manifest.raw.items() if name not in _NOT_SETTINGS}


# --- Settings


def _setting_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SettingChange]:
    values_before, values_after = dict(_leaves(before)), dict(_leaves(after))
    changes: list[SettingChange] = []
    # In the order of the files, which have what matters most first.
    for name in values_before | values_after:
        change = SettingChange(name, values_before.get(name, ABSENT), values_after.get(name, ABSENT))
        if change.before != change.after:
            changes.append(change)
    return changes


def _leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested objects by dotted names; lists and empty objects are values."""
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            yield from _leaves(item, f"{name}.")
        else:
            yield name, item


# --- Texts


def _text_changes(before: Path, after: Path, problems: list[str]) -> list[TextChange]:
    """The files of a folder that differ between two runs; what cannot be read is added to `problems`."""
    names_before, names_after = _file_names(before), _file_names(after)
    pairs: list[tuple[str | None, str | None]] = []
    renamed: dict[str, str] = {}
    if before.name == SOURCES:
        renamed = _renamed_sources(names_before, names_after)
    for name in names_before:
        if name in names_after:
            pairs.append((name, name))
        else:
            pairs.append((name, renamed.get(name)))
    for name in names_after:
        if name not in names_before and name not in renamed.values():
            pairs.append((None, name))
    changes: list[TextChange] = []
    for name_before, name_after in pairs:
        text_before = _text_of(before, name_before, problems)
        text_after = _text_of(after, name_after, problems)
        if text_before != text_after:
            name = f"{before.name}/{name_before or name_after}"
            if name_before and name_after and name_before != name_after:
                name += f", now {before.name}/{name_after}"
            changes.append(TextChange(name, text_before, text_after))
    return changes


def _renamed_sources(names_before: Sequence[str], names_after: Sequence[str]) -> dict[str, str]:
    """Sources of the same role whose names begin with the labels of two systems (LABEL.ROLE.SUFFIX)."""
    by_role: dict[str, str] = {}
    for name in names_before:
        if name not in names_after:
            by_role[_role_of(name)] = name
    renamed: dict[str, str] = {}
    for name in names_after:
        role = _role_of(name)
        if name not in names_before and role in by_role:
            renamed[by_role.pop(role)] = name
    return renamed


def _role_of(name: str) -> str:
    """`clarifier` of `my_lab.ask-k2.clarifier.py`."""
    return Path(name).stem.rpartition(".")[2]


def _file_names(folder: Path) -> list[str]:
    """The files of a folder that is no link; none without one."""
    if folder.is_symlink():
        return []
    names: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                names.append(entry.name)
    return sorted(names)[:_MAX_FILES]


def _text_of(folder: Path, name: str | None, problems: list[str]) -> str | None:
    """The text of a file; None without one, "" and a problem where it is too long or cannot be read."""
    if name is None:
        return None
    path = folder / name
    try:
        with opened(folder.resolve() / name) as fd:
            content = os.pread(fd, MAX_TEXT_BYTES + 1, 0)
    except OSError as error:
        problems.append(f"{path}: cannot be read ({error.strerror or error})")
        return ""
    if len(content) > MAX_TEXT_BYTES:
        problems.append(f"{path}: is larger than {MAX_TEXT_BYTES >> 10} kB and was not compared")
        return ""
    return content.decode(errors="backslashreplace")


# --- Scores


def _score_changes(before: Manifest, after: Manifest) -> ScoreChanges | None:
    """The scores that differ; None where a run has no score. Raises InputError."""
    judge_before, scores_before = _scores_in(before)
    judge_after, scores_after = _scores_in(after)
    if not scores_before or not scores_after:
        return None
    common = [id for id in scores_before if id in scores_after]
    changes: list[ScoreChange] = []
    for id in common:
        if scores_before[id] != scores_after[id]:
            changes.append(ScoreChange(id, scores_before[id], scores_after[id]))
    # By id where changes are equal: the order of results is that in which they were finished.
    changes.sort(key=lambda score: (-abs(score.change), score.id))
    mean_change = None
    if common:
        mean_change = math.fsum(score.change for score in changes) / len(common)
    return ScoreChanges(
        judge_before=judge_before,
        judge_after=judge_after,
        n_common=len(common),
        n_before=len(scores_before) - len(common),
        n_after=len(scores_after) - len(common),
        changes=tuple(changes),
        mean_change=mean_change,
    )


def _scores_in(manifest: Manifest) -> tuple[str, Mapping[str, float]]:
    """The scoring judge, and its scores by instance."""
    judge = manifest.judge
    scores: dict[str, float | None] = {}
    for line in checked_results(manifest.directory / results_of(manifest.directory)):
        # A later line of an instance supersedes the earlier one.
        scores[line["id"]] = score_of(line)
        judge = judge or str(line.get("judge") or "")
    return judge, {id: score for id, score in scores.items() if score is not None}
