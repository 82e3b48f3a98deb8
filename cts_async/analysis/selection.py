"""Resolve run names, folders and patterns to the runs that an analysis reads."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from cts_async.analysis.conversations import read_talk
from cts_async.analysis.runs import FinishedRun, data_of, label_with_mark, read_judged, read_run
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError, UsageError
from cts_async.protocol.results import checked_results
from cts_async.protocol.run_files import (
    JUDGMENTS,
    MANIFEST,
    PER_ITEM,
    RESULTS,
    is_conversation,
    is_gold_build,
    matching,
    paths_named,
    results_of,
    without_conversations,
    without_gold_builds,
    without_reports,
)

ORIG: Final = "orig"
NOT_ASKED: Final = frozenset({"fused_query", "blurred_query", "rewritten_query", "answer"})
"""Texts that statistics of questions and answers do not need."""
_TEXTS: Final = frozenset({"blurred_query", "questions", "answers", "rewritten_query", "answer"})
_IDENTITY: Final = ("name", "sha256", "gold_sha256")
Tell = Callable[[str], None]
"""Receives a remark that a reader of the numbers has to know."""
_NO_RUN: Final = f"not a run directory: {MANIFEST} not found"


# Runs and judged files, for comparisons and reports


def find_runs(words: Sequence[str], tell: Tell) -> list[Path]:
    """Return the run directories and judged files that `words` name, each once, sorted by path.

    The order of `words` must not change a number. A folder that is not a run stands for the runs in it; a pattern for
    all that match. Built gold and conversations without an answer are left out. Damaged runs in a folder with others
    are left out and reported to `tell`; one that is named itself stays, for its reader to refuse. Raises InputError for
    a word that names nothing, UsageError if there are only conversations.
    """
    scored = without_conversations(find_all(words, tell))
    if scored and is_conversation(scored[0]):
        raise UsageError(f"{scored[0]}: conversations without scores (cts converse) cannot be compared")
    return scored


def find_all(words: Sequence[str], tell: Tell) -> list[Path]:
    """Like `find_runs`, but with conversations without an answer."""
    paths = paths_named(words, "no such run, folder or file")
    found = [run for path in paths for run in _runs_at(path, tell)]
    by_path = {path.resolve(): path for path in without_gold_builds(found)}
    return [by_path[resolved] for resolved in sorted(by_path)]


def _runs_at(path: Path, tell: Tell) -> Iterator[Path]:
    if path.is_file() or _has_results(path):
        yield path
        return
    # A manifest alone belongs to a run that has just begun, or stands above the directories of several candidates.
    inside = [child for child in sorted(path.iterdir()) if child.is_dir() and _has_run_files(child)]
    if not inside and not _has_run_files(path):
        raise InputError(path, f"no run found (neither {MANIFEST} nor {PER_ITEM}, here or one folder below)")
    yield from _without_damaged(inside, tell) or [path]


def _has_results(path: Path) -> bool:
    return (path / RESULTS).is_file() or (path / PER_ITEM).is_file()


def _has_run_files(path: Path) -> bool:
    return _is_run(path) or _has_results(path)


def _is_run(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def _without_damaged(directories: Sequence[Path], tell: Tell) -> list[Path]:
    """Drop the runs of a folder that cannot be read, and report the reason for each to `tell`.

    Every line is read, so that one bad line is noticed here and not in the middle of a table. Raises the first
    InputError if no readable run is left.
    """
    readable: list[Path] = []
    errors: list[InputError] = []
    for directory in directories:
        try:
            _check_readable(directory)
            readable.append(directory)
        except InputError as error:
            errors.append(error)
    if errors and not readable:
        raise errors[0]
    for problem in errors:
        tell(f"Left out: {problem}.")
    return readable


def _check_readable(directory: Path) -> None:
    """Raise the InputError that reading a run's manifest, results and judgments would raise."""
    if read_manifest(directory) is None:
        read_judged(directory / results_of(directory))
    elif is_conversation(directory):
        read_talk(directory)
    elif not is_gold_build(directory):
        for path in (directory / results_of(directory), *(directory / JUDGMENTS).glob("*.jsonl")):
            for _ in checked_results(path):
                pass


def reader(path: Path) -> Callable[[], FinishedRun]:
    """Return a function that reads a path of `find_runs` for its scores, without most texts."""
    if path.is_file():
        return partial(read_judged, path)
    if _is_run(path):
        return partial(read_run, path, without=_TEXTS)
    return partial(read_judged, path / results_of(path))


