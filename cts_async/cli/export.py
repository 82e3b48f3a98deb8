"""`cts export`: runs as files that others read, and the JSON Schemas of a run's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.errors import UsageError


def export(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...", help="Run directories, folders of them, or patterns [default: runs]."
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=options.one_of("--layout", ("release", "hf", "csv")),
            help="release, hf or csv.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder to write.")] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the JSON Schema of each file of a run there instead."),
    ] = None,
) -> None:
    """Write runs as files for others.

    release: candidates/NAME__cand_DATA.jsonl, clarify_only/NAME.csv, outputs/NAME/per_item.jsonl and summary.json, as
    in the benchmark's release; cts judge --candidates reads them. hf: JSON Lines and a dataset card for Hugging Face.
    csv: instances.csv, nuggets.csv and judges.csv, the rows of cts_async.load; text that a spreadsheet would take for a
    formula begins with an apostrophe.

    Failed instances are named with their error, and have no score. An export can be repeated into its own folder; a
    folder with anything else in it is refused.

    Example: cts export runs/hard518-* --layout release --out release

    Example: cts export --schema schemas
    """
    from cts_async.report.export import export_runs, export_schemas
    from cts_async.report.output import plain, print_notes

    if schema is not None:
        if runs or layout or out:
            raise UsageError("--schema cannot be combined with RUN arguments, --layout or --out")
        done = export_schemas(schema)
    else:
        if layout is None or out is None:
            raise UsageError("name a layout and a folder: cts export RUN --layout release|hf|csv --out DIR")
        done = export_runs([str(run) for run in options.runs_or_default(runs, "export")], layout, out)
    for path in done.paths:
        typer.echo(plain(str(path)))
    print_notes(done.remarks)
