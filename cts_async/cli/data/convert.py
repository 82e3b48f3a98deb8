"""`cts data convert`: any dataset as a file that `--data` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.cli.data.group import Force
from cts_async.cli.data.show import Gold, Spec
from cts_async.cli.streams import print_notes

HELP = """Write a dataset's instances, with their nuggets, to a file that --data reads back: .jsonl or .csv.

With --gold the nuggets of that file are joined first. MIMICS-Duo's panes become JSON Lines, a pane to a line. Qulac's
questions and answers have commands of their own: see cts data qulac --help.

Example: cts data convert hard518:release --to hard518.jsonl

Example: cts data convert qulac:qulac.json --gold gold.jsonl --to qulac.csv --limit 50
"""


def convert(
    spec: Spec,
    to: Annotated[Path, typer.Option(metavar="FILE", help="What to write; .jsonl or .csv.")],
    gold: Gold = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first instances.")] = None,
    force: Force = False,
    field: options.Fields = None,
) -> None:
    from cts_async.datasets.contents import counted
    from cts_async.datasets.convert import convert as write
    from cts_async.datasets.shelf import open_shelf
    from cts_async.report.text import plain

    shelf = open_shelf(spec, gold, options.read_fields(field))
    n = write(shelf, to, limit=limit, force=force)
    what = counted(n, "pane" if shelf.dataset is None else "instance")
    typer.echo(plain(f"{to}: {what} from {spec}"), err=True)
    if shelf.dataset is not None:
        print_notes(shelf.dataset.notes)


convert.__doc__ = HELP
