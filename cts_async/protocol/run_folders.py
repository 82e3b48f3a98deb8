"""Existing run directories: which ones the user's words name, what they hold, and their data."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.datasets import Dataset, open_dataset
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError, UsageError
from cts_async.protocol.run_files import MANIFEST

GOLDBUILD: Final = "goldbuild"
"""The system name of a `cts gold` build."""
TALK: Final = "talk"
"""The task of a `cts converse` run: conversations without search and answer."""
REPORT: Final = "report.html"
"""The file that `cts report` writes beside the runs."""

Tell: TypeAlias = Callable[[str], None]
"""Receives a remark that a reader of the numbers has to know."""


def run_folders(words: Iterable[Path]) -> list[Path]:
    """Run directories: each named directly or by a pattern, and all runs in a folder that is not a run itself.

    A word that names nothing is returned unchanged, so that reading it reports the error. Gold builds are left out.
    """
    meant = without_reports(path for word in words for path in matching(word) or [word])
    return without_gold_builds(path for named in meant for path in _runs_at(named))


def matching(word: Path | str) -> list[Path]:
    """The path itself if it exists, else the sorted paths that match it as a pattern."""
    path = Path(word)
    return [path] if path.exists() else sorted(map(Path, glob.glob(str(word), recursive=True)))


def _runs_at(path: Path) -> list[Path]:
    within = [] if (path / MANIFEST).exists() else sorted(path.glob(f"*/{MANIFEST}"))
    return [manifest.parent for manifest in within] or [path]


def paths_named(words: Iterable[Path | str], missing: str) -> list[Path]:
    """Paths that the words name directly or as patterns, without reports. InputError with `missing` for no path."""
    found: list[Path] = []
    for word in words:
        paths = matching(word)
        if not paths:
            raise InputError(Path(word), missing)
        found += paths
    return without_reports(found)


def without_reports(paths: Iterable[Path]) -> list[Path]:
    """`paths` without reports, which `runs/*` matches too; unchanged if there is nothing else."""
    every = list(paths)
    return [path for path in every if path.name != REPORT] or every


def without_gold_builds(paths: Iterable[Path]) -> list[Path]:
    """`paths` without gold builds, which share a folder with the runs; unchanged if there is nothing else."""
    every = list(paths)
    return [path for path in every if not is_gold_build(path)] or every


def without_conversations(paths: Iterable[Path]) -> list[Path]:
    """`paths` without runs of `cts converse`, which have no answers; unchanged if there is nothing else."""
    every = list(paths)
    return [path for path in every if not is_conversation(path)] or every


def is_gold_build(directory: Path) -> bool:
    """Whether `cts gold` made this directory; False without a valid manifest."""
    return _identity(directory).get("system") == GOLDBUILD


def is_conversation(directory: Path) -> bool:
    """Whether `cts converse` made this directory; False without a valid manifest."""
    return _identity(directory).get("task") == TALK


def _identity(directory: Path) -> Mapping[str, Any]:
    """The manifest's identity; empty without a valid manifest."""
    identity = manifest_of(directory).get("identity")
    return identity if isinstance(identity, dict) else {}


def manifest_of(directory: Path) -> Mapping[str, Any]:
    """A directory's manifest; empty if it is missing or invalid."""
    try:
        return (read_manifest(directory) if directory.is_dir() else None) or {}
    except InputError:
        return {}


# --- The data of a run


OTHER: Final = "not the file this run was made with"


def reopen_data(manifest: Mapping[str, Any], spec: str | None = None) -> Dataset:
    """The dataset of a run, opened from the place that its manifest records, or from `spec`.

    Its gold may have changed or be missing, see `dataset.gold_path`. Raises UsageError, InputError for other data.
    """
    noted = manifest.get("data", {})
    expected = (manifest.get("identity", {}).get("data") or {}).get("sha256")
    given = spec is not None
    spec = spec or noted.get("spec")
    if not spec:
        raise UsageError("run.json does not record where the data is")
    gold = Path(noted["gold"]) if noted.get("gold") else None
    try:
        dataset = open_dataset(
            spec,
            gold if gold and gold.exists() else None,
            noted.get("fields") or {},
            skip_bad_gold=bool(noted.get("skip_bad_gold")),
        )
    except InputError as error:
        if given or not Path(error.path).exists():
            raise
        # A manifest is untrusted and may name any file: do not quote that file's content in a message.
        raise InputError(error.path, OTHER) from None
    if dataset.sha256() != expected:
        raise InputError(dataset.path, f"{OTHER} (its sha256 differs)")
    return dataset
