"""Options that several commands share, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cts_async.errors import UsageError

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Models and roles of your own [default: ./cts.toml if there is one]."),
]
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="OURS=THEIRS", help="A column under another name, e.g. fused_query=OQ."),
]
MaxOutage = Annotated[
    float, typer.Option(help="Seconds that a provider may be down before the run stops (exit 75).")
]
InFlight = Annotated[
    int | None, typer.Option(min=1, help="Instances worked on at once [default: from the models' limits].")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try again what failed for good.")]
Sync = Annotated[bool, typer.Option("--sync", help="Survive a power cut too: flush every step to the disk.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random here.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON on standard output.")]


def read_fields(pairs: Sequence[str] | None) -> dict[str, str]:
    """`["fused_query=OQ"]` as a mapping. Raises UsageError."""
    fields: dict[str, str] = {}
    for pair in pairs or ():
        ours, sign, theirs = pair.partition("=")
        if not (sign and ours.strip() and theirs.strip()):
            raise UsageError(f"--field {pair}: write it as OURS=THEIRS, e.g. fused_query=OQ")
        fields[ours.strip()] = theirs.strip()
    return fields


def config_file(named: Path | None) -> Path | None:
    """The file named, or ./cts.toml where there is one. Raises UsageError for a named one that is missing."""
    if named is not None:
        if not named.is_file():
            raise UsageError(f"--config {named}: no such file")
        return named
    here = Path("cts.toml")
    return here if here.is_file() else None