def check_same_data(paths: Sequence[Path]) -> None:
    """Raise UsageError if runs are over different data or judged by different gold: their scores cannot be paired.

    Only manifests are read. Judged candidates know their gold only, and files without a manifest nothing: these
    go with any.
    """
    manifests = {path: read_manifest(path) or {} for path in paths if path.is_dir()}
    data_by_path = {path: data_of(manifest.get("identity", {})) for path, manifest in manifests.items()}
    whole = [key for key in map(_digests, data_by_path.values()) if key[0]]
    groups: dict[tuple[str, str], list[Path]] = {}
    for path, data in data_by_path.items():
        sha256, gold = _digests(data)
        if gold:
            same_gold = (key for key in whole if not sha256 and key[1] == gold)
            groups.setdefault(next(same_gold, (sha256, gold)), []).append(path)
    if len(groups) > 1:
        described = "; ".join(
            f"{_data_name(data_by_path[paths[0]])}: {_listed(paths)}" for paths in groups.values()
        )
        raise UsageError(f"runs of different data cannot be paired: {described}. Name runs of one of these")


def _digests(data: Mapping[str, Any]) -> tuple[str, str]:
    """Digests of queries and gold; a dataset whose queries carry their nuggets has no gold file of its own."""
    sha256, gold = (str(data.get(name) or "") for name in ("sha256", "gold_sha256"))
    return sha256, gold or sha256


def _data_name(data: Mapping[str, Any]) -> str:
    sha256, gold = _digests(data)
    if not sha256:
        return f"gold {gold[:8]}"
    name = f"{data.get('name')} (sha256 {sha256[:8]}"
    return f"{name})" if gold == sha256 else f"{name}, gold {gold[:8]})"


def _listed(paths: Sequence[Path], most: int = 3) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(str, paths[:most])) + more


# Clarifiers' runs with their run of orig, for `cts diagnose`


@dataclass(frozen=True, slots=True)
class RunSet:
    """Clarifiers' runs over the same data, and the run of the queries as they are (orig) that goes with them."""

    runs: tuple[FinishedRun, ...]
    """By k and label, whatever order they were named in; labels are distinct."""
    orig: FinishedRun | None
    notes: tuple[str, ...]
    """What a reader of the numbers has to know: what was left out, and what is not finished."""


