"""`cts compare`: runs side by side, with the statistics behind their differences."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cts_async.cli import options
from cts_async.report.output import print_json


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Runs, folders, patterns or per_item.jsonl files; see above.", **options.RUNS
        ),
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Compare by these judges. Repeatable [default: all; tests use the first]."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="Test every system against this one [default: test all pairs]."),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show every pair, even if there are many.")] = False,
    published: Annotated[
        bool,
        typer.Option("--published", help="Compare with the published tables 2 to 11 of the paper instead."),
    ] = False,
    csv: options.CsvFolder = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Compare runs: leaderboard, confidence intervals, tests of every pair, agreement of judges.

    RUN is a run directory, a folder of runs, a pattern, an --out directory of cts judge, or a per_item.jsonl. All must
    be over the same data. Differences are relative to orig if it is among them, or to --baseline.

    Example: cts compare runs/

    Example: cts compare runs/hard518-* --judge ernie --baseline gpt-k1 --json

    Example: cts compare runs/hard518-* --published --csv tables
    """
    from cts_async.report.comparison import compare_runs, comparison_json, comparison_tables

    found = compare_runs(runs, judges=judge or (), baseline=baseline, seed=seed, partial=published)
    remarks, extra = list[str](), dict[str, Any]()
    if published:
        from cts_async.report.published import published_json, published_lines, published_of, published_tables

        both = published_of(found)
        remarks, extra = list(published_lines(both)), {"published": published_json(both)}
        shown = list(published_tables(both))
    else:
        shown = list(comparison_tables(found, main_only=not judge, all_pairs=pairs))
    if csv is not None:
        from cts_async.report.tables import with_free_names, write_csv

        for table in with_free_names(shown):
            write_csv(csv, table)
    if as_json:
        print_json(comparison_json(found) | extra)
        return
    from rich.console import Console

    from cts_async.report.results import print_caveats
    from cts_async.report.tables import print_table, printable

    console = Console(emoji=False)
    for line in remarks:
        console.print(printable(line), markup=False, highlight=False)
        console.print()
    for table in shown:
        print_table(console, table)
        for remark in table.remarks:
            console.print(printable(remark), markup=False, highlight=False)
        if table.remarks:
            console.print()
    for note in found.notes:
        console.print(printable(note), markup=False, highlight=False)
    print_caveats(console, found.caveats)
