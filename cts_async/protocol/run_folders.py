"""Which directories are meant where a user names runs, and which of them hold no system's run."""

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
"""What `cts gold` writes in the place of a system's name."""
TALK: Final = "talk"
"""What `cts converse` calls its task: conversations alone, without a search and an answer."""
REPORT: Final = "report.html"
"""What `cts report` writes beside the runs that it is of."""

Tell: TypeAlias = Callable[[str], None]
"""Takes a line that a reader of the numbers has to know."""


def run_folders(words: Iterable[Path]) -> list[Path]:
    """Run directories, each by its name or a pattern, and all runs in a folder that is none itself.

    A word behind which there is nothing stays as it is: what reads it says so. Built gold is left out.
    """
    meant = without_reports(path for word in words for path in matching(word) or [word])
    return without_gold_builds(path for named in meant for path in _runs_at(named))


def matching(word: Path | str) -> list[Path]:
    """The path itself where there is one, else those that it matches as a pattern, in order; [] for neither."""
    path = Path(word)
    return [path] if path.exists() else sorted(map(Path, glob.glob(str(word), recursive=True)))


def _runs_at(path: Path) -> list[Path]:
    within = [] if (path / MANIFEST).exists() else sorted(path.glob(f"*/{MANIFEST}"))
    return [manifest.parent for manifest in within] or [path]


def named(words: Iterable[Path | str], missing: str) -> list[Path]:
    """What paths and patterns name, but for reports. InputError with `missing` for one behind which there is nothing."""
    found: list[Path] = []
    for word in words:
        paths = matching(word)
        if not paths:
            raise InputError(Path(word), missing)
        found += paths
    return without_reports(found)


def without_reports(paths: Iterable[Path]) -> list[Path]:
    """`paths` but for reports, which `runs/*` names as well as runs; where there is nothing else they stay."""
    every = list(paths)
    return [path for path in every if path.name != REPORT] or every


def without_gold_builds(paths: Iterable[Path]) -> list[Path]:
    """`paths` but for the builds of gold among them, which stand beside the runs that are scored by it.

    Where there is nothing else they stay, and whoever reads them says what they are.
    """
    every = list(paths)
    return [path for path in every if not is_gold_build(path)] or every


def without_talks(paths: Iterable[Path]) -> list[Path]:
    """`paths` but for conversations without an answer; where there is nothing else they stay, as gold does."""
    every = list(paths)
    return [path for path in every if not is_talk(path)] or every


def is_gold_build(directory: Path) -> bool:
    """Whether `cts gold` made this directory; no, where its manifest is none."""
    return _identity(directory).get("system") == GOLDBUILD


def is_talk(directory: Path) -> bool:
    """Whether `cts converse` made this directory; no, where its manifest is none."""
    return _identity(directory).get("task") == TALK


def _identity(directory: Path) -> Mapping[str, Any]:
    """What a directory's manifest says it is; nothing, where that is no manifest."""
    identity = manifest_of(directory).get("identity")
    return identity if isinstance(identity, dict) else {}


def manifest_of(directory: Path) -> Mapping[str, Any]:
    """A directory's manifest; nothing, where there is none that can be read."""
    try:
        return (read_manifest(directory) if directory.is_dir() else None) or {}
    except InputError:
        return {}


# --- The data that a run was over, opened again from where its manifest says it was.


OTHER: Final = "not the file this run was made with"


def opened_again(manifest: Mapping[str, Any], spec: str | None = None) -> Dataset:
    """The dataset, `spec` where it is given. Raises UsageError where it is gone, or not the one of this run.

    Its gold may be another, or none: `dataset.gold_path` says.
    """
    noted = manifest.get("data", {})
    expected = (manifest.get("identity", {}).get("data") or {}).get("sha256")
    given = spec is not None
    spec = spec or noted.get("spec")
    if not spec:
        raise UsageError("run.json does not say where it is")
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
        # A manifest is anybody's file: what another file holds is not quoted where it may be passed on.
        raise InputError(error.path, OTHER) from None
    if dataset.sha256() != expected:
        raise InputError(dataset.path, f"{OTHER} (its sha256 differs)")
    return dataset
