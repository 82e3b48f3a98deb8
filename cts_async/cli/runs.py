"""`cts runs`: the runs of a folder and their versions: listed, compared, and removed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from cts_async.cli import options
from cts_async.cli.data import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LIST: Final = "list"
"""The command that a folder, or nothing, stands for."""
_RUNS: Final = Path("runs")
"""Where runs are found by their names."""
_MOST_PATHS: Final = 5
"""Paths that a line names."""


class _ListByDefault(TyperGroup):
    """`cts runs [DIR]` is `cts runs list [DIR]`: a folder of the name of a command is typed as ./NAME."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command before words that name none; the tab key completes the words as they are."""
        if not ctx.resilient_parsing:
            first_word = next(iter(args), "")
            if first_word not in self.commands and first_word not in ctx.help_option_names:
                args = [_LIST, *args]
        return super().parse_args(ctx, args)


runs: Final = typer.Typer(
    name="runs",
    help="The runs of a folder and their versions. cts runs [DIR] is cts runs list [DIR].",
    cls=_ListByDefault,
    **SETTINGS,
)

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", show_default=False, help="Folder of runs, or one run [default: runs]."),
]


@runs.command(_LIST, short_help="List runs: changes, scores, costs.")
def list_all(
    folder: Folder = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Read all results and journals again; summary.json is not used."),
    ] = False,
    csv: options.CsvFolder = None,
    as_json: options.AsJson = False,
) -> None:
    """List what is in a folder of runs: what changed in each version, scores, costs, reused steps, age.

    Versions of a system stand together, the newest first; tables of cts compare show that one. Costs are those of
    summary.json where it is up to date; a running command's are not shown without --exact.

    Example: cts runs

    Example: cts runs list runs --exact --json
    """
    import time

    from cts_async.tables.run_list import list_runs, listed_directories, notes_on, run_list_table
    from cts_async.tables.table import show_tables

    place = _folder(folder)
    listed = list_runs(listed_directories(place), exact=exact)
    table = run_list_table(listed, place, time.time())
    show_tables([table], notes=notes_on(listed), as_json=as_json, csv=csv)


