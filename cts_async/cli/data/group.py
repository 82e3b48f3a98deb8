"""`cts data` and its groups, one file for each dataset: how they behave, and when they write over a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cts_async.errors import UsageError

SETTINGS: Final[dict[str, Any]] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""How every group of commands behaves, as `cts` itself."""

data: Final = typer.Typer(
    name="data",
    help="The datasets: what there is, whether a file is sound, and the figures published about it.",
    **SETTINGS,
)

Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def check_free(out: Path, *, force: bool) -> None:
    """UsageError where `out` is a file already, unless `force`: what took long to make is not lost by a slip."""
    if out.expanduser().is_file() and not force:
        raise UsageError(f"--out {out}: exists already; --force replaces it")
