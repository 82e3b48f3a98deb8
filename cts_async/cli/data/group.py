"""`cts data` and its groups, one file for each dataset."""

from __future__ import annotations

from typing import Any, Final

import typer

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
