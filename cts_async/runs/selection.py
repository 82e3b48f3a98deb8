"""Runs by what users name: run directories, folders of them, patterns, and files of judged answers.

Of runs only manifests are read here; `finished` reads the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.errors import InputError, UsageError
from cts_async.runs import files
from cts_async.runs.manifest import ORIG, Manifest, manifest_of
from cts_async.runs.settings import setting_of, settings_agree
from cts_async.runs.versions import RunVersion, newest_versions, version_of

_MAX_NAMED: Final = 3
"""Texts that a sentence lists; it counts the others."""
SHOW_OLDER: Final = "--all-versions shows them"
"""What to do about older versions that are left out."""
SHOW_OLDER_IN_PYTHON: Final = "all_versions=True shows them"
JUDGE_OLDER: Final = "name them to judge them"
"""The same where judging each of them costs money."""


def join_first(texts: Sequence[str]) -> str:
    """Join the first of several texts, and say how many more there are."""
    joined = "; ".join(texts[:_MAX_NAMED])
    if len(texts) > _MAX_NAMED:
        joined += f"; and {len(texts) - _MAX_NAMED} more"
    return joined


@dataclass(frozen=True, slots=True)
class RunPath:
    """A run directory or a judged file, and whether it was named itself or found in a folder that was named."""

    path: Path
    named: bool
    """By its path or by a pattern: a damaged or unfinished one is not to be left out with the others of a folder."""
    by_path: bool = False
    """By its path: an older version is not to be left out either."""


def _ignore(note: str) -> None:
    pass


def find_runs(
    words: Sequence[str],
    on_note: Callable[[str], None] = _ignore,
    *,
    all_versions: bool = False,
    remedy: str = SHOW_OLDER,
) -> list[RunPath]:
    """Return the run directories and judged files that `words` name, each once, sorted by path.

    The order of `words` must not change a number. A folder that is not a run stands for the runs in it, a pattern for
    all that match; of both only the newest versions are returned unless `all_versions` (see `without_older_versions`,
    which tells `on_note` how many were left out). Built gold is left out if there is anything else. Raises InputError
    for a word that names nothing.
    """
    # By resolved path: two words may name one run, through a link, or as a folder and as a run in it.
    runs: dict[Path, RunPath] = {}
    for path, by_path in _paths_of(words):
        if path.is_file() or _has_results(path):
            _add_run(runs, path, named=True, by_path=by_path)
            continue
        inside = _runs_inside(path)
        # Without runs inside, it is a run that has no results yet.
        if not inside:
            _add_run(runs, path, named=True, by_path=by_path)
        for directory in inside:
            _add_run(runs, directory, named=False, by_path=False)
    # Builds of gold lie beside runs in a folder; alone they are what somebody wants to see.
    scored_paths = set(files.without((run.path for run in runs.values()), files.is_gold_build))
    scored = [runs[place] for place in sorted(runs) if runs[place].path in scored_paths]
    if all_versions:
        return scored
    return without_older_versions(scored, on_note, remedy)


def _paths_of(words: Sequence[str]) -> Iterator[tuple[Path, bool]]:
    """Yield each path that words name or match, and whether it was named itself."""
    named: dict[Path, bool] = {}
    for word in words:
        for path in files.paths_named([word], "no such run, folder or file; cts run and cts demo make runs"):
            named[path] = named.get(path, False) or Path(word).exists()
    # A report is passed over beside anything else that any word names.
    for path in files.without(named, files.is_report):
        yield path, named[path]


def _add_run(runs: dict[Path, RunPath], path: Path, *, named: bool, by_path: bool) -> None:
    """Add a run; one that another word named itself stays named, and is not left out with the others of a folder."""
    place = path.resolve()
    if place in runs:
        named = named or runs[place].named
        by_path = by_path or runs[place].by_path
    runs[place] = RunPath(path, named, by_path)


def without_older_versions(
    runs: Sequence[RunPath], on_note: Callable[[str], None], remedy: str = SHOW_OLDER
) -> list[RunPath]:
    """Return the newest version of each lineage in each folder, and every run that was named by its path.

    This is the one decision about versions that all commands share. An older version of orig stays where runs that stay
    have no other orig to be compared with, since their system has not been run again yet. `on_note` is told how many
    are left out, and the `remedy`.
    """
    by_path = {run.path for run in runs if run.by_path}
    left_out = older_directories([manifest_of(run.path) for run in runs if run.path.is_dir()], by_path)
    if len(left_out) == 1:
        on_note(f"1 older version left out ({remedy.replace('them', 'it')})")
    elif left_out:
        on_note(f"{len(left_out)} older versions left out ({remedy})")
    return [run for run in runs if run.path not in left_out]


def older_directories(manifests: Sequence[Manifest], by_path: Collection[Path]) -> set[Path]:
    """Return the directories of the older versions that `without_older_versions` leaves out; none in `by_path`."""
    _, older = newest_versions(manifests)
    left_out = {manifest.directory for manifest in older if manifest.directory not in by_path}
    if not left_out:
        return left_out
    shown: list[Manifest] = []
    for manifest in manifests:
        if manifest.directory not in left_out:
            shown.append(manifest)
    left_out -= _needed_origs(shown, [manifest for manifest in older if manifest.directory in left_out])
    return left_out


def goes_with(orig: Manifest, manifest: Manifest) -> bool:
    """Whether a run of orig lies in the folder of another run, and can be compared with it."""
    if orig.directory.absolute().parent != manifest.directory.absolute().parent:
        return False
    return settings_agree(setting_of(orig), setting_of(manifest))


def _needed_origs(shown: Sequence[Manifest], left_out: Sequence[Manifest]) -> set[Path]:
    """Return the newest of the older origs that each shown Clarifier's run without an orig can be compared with."""
    origs = [manifest for manifest in shown if manifest.identity.system == ORIG]
    older_origs = [manifest for manifest in left_out if manifest.identity.system == ORIG]
    older_origs.sort(key=lambda manifest: version_of(manifest).recency, reverse=True)
    needed: set[Path] = set()
    for manifest in shown:
        if not manifest.players.get("clarifier") or any(goes_with(orig, manifest) for orig in origs):
            continue
        for orig in older_origs:
            if goes_with(orig, manifest):
                origs.append(orig)
                needed.add(orig.directory)
                break
    return needed


