"""`cts compare`: runs side by side, with the statistics behind their differences."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cts_async.cli import options
from cts_async.report.output import print_json


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="What to compare; see above.")],
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these judges [default: all; tests by the first]."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Test every system against this one [default: all pairs].")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Show all pairs, however many.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Show ours beside the paper's tables 2 to 11 instead.")
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
    from cts_async.report.comparison import compare_runs, comparison_json, tables

    found = compare_runs(runs, judges=judge or (), baseline=baseline, seed=seed, partial=published)
    told, extra = list[str](), dict[str, Any]()
    if published:
        from cts_async.report.published import lines, published_json, published_of, published_tables

        beside = published_of(found)
        told, extra = list(lines(beside)), {"published": published_json(beside)}
        shown = list(published_tables(beside))
    else:
        shown = list(tables(found, main_only=not judge, all_pairs=pairs))
    if csv is not None:
        from cts_async.report.tables import with_free_names, write_csv

        for table in with_free_names(shown):
            write_csv(csv, table)
    if as_json:
        print_json(comparison_json(found) | extra)
        return
    from rich.console import Console

    from cts_async.report.results import SMOKE_TEST
    from cts_async.report.tables import print_table, printable

    console = Console()
    for line in told:
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
    if found.embedded:
        console.print(SMOKE_TEST, style="yellow")
