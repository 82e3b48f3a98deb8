"""`cts data mimics-duo`: panes, labels and the paper's tables (SIGIR 2022)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from cts_async.cli import options
from cts_async.cli.data.group import SETTINGS, Force, check_free
from cts_async.cli.data.mimics_ltr import ltr
from cts_async.cli.streams import print_json

mimics_duo: Final = typer.Typer(
    name="mimics-duo", help="MIMICS-Duo: panes, labels and the paper's tables (SIGIR 2022).", **SETTINGS
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The directory with the four .tsv files.")]
HERE: Final = Path("MIMICS-Duo")
"""Where `git clone https://github.com/Leila-Ta/MIMICS-Duo` puts them."""
Draws = Annotated[int, typer.Option(min=2, max=100_000, help="How often ties are broken at random.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the draws: the same one gives the same numbers.")]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="DIR", help="Also write every table there, unrounded.")
]

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
    folder: Folder = HERE,
    table: Annotated[
        list[str] | None, typer.Option(metavar="N", help="Only this table: 6 to 11, or 5.2 [default: all].")
    ] = None,
    draws: Draws = 1000,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.analysis.mimics_tables import TABLES
    from cts_async.datasets.mimics_duo import read_panes
    from cts_async.errors import UsageError
    from cts_async.report.mimics_tables import mimics_tables, print_tables, tables_json, write_tables

    names = [name for name in TABLES if not table or name in table]
    if wrong := [name for name in table or () if name not in TABLES]:
        raise UsageError(f"--table {wrong[0]}: no such table here; there are {', '.join(TABLES)}")
    found = mimics_tables(list(read_panes(folder)), names, draws=draws, seed=seed)
    if csv is not None:
        write_tables(csv, found)
    if as_json:
        print_json(tables_json(found))
    else:
        from rich.console import Console

        print_tables(Console(), found)


@mimics_duo.command("panes", help=PANES_HELP, short_help="The four files joined, as JSON Lines.")
def panes(
    folder: Folder = HERE,
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to, - for standard output.")] = "-",
    force: Force = False,
) -> None:
    from cts_async.cli.data.streamed import STDOUT, write_jsonl
    from cts_async.datasets.mimics_duo import FILES, read_panes
    from cts_async.datasets.pane_scores import as_records
    from cts_async.errors import UsageError

    target = Path(out).expanduser().resolve()
    if out != STDOUT and target in [(folder / name).resolve() for name in FILES]:
        raise UsageError(f"--out {out}: that is a file to read; choose another")
    if out != STDOUT:
        check_free(Path(out), force=force)
    n = write_jsonl(out, as_records(read_panes(folder)))
    if out != STDOUT:
        typer.echo(f"{out}: {n:,} panes", err=True)


@mimics_duo.command("rerank", help=RERANK_HELP, short_help="P@1 and MRR of panes ranked by your scores.")
def rerank(
    scores: Annotated[Path, typer.Option(metavar="FILE", help="The scores: .jsonl, .csv or .tsv.")],
    folder: Folder = HERE,
    ideal: Annotated[
        str, typer.Option(metavar="LABEL", help="What an ideal ranking is by: engagement, quality or rating.")
    ] = "engagement",
    draws: Draws = 1000,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.analysis.pane_columns import PANE_LABELS
    from cts_async.cli.data.shown import show
    from cts_async.datasets.mimics_duo import read_panes
    from cts_async.datasets.pane_scores import read_pane_scores
    from cts_async.errors import UsageError
    from cts_async.report.mimics_rerank import rerank_panes, reranked_table

    label = next((name for name in PANE_LABELS if name == ideal), None)
    if label is None:
        raise UsageError(f"--ideal {ideal}: no such label; there are {', '.join(PANE_LABELS)}")
    shown = list(read_panes(folder))
    rows = rerank_panes(shown, read_pane_scores(scores, shown), label, draws=draws, seed=seed)
    show([reranked_table(rows, label, draws)], as_json=as_json, csv=csv)


mimics_duo.command("ltr", short_help="Learning to rank panes, cross-validated.")(ltr)