def _runs_inside(folder: Path) -> list[Path]:
    """Return the runs right inside a folder. Raises InputError if there are none and the folder is no run either."""
    inside: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and _has_run_files(path):
            inside.append(path)
    # A manifest alone belongs to a run that has just begun, or stands above the directories of several candidates.
    if not inside and not _has_run_files(folder):
        raise InputError(
            folder,
            f"not a run directory: {files.MANIFEST} not found, here or one folder below (nor {files.PER_ITEM})",
        )
    return inside


def _has_results(path: Path) -> bool:
    return (path / files.RESULTS).is_file() or (path / files.PER_ITEM).is_file()


def _has_run_files(path: Path) -> bool:
    return (path / files.MANIFEST).is_file() or _has_results(path)


def run_folders(
    words: Iterable[Path],
    on_note: Callable[[str], None] = _ignore,
    *,
    all_versions: bool = False,
    remedy: str = SHOW_OLDER,
) -> list[Path]:
    """Run directories: each named directly or by a pattern, and all runs in a folder that is not a run itself.

    In the order of the words. Older versions are left out as by `find_runs`. A word that names nothing is returned
    unchanged, so that reading it reports the error. Gold builds are left out.
    """
    by_path: dict[Path, bool] = {}
    for word in words:
        for path in files.matching(word) or [word]:
            by_path[path] = by_path.get(path, False) or path == word
    # A run may be named by itself and by its folder: it stands where it was named first.
    runs_by_directory: dict[Path, RunPath] = {}
    for path in files.without(by_path, files.is_report):
        for directory in files.runs_at(path):
            is_word = directory == path and by_path[path]
            if directory in runs_by_directory:
                is_word = is_word or runs_by_directory[directory].by_path
            runs_by_directory[directory] = RunPath(directory, named=is_word, by_path=is_word)
    runs = list(runs_by_directory.values())
    if not all_versions:
        runs = without_older_versions(runs, on_note, remedy)
    return files.without((run.path for run in runs), files.is_gold_build)


def check_same_data(paths: Iterable[Path]) -> None:
    """Raise UsageError if runs are over different data or judged by different gold: their scores cannot be paired.

    Only manifests are read. Judged candidates know their gold only, and files without a manifest nothing: these
    go with any.
    """
    runs_by_data: dict[tuple[str, str, str], list[str]] = {}
    for path in paths:
        data = manifest_of(path).identity.dataset
        # A dataset whose queries carry their nuggets has no gold file of its own.
        gold_sha256 = data.gold_sha256 or data.sha256
        if gold_sha256:
            runs_by_data.setdefault((data.name, data.sha256, gold_sha256), []).append(str(path))
    data_digests: set[str] = set()
    gold_digests: set[str] = set()
    for _, sha256, gold_sha256 in runs_by_data:
        gold_digests.add(gold_sha256)
        # Judged candidates name their gold alone.
        if sha256:
            data_digests.add(sha256)
    if len(data_digests) <= 1 and len(gold_digests) <= 1:
        return
    described: list[str] = []
    for (name, sha256, gold_sha256), runs in runs_by_data.items():
        digests = f"sha256 {sha256[:8] or '-'}, gold {gold_sha256[:8]}"
        described.append(f"{name or 'candidates'} ({digests}): {join_first(runs)}")
    raise UsageError(
        f"runs of different data cannot be paired: {'; '.join(described)}. Name runs of one of these"
    )


def sibling_origs(directories: Iterable[Path]) -> list[Path]:
    """Return the newest run of orig in the folder of each of these run directories that it can be compared with."""
    origs: dict[Path, None] = {}
    manifests_by_folder: dict[Path, list[Manifest]] = {}
    for directory in directories:
        manifest = manifest_of(directory)
        # Resolved, so that each folder is searched once.
        place = directory.resolve().parent
        if place not in manifests_by_folder:
            manifests_by_folder[place] = [manifest_of(path) for path in sorted(place.iterdir())]
        newest: RunVersion | None = None
        for sibling in manifests_by_folder[place]:
            # Nothing is compared with an orig of which nothing but its data is known.
            if sibling.identity.system != ORIG or sibling.agent != manifest.agent:
                continue
            if sibling.identity.dataset != manifest.identity.dataset:
                continue
            if not settings_agree(setting_of(sibling), setting_of(manifest)):
                continue
            version = version_of(sibling)
            if newest is None or version.recency > newest.recency:
                newest = version
        if newest is not None:
            # In the folder as its user named it, since it is printed.
            origs[directory.parent / newest.directory.name] = None
    return list(origs)
