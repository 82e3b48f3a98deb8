"""`cts data qulac`: conversations, evaluations and published figures (SIGIR 2019)."""

from __future__ import annotations

from typing import Final

import typer

from cts_async.cli.data.group import SETTINGS

qulac: Final = typer.Typer(
    name="qulac", help="Qulac: conversations, evaluations and published figures (SIGIR 2019).", **SETTINGS
)
