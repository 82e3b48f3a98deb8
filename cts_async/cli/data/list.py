"""`cts data list`: which kinds of datasets there are."""

from __future__ import annotations

from cts_async.cli import options
from cts_async.cli.streams import print_json

HELP = """List the kinds of datasets: what each is, its paper, licence and source, and what its path has to be.

Example: cts data list --json
"""


def list_kinds(as_json: options.AsJson = False) -> None:
    from cts_async.datasets.about import ABOUT

    if as_json:
        from dataclasses import asdict

        print_json([asdict(about) for about in ABOUT.values()])
        return
    from rich.console import Console

    from cts_async.report.datasets import print_kinds

    print_kinds(Console(), ABOUT.values())


list_kinds.__doc__ = HELP
