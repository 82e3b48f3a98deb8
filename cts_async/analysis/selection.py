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
from cts_async.analysis.runs import FinishedRun, data_of, read_judged, read_run, with_mark
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError, UsageError
from cts_async.protocol.results import checked_results
from cts_async.protocol.run_files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS, results_of
from cts_async.protocol.run_folders import (
    Tell,
    is_gold_build,
    is_talk,
    matching,
    named,
    without_gold_builds,
    without_reports,
    without_talks,
)

# --- found
#
# From what a user names to runs: directories, folders of them, patterns, files of judged answers.

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
    whole = [key for key in map(_data_digests, known.values()) if key[0]]
    groups: dict[tuple[str, str], list[Path]] = {}
    for path, data in known.items():
        sha256, gold = _data_digests(data)
        if gold:
            same_gold = (key for key in whole if not sha256 and key[1] == gold)
            groups.setdefault(next(same_gold, (sha256, gold)), []).append(path)
    if len(groups) > 1:
        told = "; ".join(f"{_data_name(known[those[0]])}: {_listed(those)}" for those in groups.values())
        raise UsageError(f"runs of different data cannot be paired: {told}. Name runs of one of these")


def _data_digests(data: Mapping[str, Any]) -> tuple[str, str]:
    """Digests of queries and gold; a dataset whose queries carry their nuggets has no gold file of its own."""
    sha256, gold = (str(data.get(name) or "") for name in ("sha256", "gold_sha256"))
    return sha256, gold or sha256


def _data_name(data: Mapping[str, Any]) -> str:
    sha256, gold = _data_digests(data)
    if not sha256:
        return f"gold {gold[:8]}"
    name = f"{data.get('name')} (sha256 {sha256[:8]}"
    return f"{name})" if gold == sha256 else f"{name}, gold {gold[:8]})"


def _runs_at(path: Path, tell: Tell) -> Iterator[Path]:
    if path.is_file() or _has_results(path):
        yield path
        return
    # A manifest alone is a run that has just begun, or stands above the directories of several candidates.
    inside = [child for child in sorted(path.iterdir()) if child.is_dir() and _is_run_or_results(child)]
    if not inside and not _is_run_or_results(path):
        raise InputError(path, f"no run in it (neither {MANIFEST} nor {PER_ITEM}, here or one folder below)")
    yield from without_damaged(inside, tell) or [path]


def _has_results(path: Path) -> bool:
    return (path / RESULTS).is_file() or (path / PER_ITEM).is_file()


def _is_run_or_results(path: Path) -> bool:
    return (path / MANIFEST).is_file() or _has_results(path)


def _listed(paths: Sequence[Path], most: int = 3) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(str, paths[:most])) + more


# --- run_set
#
# Which finished runs are meant by paths, patterns and folders of runs, and that they belong together.

ORIG = "orig"
NOT_ASKED: Final = frozenset({"fused_query", "blurred_query", "rewritten_query", "answer"})
"""Texts that say nothing about questions and their answers."""


@dataclass(frozen=True, slots=True)
class RunSet:
    """Runs over the same data, and the run of the queries as they are that goes with them."""

    runs: tuple[FinishedRun, ...]
    """Clarifiers' runs by k and label, in whatever order they were named; labels are distinct."""
    orig: FinishedRun | None
    notes: tuple[str, ...]
    """What a reader of the numbers has to know: what was left out, and what is not finished."""


