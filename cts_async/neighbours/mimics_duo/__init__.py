"""MIMICS-Duo (Tavakoli, Trippas, Zamani, Scholer and Sanderson, SIGIR 2022): clarification panes with labels.

What the program sees of it: a kind of dataset, and the commands `cts data mimics-duo`: panes, the paper's tables,
rankings by scores and learning to rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from cts_async.datasets.kinds import Kind, imported_on_call
from cts_async.errors import UsageError
from cts_async.neighbours.inputs import AsJson, Csv, Force, Out, write_records

KIND: Final = Kind(
    name="mimics-duo",
    title="MIMICS-Duo",
    what="1,034 clarification panes of 306 queries with users' clicks and workers' labels: no instances to run",
    paper="Tavakoli et al., SIGIR 2022: MIMICS-Duo: Offline & Online Evaluation of Search Clarification",
    licence="MIT",
    source="https://github.com/Leila-Ta/MIMICS-Duo",
    spec="mimics-duo:DIR",
    expects="the folder with the four TSV files, under their names in the repository",
    uses=("cts data mimics-duo",),
    instead="has panes and no instances to run: see cts data mimics-duo, and cts data show mimics-duo:DIR",
    inspect=imported_on_call("cts_async.neighbours.mimics_duo.panes", "open_panes"),
    folder_files=(
        "Mimics-ClickExploreSampling.tsv",
        "Task1-OfflineRating.tsv",
        "Task2-QualityLabelling.tsv",
        "Task3-AspectLabelling.tsv",
    ),
    position=4,
)

# Each command imports what it needs when it runs: starting `cts` must not load numpy or pydantic.
app: Final = typer.Typer(rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the four .tsv files.")]
HERE: Final = Path("MIMICS-Duo")
"""Where `git clone https://github.com/Leila-Ta/MIMICS-Duo` puts them."""
Draws = Annotated[int, typer.Option(min=2, max=100_000, help="Number of random draws to break ties.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the draws.")]


@app.command("tables", short_help="Tables 6 to 11 beside the published values, figures 3 and 4.")
def show_tables_beside_paper(
    folder: Folder = HERE,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N",
            help="Only this table: 6 to 11, 5.2, figure-3, figure-4 or text. Repeatable [default: all].",
        ),
    ] = None,
    draws: Draws = 1000,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Tables 6 to 11 and section 5.2, computed and set beside the published values.

    Each cell is marked: = reproduced, ~ within the spread of ties broken at random (z says how far), ≠ differs, and the
    notes say why. Figures 3 and 4 follow as tables, and the percentages that the text claims.

    Example: cts data mimics-duo tables ../shared/data/mimics-duo

    Example: cts data mimics-duo tables MIMICS-Duo --table 10 --json
    """
    from cts_async.neighbours.mimics_duo import statistics
    from cts_async.neighbours.mimics_duo.figures import FIGURES
    from cts_async.neighbours.mimics_duo.panes import read_panes
    from cts_async.tables.table import show_tables

    choices = list(statistics.TABLES) + list(FIGURES)
    names = table or choices
    for name in names:
        if name not in choices:
            raise UsageError(f"--table {name}: must be one of {', '.join(choices)}")
    panes = list(read_panes(folder))
    tables, table_values = [], {}
    for name in statistics.TABLES:
        if name in names:
            table_beside_paper = statistics.mimics_table(name, panes, draws, seed)
            tables.append(table_beside_paper)
            table_values[name] = {
                "title": table_beside_paper.title,
                "cells": table_beside_paper.rows,
                "notes": table_beside_paper.remarks,
            }
    figures, figure_values = [], {}
    for name, figure_table in FIGURES.items():
        if name in names:
            figure = figure_table(panes)
            figures.append(figure)
            figure_values[name] = {"title": figure.title, "rows": figure.rows}
    verdicts = statistics.count_verdicts(tables)
    notes = []
    # Figures have no published cells, and nothing in them is drawn.
    if tables:
        notes.append(f"Published cells, each counted once: {sum(verdicts.values())}.")
        for verdict, n_cells in verdicts.items():
            notes.append(f"{statistics.MARKS[verdict]} {n_cells:3} {statistics.VERDICTS[verdict]}")
        notes.append(
            f"Ties: {draws:,} draws, seed {seed}; exact: over all orders of tied items, nothing drawn."
        )
    n, n_released, warning = len(panes), statistics.RELEASED_PANES, None
    # A part of the release, or other panes in its format.
    if n != n_released:
        warning = f"Panes here: {n:,}. What is printed is of {n_released:,} others, and no measure of these."
        notes.append(warning)
    value = {
        "panes": n,
        "draws": draws,
        "seed": seed,
        "tables": table_values,
        "figures": figure_values,
        "verdicts": verdicts,
        "warning": warning,
    }
    show_tables(tables + figures, notes=notes, as_json=as_json and value, csv=csv)


