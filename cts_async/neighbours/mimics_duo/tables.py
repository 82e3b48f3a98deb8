"""The tables of MIMICS-Duo with the published values, and a ranking by given scores: for the terminal, JSON and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from cts_async.neighbours.mimics_duo.panes import Pane
from cts_async.neighbours.mimics_duo.statistics import (
    PANE_LABELS,
    VERDICTS,
    Cell,
    PaneLabel,
    Verdict,
    column,
    mimics_table,
    published,
    query_sizes,
)
from cts_async.neighbours.mimics_duo.ties import Ideal, Reranked, rerank, tied_lists, unscored
from cts_async.report.tables import Column, DataTable, Row, number, print_table, text, write_csv

RELEASED_PANES: Final = 1034
_MARKS: Final[Mapping[Verdict | None, str]] = {"same": "=", "ties": "~", "differs": "≠", None: " "}
_GRIDS: Final = ("8", "9", "10")
"""Tables without chance and with many columns."""
_SHORT: Final = {
    "Coverage": "Cov.",
    "Diversity": "Div.",
    "Understandability": "Underst.",
    "Can. Ans. Order": "Order",
    "Quality Labelling": "Quality",
    "Eng. Level": "Eng.",
    "Eng. Level, sorted": "sorted",
    "Offline Rating": "Rating",
    "# of Can. Ans.": "#Ans.",
}
"""The measures of table 10, in its order, so that it fits 80 columns."""


@dataclass(frozen=True, slots=True)
class MimicsTables:
    """The tables asked for, by number, with the draws and the seed that broke their ties."""

    cells: Mapping[str, Sequence[Cell]]
    panes: int
    draws: int
    seed: int

    def notes(self, name: str) -> Sequence[str]:
        """What differs from print in a table and why; nothing for panes that are not the released ones."""
        return published()[name].notes if self.panes == RELEASED_PANES else ()

    @property
    def warning(self) -> str | None:
        """That these are not the panes of the paper."""
        if self.panes == RELEASED_PANES:
            return None
        return f"Panes here: {self.panes:,}. What is printed is of {RELEASED_PANES:,} others, and no measure of these."

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """Published cells by verdict, each counted once (`Cell.again`)."""
        counts = Counter(cell.verdict for found in self.cells.values() for cell in found if not cell.again)
        return {verdict: counts[verdict] for verdict in VERDICTS}


def mimics_tables(panes: Sequence[Pane], names: Sequence[str], *, draws: int, seed: int) -> MimicsTables:
    """Compute the tables called `names`."""
    found = {name: mimics_table(name, panes, draws=draws, seed=seed) for name in names}
    return MimicsTables(found, len(panes), draws, seed)


def print_tables(console: Console, tables: MimicsTables) -> None:
    """Every table with its notes, then how many cells reproduce."""
    for name, found in tables.cells.items():
        print_table(console, as_table(name, found))
        for note in (notes := tables.notes(name)):
            console.print(Text(f"Note: {note}", style="yellow"))
        if notes:
            console.print()
    _print_verdicts(console, tables)


def tables_json(tables: MimicsTables) -> dict[str, Any]:
    """All numbers unrounded: a list of cells and the notes for each table."""
    return {
        "panes": tables.panes,
        "draws": tables.draws,
        "seed": tables.seed,
        "tables": {
            name: {
                "title": published()[name].title,
                "cells": [cell.as_row() for cell in found],
                "notes": list(tables.notes(name)),
            }
            for name, found in tables.cells.items()
        },
        "verdicts": tables.verdicts,
        "warning": tables.warning,
    }


def write_tables(folder: Path, tables: MimicsTables) -> None:
    """Write every table's cells as table_N.csv, unrounded; the folder is created if it is missing."""
    for name, found in tables.cells.items():
        write_csv(folder, _table(name, (), [cell.as_row() for cell in found]))


def as_table(name: str, found: Sequence[Cell]) -> DataTable:
    """A table with printed and computed values: one cell a line where ties were drawn, else in the paper's shape."""
    if name in _GRIDS:
        return _matrix(name, found)
    measure = Column("" if name == "6" else "measure", text("column"), numeric=False)
    paper = Column("paper", lambda row: row["cell"].printed or "-")
    mark = Column("", lambda row: _MARKS[row["verdict"]])
    if name == "6":
        here = Column("here", lambda row: shown(row["cell"], row["value"]))
        named = Column("", text("ranking"), numeric=False)
        return _table(name, (named, measure, paper, here, mark), _rows(found))
    columns = (
        Column("ranking", text("ranking"), numeric=False),
        measure,
        paper,
        Column("mean", lambda row: shown(row["cell"], row["value"])),
        Column("sd", lambda row: shown(row["cell"], row["sd"])),
        Column("exact", lambda row: shown(row["cell"], row["exact"])),
        Column("z", lambda row: "-" if row["z"] is None else f"{row['z']:+.1f}"),
        mark,
    )
    return _table(name, columns, _rows(found, by_ranking=name == "7"), group="group")


def _table(name: str, columns: Sequence[Column], rows: Sequence[Row], group: str = "") -> DataTable:
    paper = published()[name]
    return DataTable(f"table_{name}", paper.title, paper.caption, columns, rows, group=group)


