"""`cts audit`: prove the closed book from the files of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.report.output import print_json


def audit(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, or folders of them.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="The data, as for cts run, if it is no longer where the run found it."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Prove from a run's journal that no role saw what it must not see.

    Every request to the Clarifier, the User Answerer, the Rewriter and the agent must be exactly what the protocol makes
    of the data and the recorded replies, and must contain no text that occurs only in the intent q*. Every rewritten
    query is checked for constraints that no answer gave. Search results are no leak: they follow from the rewritten
    query. Reads only. Exit code 0 if the closed book held, else 1.

    Example: cts audit runs/hard518-orig runs/hard518-gpt-k3
    """
    from rich.console import Console

    from cts_async.errors import EXIT_OK, EXIT_SOME_FAILED
    from cts_async.protocol.audit import audit_run
    from cts_async.protocol.run_files import run_folders
    from cts_async.report.audit import audit_json, print_audits

    audits = [audit_run(run, data) for run in run_folders(runs)]
    if as_json:
        print_json([audit_json(found) for found in audits])
    else:
        print_audits(Console(), audits)
    raise typer.Exit(EXIT_OK if all(found.held for found in audits) else EXIT_SOME_FAILED)
