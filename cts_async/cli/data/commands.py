"""`cts data` put together: its own commands and a group for each dataset."""

from __future__ import annotations

import typer

from cts_async.cli.data import convert, list, show, validate
from cts_async.cli.data.clariq import clariq
from cts_async.cli.data.group import data
from cts_async.cli.data.mimics_duo import mimics_duo
from cts_async.cli.data.qulac import qulac


def assembled() -> typer.Typer:
    """The command group `cts data`."""
    data.command("list", short_help="Which datasets there are, and what each is.")(list.list_kinds)
    data.command("show", short_help="What a dataset holds, and its first instances.")(show.show)
    data.command("validate", short_help="Is a file sound? One line says so, or what is wrong where.")(
        validate.validate
    )
    data.command("convert", short_help="Write a dataset as a file that --data reads.")(convert.convert)
    for group in (qulac, clariq, mimics_duo):
        if group.registered_commands:
            data.add_typer(group)
    return data
