"""`cts data mimics-duo`: panes, labels and the paper's tables (SIGIR 2022)."""

from __future__ import annotations

from typing import Final

import typer

from cts_async.cli.data.group import SETTINGS

mimics_duo: Final = typer.Typer(
    name="mimics-duo", help="MIMICS-Duo: panes, labels and the paper's tables (SIGIR 2022).", **SETTINGS
)
