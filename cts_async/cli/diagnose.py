"""`cts diagnose`: which questions were asked, which could be answered, and how much they gained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.report.output import show_tables


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
    from cts_async.report.diagnosis import diagnose_named, printed_notes, report_json
    from cts_async.report.statistics import diagnosis_tables

    report = diagnose_named(
        runs,
        orig=orig,
        judge=judge,
        types_file=types_file,
        fields=options.read_fields(field),
        seed=seed,
    )
    value = as_json and report_json(report)
    show_tables(diagnosis_tables(report.diagnosis), notes=printed_notes(report), as_json=value, csv=csv)
