"""`cts diagnose`: which questions were asked, which could be answered, and how much they gained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options


def diagnose(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Run directories, folders of runs, patterns, or files of questions.",
            **options.RUNS,
        ),
    ],
    orig: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run of orig [default: found among the runs, or next to them]."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Use this judge's scores [default: the scoring judge's]."),
    ] = None,
    types_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own question types: CSV with the columns question and type."),
    ] = None,
    all_versions: options.AllVersions = False,
    csv: options.CsvFolder = None,
    field: options.Fields = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Diagnose the interaction: unknown rates, region questions, question types, ask or not.

    RUN is a run directory, a folder of runs, a pattern of either, or files of questions and answers such as a
    release's results/clarify_only/*.csv. Prints the paper's tables 4, 5, 7, 8 and 10, then types of questions with
    their answerability and gain over orig, the frontier of asking less, and at which stage points are lost. Of systems
    that ask during the search: what a question is worth, when they ask, needless and missing questions. Of a folder
    or a quoted pattern the newest version of each run is shown. Runs of several agents, or over different data or
    gold, are groups of one table, each with its own orig.

    Example: cts diagnose runs/hard518-gpt-k1 runs/hard518-gpt-k3

    Example: cts diagnose runs --json
    """
    from cts_async.tables.diagnosis import diagnose_named, printed_notes, printed_tables, report_json
    from cts_async.tables.table import show_tables

    report = diagnose_named(
        runs,
        orig=orig,
        judge=judge,
        types_file=types_file,
        fields=options.read_fields(field),
        seed=seed,
        all_versions=all_versions,
    )
    value = as_json and report_json(report)
    show_tables(printed_tables(report), notes=printed_notes(report), as_json=value, csv=csv)
