"""`cts runs`: the runs of a folder and their versions: listed, compared, and removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from cts_async.cli import options
from cts_async.cli.data import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIST: Final = "list"
"""The command that a folder, or nothing, stands for."""


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
    typer.Argument(metavar="[DIR]", show_default=False, help="Folder of runs, or one run [default: runs]."),
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

    from cts_async.tables.run_list import list_runs, notes_on, runs_in, runs_table
    from cts_async.tables.table import show_tables

    place = _folder(folder)
    listed = list_runs(runs_in(place), exact=exact)
    table = runs_table(listed, place, time.time())
    show_tables([table], notes=notes_on(listed), as_json=as_json, csv=csv)


def _folder(folder: Path | None) -> Path:
    words: Sequence[Path] = ()
    if folder is not None:
        words = (folder,)
    return options.runs_or_default(words, "runs")[0]
