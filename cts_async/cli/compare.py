"""`cts compare`: runs side by side, with the statistics behind their differences."""

from __future__ import annotations

from typing import Annotated

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
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Compare runs: leaderboard, confidence intervals, tests of every pair, agreement of judges.

    RUN is a run directory, a folder of runs, a pattern, an --out directory of cts judge, or a per_item.jsonl. All must
    be over the same data. Differences are relative to orig if it is among them, or to --baseline.

    Example: cts compare runs/

    Example: cts compare runs/hard518-* --judge ernie --baseline gpt-k1 --json
    """
    from rich.console import Console

    from cts_async.report.comparison import compare_runs, comparison_json

    found = compare_runs(runs, judges=judge or (), baseline=baseline, seed=seed)
    if as_json:
        print_json(comparison_json(found))
        return
    from cts_async.report.comparison import tables
    from cts_async.report.results import SMOKE_TEST
    from cts_async.report.tables import print_table, printable

    console = Console()
    for table in tables(found, main_only=not judge, all_pairs=pairs):
        print_table(console, table)
        for remark in table.remarks:
            console.print(printable(remark), markup=False, highlight=False)
        if table.remarks:
            console.print()
    for note in found.notes:
        console.print(printable(note), markup=False, highlight=False)
    if found.embedded:
        console.print(SMOKE_TEST, style="yellow")