@runs.command("diff", short_help="Compare two runs: settings, prompts, sources, scores.")
def diff(
    run: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A run: its path, or its name in the folder runs.", **options.RUN_NAMES
        ),
    ],
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            show_default=False,
            help="The later run [default: A, beside the version it came from].",
            **options.RUN_NAMES,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare two runs: settings, prompts, sources of custom roles, and scores.

    A version alone is compared with the one that it came from. Texts stand side by side on a terminal of 120 columns or
    more; changed lines are shown with those around them.

    Example: cts runs diff my_lab.ask-k2.v2

    Example: cts runs diff hard518-gpt-k1 hard518-gpt-k3 --json
    """
    from cts_async.runs.files import run_named
    from cts_async.runs.run_changes import compare_two, origin_of
    from cts_async.tables.output import print_json
    from cts_async.tables.run_diff import changes_json, print_changes

    if other is None:
        after = run_named(run, _RUNS)
        before = origin_of(after)
    else:
        before, after = run_named(run, _RUNS), run_named(other, _RUNS)
    changes = compare_two(before, after)
    if as_json:
        print_json(changes_json(changes))
        return
    from rich.console import Console

    print_changes(Console(emoji=False), changes)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking, as in scripts.")]


@runs.command("rm", short_help="Remove runs, after a question.")
def remove(
    named_runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Paths, or names in the folder runs.", **options.RUN_NAMES),
    ],
    yes: Yes = False,
) -> None:
    """Remove runs. Shows what would be removed, and asks.

    Refused, before anything is removed: a run that a command is writing, and one that another run needs, since that is
    unfinished or damaged and took steps from it. Only files that cts wrote are removed; others stay and are named.

    Example: cts runs rm my_lab.ask-k2.v2

    Example: cts runs rm runs/hard518-gpt-k3 runs/hard518-gpt-k1 --yes
    """
    from cts_async.errors import InputError, UsageError
    from cts_async.runs.dependents import find_dependents, is_being_written
    from cts_async.runs.files import run_named
    from cts_async.runs.manifest import manifest_of
    from cts_async.runs.removal import reasons_to_keep

    finished = _finish_removals([_RUNS] + [Path(os.path.abspath(word)).parent for word in named_runs])
    # By resolved path of its folder: two words may name one run. A run that is a link itself is refused.
    places: dict[Path, Path] = {}
    for word in named_runs:
        try:
            directory = run_named(word, _RUNS)
        except InputError:
            # An interrupted removal, typed again.
            if Path(word).name in finished:
                continue
            raise
        if directory.name in ("", ".."):  # `cts runs rm .` within it
            directory = Path(os.path.abspath(directory))
        places[directory.parent.resolve() / directory.name] = directory
    directories = list(places.values())
    for directory in directories:
        manifest = manifest_of(directory)
        if manifest.is_of_several_systems:
            raise UsageError(
                f"{directory}: several judged systems share its journal; remove the folder by hand"
            )
        if is_being_written(manifest):
            raise UsageError(f"{directory}: a process is writing this run; wait for it")
    for folder in {directory.parent for directory in directories}:
        for directory, reason in reasons_to_keep(directories, find_dependents(folder)).items():
            raise UsageError(
                f"{directory}: other runs need its steps: {reason}; finish these runs, or remove them too"
            )
    _remove(directories, yes=yes)


@runs.command("prune", short_help="Remove old versions, after a question.")
def prune(
    folder: Folder = None,
    keep: Annotated[
        int, typer.Option(metavar="N", min=1, help="Versions of each system that are kept, the newest ones.")
    ] = 2,
    yes: Yes = False,
) -> None:
    """Remove old versions of each system in a folder. Shows what would be removed, and asks.

    Runs that a command is writing, or that another run needs, are skipped and named.

    Example: cts runs prune --keep 1

    Example: cts runs prune runs --keep 2 --yes
    """
    from cts_async.runs.dependents import find_dependents, is_being_written
    from cts_async.runs.manifest import manifest_of
    from cts_async.runs.removal import reasons_to_keep
    from cts_async.runs.versions import older_versions
    from cts_async.tables.output import counted, print_line
    from cts_async.tables.run_list import listed_directories

    place = _folder(folder)
    _finish_removals([place])
    older = older_versions(map(manifest_of, listed_directories(place)), keep)
    removable: list[Path] = []
    for manifest in older:
        if is_being_written(manifest):
            print_line(f"skipped {manifest.directory}: a process is writing this run", sys.stderr)
        elif manifest.directory.is_symlink():
            print_line(f"skipped {manifest.directory}: is a symbolic link", sys.stderr)
        else:
            removable.append(manifest.directory)
    kept = reasons_to_keep(removable, find_dependents(place))
    for directory, reason in kept.items():
        print_line(f"skipped {directory}: other runs need its steps: {reason}", sys.stderr)
    directories = [directory for directory in removable if directory not in kept]
    if not older:
        print_line(f"nothing to remove: {place} has at most {counted(keep, 'version')} of each system")
    _remove(directories, yes=yes)


def _finish_removals(folders: Iterable[Path]) -> set[str]:
    """Finish removals that were interrupted, which somebody has agreed to; the names of those runs."""
    from cts_async.runs.removal import finish_removals
    from cts_async.tables.output import print_line

    finished: set[str] = set()
    for folder in {folder.resolve() for folder in folders}:
        for name, foreign in finish_removals(folder).items():
            line = f"finished the interrupted removal of {name}"
            if foreign:
                line += f"; it had files that cts did not write, which stay: {_few(foreign)}"
            print_line(line, sys.stderr)
            finished.add(name)
    return finished


def _remove(directories: Sequence[Path], *, yes: bool) -> None:
    """Show what would be removed, ask, and remove it. Raises UsageError without a terminal to ask on."""
    from rich.console import Console

    from cts_async.errors import RunLocked, UsageError
    from cts_async.runs.removal import read_content, remove_run
    from cts_async.tables.output import counted, plain, print_line
    from cts_async.tables.run_list import list_runs, removal_table, size_text
    from cts_async.tables.table import print_table

    contents = [read_content(directory) for directory in directories]
    if not directories:
        return
    size = size_text(sum(content.n_bytes for content in contents))
    summary = f"{counted(len(directories), 'run')} ({size})"
    # A question that nobody can see, or answer, would hang a job for ever.
    if not yes and not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"no terminal to ask on: nothing was removed; add --yes to remove {summary}")
    table = removal_table(list_runs(directories), contents)
    print_table(Console(emoji=False), table)
    for directory, content in zip(directories, contents, strict=True):
        if content.foreign:
            print_line(f"{directory} stays, with what cts did not write: {_few(content.foreign)}")
    if not yes:
        print(plain(f"Remove {summary}? [y/N] "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print_line("nothing was removed")
            return
    n_removed, locked_by_others = 0, ""
    for directory in directories:
        try:
            remove_run(directory)
        except RunLocked as error:  # a command has begun to write it meanwhile
            locked_by_others = str(error)
            continue
        n_removed += 1
    print_line(f"removed {counted(n_removed, 'run')}")
    if locked_by_others:
        raise UsageError(f"not removed: {locked_by_others}")


def _few(paths: Sequence[str]) -> str:
    text = ", ".join(paths[:_MOST_PATHS])
    if len(paths) > _MOST_PATHS:
        text += f" and {len(paths) - _MOST_PATHS} more"
    return text


def _folder(folder: Path | None) -> Path:
    words: Sequence[Path] = ()
    if folder is not None:
        words = (folder,)
    return options.runs_or_default(words, "runs")[0]
