"""`cts compare`: runs side by side, with the statistics behind their differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cts_async.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cts_async.tables.table import DataTable


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
        typer.Option(
            "--published",
            help="Compare with the published tables 2 to 11 of the paper (or of InteractComp's) instead.",
        ),
    ] = False,
    all_versions: options.AllVersions = False,
    csv: options.CsvFolder = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Compare runs: leaderboard, confidence intervals, tests of every pair, agreement of judges.

    RUN is a run directory, a folder of runs, a pattern, an --out directory of cts judge, or a per_item.jsonl. Of a
    folder or a quoted pattern the newest version of each run is shown. Differences are relative to orig if it is among
    them, or to --baseline. Runs of several agents, or over different data or gold, are groups of one table, each with
    its own orig, ranks and tests; two runs that are named themselves are compared with each other.

    Example: cts compare runs/

    Example: cts compare runs/hard518-* --judge ernie --baseline gpt-k1 --json

    Example: cts compare runs/hard518-* --published --csv tables
    """
    from cts_async.tables.comparison import compare_runs, comparison_json, comparison_tables, printed_notes
    from cts_async.tables.interactcomp import is_interactcomp, ladder_json, ladder_of
    from cts_async.tables.table import show_tables, with_free_names

    compared = compare_runs(
        runs,
        judges=judge or (),
        baseline=baseline,
        seed=seed,
        partial=published,
        all_versions=all_versions,
    )
    result = comparison_json(compared)
    lead: list[str] = []
    if published and all(is_interactcomp(group.board) for group in compared.groups):
        tables: Iterable[DataTable] = ladder_of(compared)
        result["published"] = ladder_json(list(tables))
    elif published:
        from cts_async.tables.published import published_json, published_lines, published_of, published_tables

        beside_paper = published_of(compared)
        if compared.others:
            lead.append(f"Of several groups, the one last worked on is shown: {compared.marked_heading}.")
        result["published"] = published_json(beside_paper)
        lead += published_lines(beside_paper)
        tables = published_tables(beside_paper)
    else:
        # Leaderboard and tests are those of the first judge; --json has every judge's.
        tables = comparison_tables(compared, main_only=not judge, all_pairs=pairs)
    show_tables(
        list(with_free_names(tables)),
        lead=lead,
        notes=printed_notes(compared),
        as_json=as_json and result,
        csv=csv,
    )