def run_directories(paths: Iterable[str], tell: Tell) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the directories that are named themselves, and those found in a named folder, each once and sorted.

    A path is a run directory, a folder that holds run directories, or a pattern that matches either. Damaged ones
    in a folder with others are left out and reported to `tell`. Raises InputError if nothing is found.
    """
    explicit: dict[Path, None] = {}
    found: dict[Path, None] = {}
    for candidate in without_reports(match for path in paths for match in _matches(path)):
        if _is_run(candidate):
            explicit[candidate] = None
        else:
            found.update(dict.fromkeys(_without_damaged(_runs_in_folder(candidate), tell)))
    runs = without_gold_builds([*explicit, *found])
    return tuple(sorted(path for path in explicit if path in runs)), tuple(
        sorted(path for path in found if path in runs and path not in explicit)
    )


def read_run_set(paths: Sequence[str], orig: Path | None = None) -> RunSet:
    """Read the runs, and orig: the one named, or one among the runs, or one beside them over the same data.

    In a folder of runs those that have not finished are left out; one that is named itself is read as far as
    it got. Raises UsageError if there is no Clarifier's run, or if runs are over different data.
    """
    notes: list[str] = []
    explicit, found = run_directories(paths, notes.append)
    runs = [read_run(directory, without=NOT_ASKED) for directory in explicit]
    others = [read_run(directory, without=NOT_ASKED) for directory in found]
    notes += [
        f"{run.directory}: not finished, left out ({_progress(run)})" for run in others if run.n_missing
    ]
    runs += [run for run in others if not run.n_missing]
    check_same_data([run.directory for run in runs])
    asked = [run for run in runs if run.clarifier and not run.unanswered]
    notes += [f"{run.directory}: {run.unanswered}, left out" for run in runs if run.unanswered]
    if not asked:
        raise UsageError(_nothing_asked(paths, runs, others))
    if not any(run.items or run.n_failed for run in asked):
        raise UsageError(
            f"{', '.join(paths)}: no instance has finished yet; the command that began it resumes it"
        )
    notes += [f"{run.directory}: not finished ({_progress(run)})" for run in asked if run.n_missing]
    notes += [remark for run in asked for remark in run.remarks]
    baseline, orig_notes = _find_orig(orig, runs, asked)
    notes += baseline.remarks if baseline else ()
    distinct = sorted(_with_distinct_labels(asked), key=lambda run: (run.k, run.label))
    return RunSet(tuple(distinct), baseline, (*notes, *orig_notes))


def _matches(path: str) -> list[Path]:
    matches = matching(path)
    if Path(path) in matches or not glob.has_magic(path):
        return [Path(path)]
    with_runs = [match for match in matches if _is_run(match) or _subdirectories_with_runs(match)]
    if not with_runs:
        raise InputError(path, "the pattern matches no run directory")
    return with_runs


def _subdirectories_with_runs(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _is_run(path)) if folder.is_dir() else []


def _runs_in_folder(folder: Path) -> list[Path]:
    runs = _subdirectories_with_runs(folder)
    if not runs:
        raise InputError(folder, _NO_RUN if folder.exists() else "no such run directory")
    return runs


def _progress(run: FinishedRun) -> str:
    return f"{len(run.items) + run.n_failed} of {run.n_expected} instances"


def _nothing_asked(paths: Sequence[str], runs: Sequence[FinishedRun], others: Sequence[FinishedRun]) -> str:
    where = ", ".join(paths)
    if runs and (why := runs[0].unanswered):
        instead = (
            "repeat its cts converse command"
            if runs[0].talk
            else f"compare them: {shlex.join(['cts', 'compare', *paths])}"
        )
        return f"{where}: {why}; name a run with answers, or to evaluate this one {instead}"
    if runs:
        return f"{where}: {runs[0].label} asks nothing; name a Clarifier's run, e.g. runs/sample-gpt-k1"
    return f"{where}: none of its {len(others)} runs has finished; name one of them to see how far it got"


def _find_orig(
    explicit: Path | None, runs: Sequence[FinishedRun], asked: Sequence[FinishedRun]
) -> tuple[FinishedRun | None, list[str]]:
    """Return the run of orig that gains are over, with notes about it."""
    if explicit is not None:
        found = read_run(explicit)
        if found.clarifier:
            raise UsageError(
                f"--orig {explicit}: a Clarifier's run ({found.label}), not the run of the queries as they are"
            )
        check_same_data([asked[0].directory, found.directory])
        return found, _unfinished(found)
    among = [run for run in runs if run.label == ORIG and not run.clarifier]
    if len(among) > 1:
        raise UsageError(
            f"{among[0].directory} and {among[1].directory} are both orig: choose one with --orig DIR"
        )
    if among:
        return among[0], _unfinished(among[0])
    beside = list(dict.fromkeys(path for run in asked for path in orig_beside(run.directory, run.data)))
    if len(beside) == 1:
        found = read_run(beside[0])
        return found, [f"gains are over {found.directory}", *_unfinished(found)]
    if beside:
        names = " and ".join(map(str, beside[:2]))
        return None, [f"no gains: {names} could both be meant; choose one with --orig DIR"]
    return None, ["no gains: there is no orig run over the same data here; name one with --orig DIR"]


def orig_beside(run: Path, data: Mapping[str, Any]) -> Iterator[Path]:
    """Yield directories beside this run with a run of orig over the same data (`FinishedRun.data`)."""
    for directory in _subdirectories_with_runs(run.resolve().parent):
        identity = _identity(directory)
        own = identity.get("data") or {}
        if identity.get("system") == ORIG and all(own.get(key) == data.get(key) for key in _IDENTITY):
            yield run.parent / directory.name


def _identity(directory: Path) -> Mapping[str, Any]:
    """Return the identity in a manifest; {} for a broken one, which nobody named and so must not stop anybody."""
    try:
        identity = (read_manifest(directory) or {}).get("identity")
    except InputError:
        return {}
    return identity if isinstance(identity, dict) else {}


def _unfinished(orig: FinishedRun) -> list[str]:
    return [f"{orig.directory}: not finished ({_progress(orig)})"] if orig.n_missing else []


def _with_distinct_labels(runs: Sequence[FinishedRun]) -> tuple[FinishedRun, ...]:
    """Rename runs of equal labels: by the mark of the directory (`+support-gpt`), its name, or its path."""
    for name in (
        lambda run: label_with_mark(run.label, run.directory),
        lambda run: run.directory.name,
        lambda run: str(run.directory),
    ):
        labels = [run.label for run in runs]
        runs = [run if labels.count(run.label) == 1 else replace(run, label=name(run)) for run in runs]
    return tuple(runs)
