"""Runs by what users name: run directories, folders of them, patterns, and files of judged answers.

Of runs only manifests are read here; `finished` reads the rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.errors import InputError, UsageError
from cts_async.runs import files
from cts_async.runs.manifest import ORIG, DataIdentity, manifest_of

_MAX_NAMED: Final = 3
"""Texts that a sentence lists; it counts the others."""


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


def find_runs(words: Sequence[str]) -> list[RunPath]:
    """Return the run directories and judged files that `words` name, each once, sorted by path.

    The order of `words` must not change a number. A folder that is not a run stands for the runs in it, a pattern for
    all that match. Built gold is left out if there is anything else. Raises InputError for a word that names nothing.
    """
    # By resolved path: two words may name one run, through a link, or as a folder and as a run in it.
    runs: dict[Path, RunPath] = {}
    for path in files.paths_named(words, "no such run, folder or file; cts run and cts demo make runs"):
        if path.is_file() or _has_results(path):
            runs[path.resolve()] = RunPath(path, named=True)
            continue
        inside = _runs_inside(path)
        # Without runs inside, it is a run that has no results yet.
        if not inside:
            runs[path.resolve()] = RunPath(path, named=True)
        for directory in inside:
            place = directory.resolve()
            # A run that another word named itself stays named: it is not to be left out with the others of a folder.
            was_named = place in runs and runs[place].named
            runs[place] = RunPath(directory, was_named)
    # Builds of gold lie beside runs in a folder; alone they are what somebody wants to see.
    scored_paths = set(files.without((run.path for run in runs.values()), files.is_gold_build))
    return [runs[place] for place in sorted(runs) if runs[place].path in scored_paths]


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


def runs_of_latest_agent(runs: Sequence[RunPath], on_note: Callable[[str], None]) -> list[RunPath]:
    """Return the runs to compare where a folder has several runs of orig, each by another agent.

    A difference to the orig of another agent would say more about the agents than about clarification. So the runs of
    the agent whose orig was worked on last are taken, with those that were named themselves or name no agent; the
    others are reported to `on_note`.
    """
    agents = {run.path: _agent(run.path) for run in runs}
    agents_of_orig: list[str] = []
    for run in sorted(runs, key=_last_begun):
        if _is_orig(run.path):
            agents_of_orig.append(agents[run.path])
    if len(set(agents_of_orig)) < 2:
        return list(runs)
    latest_agent = agents_of_orig[-1]
    compared: list[RunPath] = []
    left_out: dict[str, list[str]] = {}
    for run in runs:
        agent = agents[run.path]
        # Conversations and judged files name no agent, and go with any.
        if run.named or agent in (latest_agent, ""):
            compared.append(run)
        else:
            left_out.setdefault(agent, []).append(str(run.path))
    for agent, paths in left_out.items():
        on_note(
            f"Left out, since their agent is {agent}, not {latest_agent} (name them to see them): {shlex.join(paths)}"
        )
    return compared


def group_by_agent(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group runs whose gains can be compared, by agent, where there are runs of orig by several agents.

    As in `runs_of_latest_agent`, runs that name no agent go with every one. Below two such origs all are one group, "".
    """
    agents = {path: _agent(path) for path in paths}
    agents_of_orig = {agent for path, agent in agents.items() if _is_orig(path)}
    if len(agents_of_orig) < 2:
        return {"": list(agents)}
    groups: dict[str, list[Path]] = {}
    for name in sorted(set(agents.values()) - {""}):
        groups[name] = [path for path, agent in agents.items() if agent in (name, "")]
    return groups


def _agent(path: Path) -> str:
    """The run's agent; "" without a search, or a manifest."""
    return manifest_of(path).agent


def _is_orig(path: Path) -> bool:
    return manifest_of(path).identity.system == ORIG


def _last_begun(run: RunPath) -> tuple[str, Path]:
    # Starts are ISO texts of UTC, which sort by time; the path decides among equal ones, whatever the words' order.
    return manifest_of(run.path).last_session.start, run.path


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
    """Return the runs of orig in the same folders as these run directories, over the same data and by the same agent."""
    folders: dict[tuple[Path, tuple[str, DataIdentity]], Path] = {}
    for directory in directories:
        # Resolved, so that each folder is searched once; the value is the folder as its user named it, to be printed.
        folders[directory.resolve().parent, _agent_and_data(directory)] = directory.parent
    origs: list[Path] = []
    for (place, agent_and_data), folder in folders.items():
        for path in sorted(place.iterdir()):
            if _is_orig(path) and _agent_and_data(path) == agent_and_data:
                origs.append(folder / path.name)
    return origs


def _agent_and_data(directory: Path) -> tuple[str, DataIdentity]:
    """What a run and an orig must have in common for a difference between them to mean anything."""
    manifest = manifest_of(directory)
    return manifest.agent, manifest.identity.dataset
