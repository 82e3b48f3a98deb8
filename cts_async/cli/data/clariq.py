"""`cts data clariq`: question and document relevance of run files (EMNLP 2021)."""

from __future__ import annotations

from typing import Final

import typer

from cts_async.cli.data.group import SETTINGS

clariq: Final = typer.Typer(
    name="clariq", help="ClariQ: question and document relevance of run files (EMNLP 2021).", **SETTINGS
)