def run_directories(paths: Iterable[str], tell: Tell) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The directories that paths name, each once: those named themselves, and those found in a folder of runs.

    Both are sorted by path: the order on the command line must not change a number.

    A path is a run directory, a folder that holds run directories, or a pattern that matches either. Damaged ones
    in a folder with others are left out, which `tell` hears. InputError for a path or pattern behind which there is
    no run.
    """
    named: dict[Path, None] = {}
    found: dict[Path, None] = {}
    for candidate in without_reports(match for path in paths for match in _matches(path)):
        if _is_run(candidate):
            named[candidate] = None
        else:
            found.update(dict.fromkeys(without_damaged(list(_runs_in(candidate)), tell)))
    runs = without_gold_builds([*named, *found])
    return tuple(sorted(path for path in named if path in runs)), tuple(
        sorted(path for path in found if path in runs and path not in named)
    )


def read_run_set(paths: Sequence[str], orig: Path | None = None) -> RunSet:
    """Read the runs, and `orig`: the one named, or one among the runs, or one beside them over the same data.

    In a folder of runs those that have not finished are left out; one that is named itself is read as far as
    it got. Raises UsageError where there is no Clarifier's run, or where runs are over different data.
    """
    notes: list[str] = []
    named, found = run_directories(paths, notes.append)
    runs = [read_run(directory, without=NOT_ASKED) for directory in named]
    others = [read_run(directory, without=NOT_ASKED) for directory in found]
    complete = [run for run in others if not run.n_missing]
    notes += [
        f"{run.directory}: not finished, left out ({_progress(run)})" for run in others if run.n_missing
    ]
    runs += complete
    _check_same_data(runs)
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
    baseline, note = _orig(orig, runs, asked)
    notes += baseline.remarks if baseline else ()
    distinct = sorted(_distinct(asked), key=lambda run: (run.k, run.label))
    return RunSet(tuple(distinct), baseline, (*notes, *note))


def _matches(path: str) -> list[Path]:
    matches = matching(path)
    if Path(path) in matches or not glob.has_magic(path):
        return [Path(path)]
    with_runs = [match for match in matches if _is_run(match) or next(_runs_in(match, strict=False), None)]
    if not with_runs:
        raise InputError(path, "the pattern matches no run directory")
    return with_runs


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _runs_in(folder: Path, *, strict: bool = True) -> Iterator[Path]:
    runs = sorted(path for path in folder.iterdir() if _is_run(path)) if folder.is_dir() else []
    if strict and not runs:
        problem = "no run here (run.json is missing)" if folder.exists() else "no such run directory"
        raise InputError(folder, problem)
    yield from runs


def _progress(run: FinishedRun) -> str:
    return f"{len(run.items) + run.n_failed} of {run.n_expected} instances"


def _nothing_asked(paths: Sequence[str], runs: Sequence[FinishedRun], others: Sequence[FinishedRun]) -> str:
    where = ", ".join(paths)
    if runs and (why := runs[0].unanswered):
        instead = (
            "type its cts converse again"
            if runs[0].talk
            else f"compare them: {shlex.join(['cts', 'compare', *paths])}"
        )
        return f"{where}: {why}; name a run with answers, or to evaluate this one {instead}"
    if runs:
        return f"{where}: {runs[0].label} asks nothing; name a Clarifier's run, e.g. runs/sample-gpt-k1"
    return f"{where}: none of its {len(others)} runs has finished; name one of them to see how far it got"


def _check_same_data(runs: Sequence[FinishedRun]) -> None:
    for run in runs[1:]:
        if differing := [key for key in _IDENTITY if not _agree(runs[0].data.get(key), run.data.get(key))]:
            here, there = (_described(of, differing) for of in (runs[0], run))
            raise UsageError(f"runs over different data are not read together: {here}, but {there}")


_IDENTITY = ("name", "sha256", "gold_sha256")


def _agree(here: Any, there: Any) -> bool:
    return here is None or there is None or here == there


def _described(run: FinishedRun, differing: Sequence[str]) -> str:
    if "name" in differing:
        return f"{run.directory} is over {run.data.get('name')}"
    what, key = ("data", "sha256") if "sha256" in differing else ("gold", "gold_sha256")
    return f"{run.directory} is over {run.data.get('name')} with {what} {str(run.data.get(key))[:12]}"


def _orig(
    named: Path | None, runs: Sequence[FinishedRun], asked: Sequence[FinishedRun]
) -> tuple[FinishedRun | None, list[str]]:
    if named is not None:
        found = read_run(named)
        if found.clarifier:
            raise UsageError(
                f"--orig {named}: a Clarifier's run ({found.label}), not the run of the queries as they are"
            )
        _check_same_data([asked[0], found])
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
    """Directories beside this run with one of `orig` over the same data (`FinishedRun.data`)."""
    for directory in _runs_in(run.resolve().parent, strict=False):
        identity = _identity(directory)
        own = identity.get("data") or {}
        if identity.get("system") == ORIG and all(own.get(key) == data.get(key) for key in _IDENTITY):
            yield run.parent / directory.name


def _identity(directory: Path) -> Mapping[str, Any]:
    """What made a directory; {} where its manifest is broken: nobody named it, so it stops nobody."""
    try:
        found = (read_manifest(directory) or {}).get("identity")
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def _unfinished(orig: FinishedRun) -> list[str]:
    return [f"{orig.directory}: not finished ({_progress(orig)})"] if orig.n_missing else []


def _distinct(runs: Sequence[FinishedRun]) -> tuple[FinishedRun, ...]:
    """The runs; those of equal labels with what their directories' names add (`+support-gpt`), else called by these,
    else by their paths."""

    for name in (
        lambda run: with_mark(run.label, run.directory),
        lambda run: run.directory.name,
        lambda run: str(run.directory),
    ):
        labels = [run.label for run in runs]
        runs = [run if labels.count(run.label) == 1 else replace(run, label=name(run)) for run in runs]
    return tuple(runs)
