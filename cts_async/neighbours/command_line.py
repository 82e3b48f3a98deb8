"""Options and checks that the commands of several neighbours share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.errors import UsageError

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON on standard output.")]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="DIR", help="Also write every table there, unrounded.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Out = Annotated[str, typer.Option("--out", metavar="FILE", help="Where to, - for standard output.")]


def check_free(out: Path, *, force: bool) -> None:
    """UsageError where `out` is a file already, unless `force`: results that took hours are not lost by a slip."""
    if out.expanduser().is_file() and not force:
        raise UsageError(f"--out {out}: exists already; --force replaces it")
