"""`cts data mimics-duo`: panes, labels and the paper's tables (SIGIR 2022)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from cts_async.cli import options
from cts_async.cli.data.group import SETTINGS
from cts_async.cli.data.mimics_ltr import ltr

mimics_duo: Final = typer.Typer(
    name="mimics-duo", help="MIMICS-Duo: panes, labels and the paper's tables (SIGIR 2022).", **SETTINGS
)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory with the four .tsv files of MIMICS-Duo.")
]
Draws = Annotated[int, typer.Option(min=2, max=100_000, help="How often ties are broken at random.")]

TABLES_HELP = """Tables 6 to 11 and section 5.2, computed and set beside the published values.

Each cell is marked: = reproduced, ~ within the spread of ties broken at random (z says how far), ≠ differs, and the
notes say why.

Example: cts data mimics-duo tables ../shared/data/mimics-duo

Example: cts data mimics-duo tables MIMICS-Duo --table 10 --json
"""
PANES_HELP = """The panes as JSON Lines: the four files joined, one object a pane.

`pane` is its number among its query's, from 1.

Example: cts data mimics-duo panes MIMICS-Duo > panes.jsonl
"""
RERANK_HELP = """Rank each query's panes by your scores: P@1 and MRR, beside the random ranker and the worst case.

The scores are JSON Lines, CSV or TSV with `query`, `pane` (its number among the query's, from 1; see `panes`) and
`score`, higher is better; every pane needs one. Equal scores are broken at random, and what that spreads is shown.

Example: cts data mimics-duo rerank MIMICS-Duo --scores scores.jsonl

Example: cts data mimics-duo rerank MIMICS-Duo --scores scores.tsv --ideal quality --json
"""


@mimics_duo.command("tables", help=TABLES_HELP, short_help="Tables 6 to 11 beside the published values.")
def tables(
    folder: Folder,
    table: Annotated[
        list[str] | None, typer.Option(metavar="N", help="Only this table: 6 to 11, or 5.2 [default: all].")
    ] = None,
    draws: Draws = 1000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.analysis.mimics_tables import TABLES
    from cts_async.datasets.mimics_duo import read_panes
    from cts_async.errors import UsageError
    from cts_async.report.mimics_tables import mimics_tables, print_tables, tables_json

    names = [name for name in TABLES if not table or name in table]
    if wrong := [name for name in table or () if name not in TABLES]:
        raise UsageError(f"--table {wrong[0]}: no such table here; there are {', '.join(TABLES)}")
    found = mimics_tables(list(read_panes(folder)), names, draws=draws, seed=seed)
    if as_json:
        _echo_json(tables_json(found))
    else:
        from rich.console import Console

        print_tables(Console(), found)


@mimics_duo.command("panes", help=PANES_HELP, short_help="The four files joined, as JSON Lines.")
def panes(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there [default: standard output].")
    ] = None,
) -> None:
    import sys
    from contextlib import nullcontext

    import orjson

    from cts_async.datasets.mimics_duo import read_panes
    from cts_async.datasets.pane_scores import numbered

    # All of it is checked first: what is written is whole.
    found = list(read_panes(folder))
    with nullcontext(sys.stdout.buffer) if out is None else out.open("wb") as file:
        for number, pane in numbered(found):
            fields = {name: getattr(pane, name) for name in pane.__slots__ if name != "query"}
            line = {"query": pane.query, "pane": number, **fields}
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


@mimics_duo.command("rerank", help=RERANK_HELP, short_help="P@1 and MRR of panes ranked by your scores.")
def rerank(
    folder: Folder,
    scores: Annotated[Path, typer.Option(metavar="FILE", help="The scores: .jsonl, .csv or .tsv.")],
    ideal: Annotated[
        str, typer.Option(metavar="LABEL", help="What an ideal ranking is by: engagement, quality or rating.")
    ] = "engagement",
    draws: Draws = 1000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.analysis.pane_columns import PANE_LABELS
    from cts_async.datasets.mimics_duo import read_panes
    from cts_async.datasets.pane_scores import read_pane_scores
    from cts_async.errors import UsageError
    from cts_async.report.mimics_rerank import rerank_panes, reranked_table

    label = next((name for name in PANE_LABELS if name == ideal), None)
    if label is None:
        raise UsageError(f"--ideal {ideal}: no such label; there are {', '.join(PANE_LABELS)}")
    shown = list(read_panes(folder))
    rows = rerank_panes(shown, read_pane_scores(scores, shown), label, draws=draws, seed=seed)
    table = reranked_table(rows, label, draws)
    if as_json:
        _echo_json({"ideal": label, "draws": draws, "seed": seed, "rankings": list(table.rows)})
    else:
        from rich.console import Console

        from cts_async.report.data_table import print_table

        print_table(Console(), table)


def _echo_json(value: object) -> None:
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


mimics_duo.command("ltr", short_help="Learning to rank panes, cross-validated.")(ltr)