@app.command("panes", short_help="The four files joined, as JSON Lines.")
def write_panes(folder: Folder = HERE, out: Out = "-", force: Force = False) -> None:
    """The panes as JSON Lines: the four files joined, one object a pane.

    `pane` is its number among its query's, from 1.

    Example: cts data mimics-duo panes MIMICS-Duo > panes.jsonl
    """
    from cts_async.neighbours.mimics_duo.panes import FILES, as_records, read_panes

    inputs = [folder / name for name in FILES]
    write_records(out, as_records(read_panes(folder)), "panes", inputs, force=force)


@app.command("rerank", short_help="P@1 and MRR of panes ranked by your scores.")
def show_reranking(
    scores: Annotated[Path, typer.Option(metavar="FILE", help="Your scores: .jsonl, .csv or .tsv.")],
    folder: Folder = HERE,
    ideal: Annotated[
        str,
        typer.Option(
            metavar="LABEL", help="Label that defines the ideal ranking: engagement, quality or rating."
        ),
    ] = "engagement",
    draws: Draws = 1000,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Rank each query's panes by your scores: P@1 and MRR, beside the random ranker and the worst case.

    The scores are JSON Lines, CSV or TSV with `query`, `pane` (its number among the query's, from 1; see `panes`) and
    `score`, higher is better; every pane needs one. Equal scores are broken at random, and what that spreads is shown.

    Example: cts data mimics-duo rerank MIMICS-Duo --scores scores.jsonl

    Example: cts data mimics-duo rerank MIMICS-Duo --scores scores.tsv --ideal quality --json
    """
    from cts_async.neighbours.mimics_duo.panes import read_pane_scores, read_panes
    from cts_async.neighbours.mimics_duo.statistics import PANE_LABELS, reranked_table
    from cts_async.tables.table import show_tables

    if ideal not in PANE_LABELS:
        raise UsageError(f"--ideal {ideal}: must be one of {', '.join(PANE_LABELS)}")
    ranked = list(read_panes(folder))
    table = reranked_table(ranked, read_pane_scores(scores, ranked), ideal, draws=draws, seed=seed)
    show_tables([table], as_json=as_json, csv=csv)


@app.command("ltr", short_help="Learning to rank panes: cross-validated, or across collections.")
def show_ltr(
    data: Annotated[Path, typer.Argument(metavar="PATH", help="MIMICS-Duo's folder, or a TSV of panes.")],
    label: Annotated[
        str, typer.Option(metavar="LABEL", help="Train on engagement, quality or rating.")
    ] = "engagement",
    test_label: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Test on this label [default: as --label].")
    ] = None,
    ranker: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this ranker, e.g. mart. Repeatable [default: all seven]."),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Test on these panes, trained on all of the first [default: cross-validate]."
        ),
    ] = None,
    features_of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Show this ranker's top features [default: rankboost, as table 5]."
        ),
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of cross-validation folds.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=10**9, help="Random seed.")] = 0,
    as_json: AsJson = False,
    csv: Csv = None,
) -> None:
    """Learn to rank clarification panes: cross-validated P@1 and MRR, tests of every pair, top features.

    PATH is a folder with MIMICS-Duo's four files, or one TSV in the format of MIMICS (query, question, option_1 to
    option_5 and a label's column), such as MIMICS-ClickExplore.tsv. A label is engagement, quality or rating; with
    --test-label rankers are trained on one and tested on another. With --test they are trained on all of PATH and tested
    on another folder or TSV, as in the paper's tables 3 and 4: from clicks to workers' labels.

    Example: cts data mimics-duo ltr MIMICS-Duo/

    Example: cts data mimics-duo ltr MIMICS-Duo/ --label engagement --test-label quality --features-of mart --json

    Example: cts data mimics-duo ltr MIMICS-ClickExplore.tsv --test MIMICS-Manual.tsv --test-label quality
    """
    from cts_async.neighbours.mimics_duo.ltr import Design, ranking_report
    from cts_async.neighbours.mimics_duo.rankers import rankers_named
    from cts_async.neighbours.mimics_duo.statistics import PANE_LABELS
    from cts_async.tables.table import show_tables

    rankers = rankers_named(ranker or ())
    # All names are checked before anything is trained.
    if features_of:
        shown = features_of
    elif "rankboost" in rankers:
        shown = "rankboost"
    else:
        shown = next(iter(rankers))
    if shown not in rankers:
        raise UsageError(f"--features-of {shown}: must be one of the rankers used: {', '.join(rankers)}")
    test_label = test_label or label
    for name in (label, test_label):
        if name not in PANE_LABELS:
            raise UsageError(f"unknown label {name!r}: choose from {', '.join(PANE_LABELS)}")
    design = Design(data, label, test_label, test, folds, seed)
    tables, notes = ranking_report(design, rankers, shown)
    show_tables(tables, notes=notes, as_json=as_json, csv=csv)
