"""`cts models`: the models of the catalogue, what each needs, and whether it is set."""

from __future__ import annotations

from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.tables.output import print_json, print_plainly


def models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Name of a model [default: list all].", **options.PLAYER),
    ] = None,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models of the catalogue and of cts.toml: address, model id, key, limits, prices, roles; and plug-ins.

    With MODEL: its full table, and what is missing to use it. NAME:MODEL-ID is another model at the address of NAME.
    Keys are never shown and nothing is sent (cts doctor tries a model).

    Example: cts models claude
    """
    import os

    from rich.console import Console

    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.custom.sources import plugin_names
    from cts_async.tables.models import model_entries, model_json, print_model, print_models

    catalogue = load_catalogue(*options.config_files(config))
    entries = model_entries(catalogue, os.environ, name)
    if as_json:
        rows = [model_json(entry) for entry in entries]
        if name:
            print_json(rows[0])
        else:
            print_json(rows)
    elif name:
        print_model(Console(emoji=False), entries[0])
    else:
        console = Console(emoji=False)
        print_models(console, entries)
        read = ", then ".join(map(str, catalogue.files)) or "none (to add models, type cts init)"
        for line in (
            f"Installed roles (for -m, --agent, --judge, ...): {', '.join(plugin_names())}",
            f"Configuration files read: {read}",
        ):
            print_plainly(console, line)
