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
    old, new = dict(_leaves(before)), dict(_leaves(after))
    changes: list[SettingChange] = []
    for name in dict.fromkeys([*old, *new]):
        values = old.get(name, ABSENT), new.get(name, ABSENT)
        if values[0] != values[1]:
            changes.append(SettingChange(name, *values))
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
    old_names, new_names = _file_names(before), _file_names(after)
    pairs = {name: name for name in old_names if name in new_names}
    if before.name == SOURCES:
        pairs |= _renamed_sources(old_names, new_names)
    changes: list[TextChange] = []
    for old_name, new_name in sorted(pairs.items()):
        old, new = _text_of(before / old_name, problems), _text_of(after / new_name, problems)
        if old != new:
            name = f"{before.name}/{old_name}"
            if new_name != old_name:
                name += f", now {before.name}/{new_name}"
            changes.append(TextChange(name, old, new))
    for name in sorted(set(old_names) - pairs.keys()):
        changes.append(TextChange(f"{before.name}/{name}", _text_of(before / name, problems), None))
    for name in sorted(set(new_names) - set(pairs.values())):
        changes.append(TextChange(f"{before.name}/{name}", None, _text_of(after / name, problems)))
    return changes


def _renamed_sources(old_names: Sequence[str], new_names: Sequence[str]) -> dict[str, str]:
    """Sources of the same role whose names begin with the labels of two systems (LABEL.ROLE.SUFFIX)."""
    old_by_role = {_role_of(name): name for name in old_names if name not in new_names}
    pairs: dict[str, str] = {}
    for name in new_names:
        if name not in old_names and _role_of(name) in old_by_role:
            pairs[old_by_role.pop(_role_of(name))] = name
    return pairs


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


def _text_of(path: Path, problems: list[str]) -> str:
    """The text of a file; "" and a problem for one that is too long or cannot be read."""
    try:
        with opened(path.parent.resolve() / path.name) as fd:
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
    judge_before, old = _scores_in(before)
    judge_after, new = _scores_in(after)
    if not old or not new:
        return None
    common = [id for id in old if id in new]
    changes: list[ScoreChange] = []
    for id in common:
        if old[id] != new[id]:
            changes.append(ScoreChange(id, old[id], new[id]))
    changes.sort(key=lambda score: (-abs(score.change), score.id))
    mean_change = None
    if common:
        mean_change = math.fsum(score.change for score in changes) / len(common)
    return ScoreChanges(
        judge_before=judge_before,
        judge_after=judge_after,
        n_common=len(common),
        n_before=len(old) - len(common),
        n_after=len(new) - len(common),
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
