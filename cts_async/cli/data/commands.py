"""`cts data` put together: its own commands and a group for each dataset."""

from __future__ import annotations

import typer

from cts_async.cli.data import convert, list, show, validate  # noqa: F401  (they register themselves)
from cts_async.cli.data.clariq import clariq
from cts_async.cli.data.group import data
from cts_async.cli.data.mimics_duo import mimics_duo
from cts_async.cli.data.qulac import qulac


def assembled() -> typer.Typer:
    """The command group `cts data`."""
    for group in (qulac, clariq, mimics_duo):
        if group.registered_commands:
            data.add_typer(group)
    return data
