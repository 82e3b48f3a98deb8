"""`cts models`: the models of the catalogue, what each needs, and whether it is set."""

from __future__ import annotations

from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.report.output import print_json, visible


def models(
    name: Annotated[
        str | None, typer.Argument(help="A model's name [default: all].", show_default=False)
    ] = None,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models of the catalogue and of cts.toml: address, model id, key, limits, prices, roles; and plug-ins.

    With NAME: that model in full, and what it lacks; alias:model-id is another model at the same address. Keys are
    looked for but never shown, and nothing is sent anywhere (see cts doctor for that).

    Example: cts models claude
    """
    import os

    from rich.console import Console

    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.custom.sources import plugin_names
    from cts_async.report.models import model_entries, model_json, print_model, print_models

    entries = model_entries(load_catalogue(options.config_file(config)), os.environ, name)
    if as_json:
        rows = [model_json(entry) for entry in entries]
        print_json(rows[0] if name else rows)
    elif name:
        print_model(Console(), entries[0])
    else:
        console = Console()
        print_models(console, entries)
        line = f"Installed roles (for -m, --agent, --judge, ...): {', '.join(plugin_names())}"
        console.print(visible(line), markup=False, highlight=False, soft_wrap=True)
