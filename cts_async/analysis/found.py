"""From what a user names to runs: directories, folders of them, patterns, files of judged answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from cts_async.analysis.conversations import read_talk
from cts_async.analysis.judged_files import read_judged
from cts_async.analysis.runs import FinishedRun, data_of, read_run
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError, UsageError
from cts_async.protocol.results import checked_results
from cts_async.protocol.run_files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS, results_of
from cts_async.protocol.run_folders import (
    Tell,
    is_gold_build,
    is_talk,
    named,
    without_gold_builds,
    without_talks,
)

_TEXTS: Final = frozenset({"blurred_query", "questions", "answers", "rewritten_query", "answer"})


def find_runs(words: Sequence[str], tell: Tell) -> list[Path]:
    """Run directories and judged files, each once, sorted by path: the order of `words` must not change a number.

    Raises InputError for a word that is neither. A folder that is no run stands for those in it; a pattern for all
    that match. Gold that was built beside runs is none of them, nor are conversations without an answer (UsageError
    where there is nothing else). Damaged runs in a folder with others are left out, which `tell` hears; one that is
    named itself stays, for its reader to refuse.
    """
    scored = without_talks(find_all(words, tell))
    if scored and is_talk(scored[0]):
        raise UsageError(
            f"{scored[0]}: conversations alone (cts converse): there is no score in it to compare"
        )
    return scored


def find_all(words: Sequence[str], tell: Tell) -> list[Path]:
    """What `find_runs` finds, and conversations without an answer as well."""
    meant = named(words, "no such run, folder or file")
    found = [path for one in meant for path in _runs_at(one, tell)]
    by_path = {path.resolve(): path for path in without_gold_builds(found)}
    return [by_path[resolved] for resolved in sorted(by_path)]


def without_damaged(directories: Sequence[Path], tell: Tell) -> list[Path]:
    """Runs that a folder holds but for those that cannot be read: `tell` hears the reason for each of these.

    Every line is read, so that one bad line is noticed here and not in the middle of a table. Raises the InputError of
    the first where no other is left.
    """
    sound: list[Path] = []
    damaged: list[InputError] = []
    for directory in directories:
        try:
            _check_readable(directory)
            sound.append(directory)
        except InputError as error:
            damaged.append(error)
    if damaged and not sound:
        raise damaged[0]
    for problem in damaged:
        tell(f"Left out: {problem}.")
    return sound


def _check_readable(directory: Path) -> None:
    """Raise the InputError that reading a run's manifest, results and judgments would raise."""
    if read_manifest(directory) is None:
        read_judged(directory / results_of(directory))
    elif is_talk(directory):
        read_talk(directory)
    elif not is_gold_build(directory):
        for path in (directory / results_of(directory), *(directory / JUDGMENTS).glob("*.jsonl")):
            for _ in checked_results(path):
                pass


def reader(path: Path) -> Callable[[], FinishedRun]:
    """How to read what `find_runs` gave, for its scores: of its texts only the intents are kept."""
    if path.is_file():
        return partial(read_judged, path)
    if (path / MANIFEST).exists():
        return partial(read_run, path, without=_TEXTS)
    return partial(read_judged, path / results_of(path))


def check_same_data(paths: Sequence[Path]) -> None:
    """Raises UsageError where runs were over different data or judged by different gold: nothing can be paired.

    Only manifests are read. Judged candidates know their gold only, files without a manifest nothing: these
    go with any.
    """
    manifests = {path: read_manifest(path) or {} for path in paths if path.is_dir()}
    known = {path: data_of(manifest.get("identity", {})) for path, manifest in manifests.items()}
    whole = [key for key in map(_key, known.values()) if key[0]]
    groups: dict[tuple[str, str], list[Path]] = {}
    for path, data in known.items():
        sha256, gold = _key(data)
        if gold:
            same_gold = (key for key in whole if not sha256 and key[1] == gold)
            groups.setdefault(next(same_gold, (sha256, gold)), []).append(path)
    if len(groups) > 1:
        told = "; ".join(f"{_named(known[those[0]])}: {_listed(those)}" for those in groups.values())
        raise UsageError(f"runs of different data cannot be paired: {told}. Name runs of one of these")


def _key(data: Mapping[str, Any]) -> tuple[str, str]:
    """Digests of queries and gold; a dataset whose queries carry their nuggets has no gold file of its own."""
    sha256, gold = (str(data.get(name) or "") for name in ("sha256", "gold_sha256"))
    return sha256, gold or sha256


def _named(data: Mapping[str, Any]) -> str:
    sha256, gold = _key(data)
    if not sha256:
        return f"gold {gold[:8]}"
    name = f"{data.get('name')} (sha256 {sha256[:8]}"
    return f"{name})" if gold == sha256 else f"{name}, gold {gold[:8]})"


def _runs_at(path: Path, tell: Tell) -> Iterator[Path]:
    if path.is_file() or _has_results(path):
        yield path
        return
    # A manifest alone is a run that has just begun, or stands above the directories of several candidates.
    inside = [child for child in sorted(path.iterdir()) if child.is_dir() and _is_run(child)]
    if not inside and not _is_run(path):
        raise InputError(path, f"no run in it (neither {MANIFEST} nor {PER_ITEM}, here or one folder below)")
    yield from without_damaged(inside, tell) or [path]


def _has_results(path: Path) -> bool:
    return (path / RESULTS).is_file() or (path / PER_ITEM).is_file()


def _is_run(path: Path) -> bool:
    return (path / MANIFEST).is_file() or _has_results(path)


def _listed(paths: Sequence[Path], most: int = 3) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(str, paths[:most])) + more