def _rows(found: Sequence[Cell], *, by_ranking: bool = True) -> list[Row]:
    """The cells as rows, in groups of one ranking or one ideal; the first of several names their `ranking`."""
    rows: list[Row] = []
    before = None
    for cell in found:
        named = "" if cell.row == before else cell.row
        group = cell.row if by_ranking else cell.column.rpartition(" ")[2]
        rows.append({**cell.as_row(), "cell": cell, "ranking": named, "group": group})
        before = cell.row
    return rows


def _matrix(name: str, found: Sequence[Cell]) -> DataTable:
    """Two lines a row: what is printed, and what is found with its mark."""
    names = [key for key in _SHORT if any(cell.column == key for cell in found)]
    names = names or list(dict.fromkeys(cell.column for cell in found))
    rows: list[Row] = []
    for row in dict.fromkeys(cell.row for cell in found):
        of_row = {cell.column: cell for cell in found if cell.row == row}
        printed = {key: f"{cell.printed or '-'} " for key, cell in of_row.items()}
        ours = {key: shown(cell, cell.value) + _MARKS[cell.verdict] for key, cell in of_row.items()}
        empty = {**dict.fromkeys(names, ""), "group": row}
        named = _SHORT.get(row, row) if name == "10" else row
        rows += [
            {**empty, "row": named, "who": "paper", **printed},
            {**empty, "row": "", "who": "here", **ours},
        ]
    columns = (
        Column("", text("row"), numeric=False),
        Column("", text("who"), numeric=False),
        *(Column(_SHORT.get(key, key), text(key)) for key in names),
    )
    return _table(name, columns, rows, group="group")


def shown(cell: Cell, value: float | None) -> str:
    """A number with as many digits as the paper has for its cell, "-" where there is none."""
    digits = 3 if cell.printed is None else len(cell.printed.partition(".")[2])
    # A spread of 0.0 would say nothing of a cell that is printed with one digit.
    return "-" if value is None else f"{value:.{digits if digits != 1 else 2}f}"


def _print_verdicts(console: Console, tables: MimicsTables) -> None:
    counts = tables.verdicts
    again = sum(cell.again for found in tables.cells.values() for cell in found)
    more = f" ({again} more lines above are other readings of some)" if again else ""
    console.print(Text(f"Published cells: {sum(counts.values())}, each counted once{more}."))
    for verdict, count in counts.items():
        console.print(Text(f"{_MARKS[verdict]} {count:3} {VERDICTS[verdict]}"))
    drawn = f"Ties: {tables.draws:,} draws, seed {tables.seed}; exact: over all orders of tied items, nothing drawn."
    console.print(Text(drawn, style="dim"))
    if tables.warning:
        console.print(Text(tables.warning, style="yellow"))


# --- A ranking by given scores ---------------------------------------------------------------------------

_READINGS: Final[tuple[tuple[str, Ideal], ...]] = (("all", "any"), ("all", "one"), ("untied", "any"))


@dataclass(frozen=True, slots=True)
class RerankedPanes:
    """A row: which ranking, on which queries, and what counted as ideal. None without a query."""

    ranking: str
    queries: str
    counts: Ideal
    found: Reranked | None


def rerank_panes(
    panes: Sequence[Pane], scores: Sequence[float], ideal: PaneLabel, *, draws: int, seed: int
) -> list[RerankedPanes]:
    """`scores`, the random ranker and the worst case: over all queries in both readings, and over the untied."""
    labels, sizes = column(panes, PANE_LABELS[ideal]), query_sizes(panes)
    lists = tied_lists(scores, labels, sizes)
    rankings = {"scores": lists, "random": unscored(lists), "worst": tied_lists(-labels, labels, sizes)}
    rows = []
    for name, ranking in rankings.items():
        for queries, counts in _READINGS:
            these = ranking.of(lists.alone) if queries == "untied" else ranking
            rows.append(RerankedPanes(name, queries, counts, rerank(these, counts, draws=draws, seed=seed)))
    return rows


def reranked_table(rows: Sequence[RerankedPanes], ideal: PaneLabel, draws: int) -> DataTable:
    """Its rows are what `--json` prints."""
    columns = (
        Column("ranking", text("ranking"), numeric=False),
        Column("queries", lambda row: f"{row['queries']} {row['n_queries']}", numeric=False),
        Column("ideal", text("counts"), numeric=False),
        *(
            Column(heading, number(f"{measure}_{part}", ".3f"))
            for measure, name in (("p_at_1", "P@1"), ("mrr", "MRR"))
            for part, heading in (("mean", name), ("sd", "±"), ("exact", "exact"))
        ),
    )
    caption = (
        f"Ideal: {ideal}. all: every query. untied: one pane alone has the highest label and one alone the highest "
        "score. any: each pane with the highest label counts; one: one of them, drawn at random. ± is the spread over "
        f"{draws:,} draws of the ties, exact the expectation over all of them."
    )
    found = [{"ideal": ideal, **_reranked_row(one)} for one in rows]
    return DataTable("reranking", "Panes ranked by score", caption, columns, found, group="ranking")


def _reranked_row(one: RerankedPanes) -> dict[str, Any]:
    found = one.found
    row: dict[str, Any] = {
        "ranking": one.ranking,
        "queries": one.queries,
        "counts": one.counts,
        "n_queries": found.queries if found else 0,
        "n_panes": found.items if found else 0,
    }
    for name in ("p_at_1", "mrr"):
        measured = getattr(found, name, None)
        row |= {
            f"{name}_{part}": getattr(measured, part, None) for part in ("mean", "sd", "exact", "exact_sd")
        }
    return row
