"""`cts data mimics-duo`: panes, labels and the paper's tables (SIGIR 2022)."""

from __future__ import annotations

from typing import Final

import typer

from cts_async.cli.data.group import SETTINGS
from cts_async.cli.data.mimics_ltr import ltr

mimics_duo: Final = typer.Typer(
    name="mimics-duo", help="MIMICS-Duo: panes, labels and the paper's tables (SIGIR 2022).", **SETTINGS
)
mimics_duo.command("ltr", short_help="Learning to rank panes, cross-validated.")(ltr)
