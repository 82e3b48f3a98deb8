"""`cts data show`: what a dataset holds, and its first instances."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.cli.streams import print_json

HELP = """Show what a dataset holds: counts, lengths, languages, what the gold joins; then its first instances.

SPEC is whatever --data takes (sample, KIND:PATH, a .csv or .jsonl file), or mimics-duo:DIR for its panes.

Example: cts data show qulac:qulac.json -n 5

Example: cts data show hard518:release --id h001
"""
Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A dataset, see cts data list.")]
Gold = Annotated[Path | None, typer.Option(help="Join these nuggets (JSONL).")]


def show(
    spec: Spec,
    n: Annotated[int, typer.Option("-n", min=0, help="So many instances.")] = 3,
    id: Annotated[str | None, typer.Option(help="This instance alone, with all there is of it.")] = None,
    gold: Gold = None,
    field: options.Fields = None,
    as_json: options.AsJson = False,
) -> None:
    from rich.console import Console

    from cts_async.datasets.about import ABOUT
    from cts_async.datasets.shelf import item_of, open_shelf
    from cts_async.report.datasets import print_contents, print_item

    fields = options.read_fields(field)
    shelf = open_shelf(spec, gold, fields)
    if id is not None:
        item = item_of(shelf, id)
        if as_json:
            print_json(item)
        else:
            print_item(Console(), item, whole=True)
        return
    contents = shelf.contents()
    items = islice(shelf.items(), n)
    if as_json:
        found = {
            "kind": shelf.kind,
            "files": [*map(str, shelf.paths)],
            **contents.as_json(),
            "items": [*items],
        }
        print_json(found)
        return
    console = Console()
    print_contents(console, ABOUT[shelf.kind].title, shelf.paths, contents)
    for item in items:
        print_item(console, item)


show.__doc__ = HELP
