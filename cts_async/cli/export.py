"""`cts export`: runs as files that others read, and the JSON Schemas of a run's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options
from cts_async.errors import UsageError


def export(
    runs: options.RunWords = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=options.one_of("--layout", ("release", "hf", "csv")),
            help="Files to write: release, hf or csv; see above.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the files to this folder.")] = None,
    all_versions: options.AllVersions = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the JSON Schema of every file of a run to this folder instead."
        ),
    ] = None,
) -> None:
    """Write runs as files for other programs.

    Example: cts export runs/hard518-* --layout release --out release

    release: the layout of the benchmark's release (candidates/NAME__cand_DATA.jsonl, clarify_only/NAME.csv,
    outputs/NAME/per_item.jsonl and summary.json), which cts judge --candidates reads. hf: JSON Lines and a dataset card
    for Hugging Face. csv: instances.csv, nuggets.csv and judges.csv, the rows of cts_async.load; a text that a
    spreadsheet would take for a formula begins with an apostrophe.

    Failed instances are listed with their error and have no score. An export may be repeated into its own folder; a
    folder with other files is refused.

    Example: cts export --schema schemas
    """
    from cts_async.tables.export import export_runs, export_schemas
    from cts_async.tables.output import plain, print_notes

    if schema is not None:
        if runs or layout or out:
            raise UsageError("--schema cannot be combined with RUN arguments, --layout or --out")
        done = export_schemas(schema)
    else:
        if layout is None or out is None:
            raise UsageError("name a layout and a folder: cts export RUN --layout release|hf|csv --out DIR")
        words = [str(run) for run in options.runs_or_default(runs, "export")]
        done = export_runs(words, layout, out, all_versions=all_versions)
    # Paths alone on standard output, for a pipe; remarks go beside them.
    for path in done.paths:
        typer.echo(plain(str(path)))
    print_notes(done.remarks)
