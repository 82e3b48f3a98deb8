"""`cts diagnose`: which questions were asked, which could be answered, and how much they gained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.report.output import print_json


def diagnose(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs, or files of questions.")],
    orig: Annotated[
        Path | None, typer.Option(help="The run of orig [default: among the runs, or beside them].")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Whose scores [default: the scoring judge's].")] = None,
    types_file: Annotated[
        Path | None, typer.Option(help="Your own labels: CSV with the columns question and type.")
    ] = None,
    csv: options.CsvFolder = None,
    field: options.Fields = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Diagnose the interaction: unknown rates, region questions, question types, ask or not.

    RUN is a run directory, a folder of runs, a pattern of either, or files of questions and answers such as a
    release's results/clarify_only/*.csv. Prints the paper's tables 4, 5, 7, 8 and 10, then types of questions with
    their answerability and gain over orig, and the frontier of asking less.

    Example: cts diagnose runs/hard518-gpt-k1 runs/hard518-gpt-k3

    Example: cts diagnose runs --json
    """
    from rich.console import Console

    from cts_async.report.diagnosis import diagnose_named, print_report, report_json, write_tables

    report = diagnose_named(
        runs,
        orig=orig,
        judge=judge,
        types_file=types_file,
        fields=options.read_fields(field),
        seed=seed,
    )
    if csv is not None:
        write_tables(csv, report.diagnosis)
    if as_json:
        print_json(report_json(report))
    else:
        print_report(Console(), report)
