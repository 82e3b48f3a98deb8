"""The tables of MIMICS-Duo beside the published ones: in 80 columns for people, unrounded for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from cts_async.analysis.figures import VERDICTS, Cell, Verdict
from cts_async.analysis.mimics_tables import mimics_table
from cts_async.records import Pane
from cts_async.report.tables import Column, DataTable, Row, print_table, text, write_csv

TITLES: Final[Mapping[str, str]] = {
    "6": "Table 6. Statistics of MIMICS-Duo",
    "7": "Table 7. Panes ranked by offline labels against engagement",
    "8": "Table 8. Quality labels of panes and of their candidate answers",
    "9": "Table 9. Labels of the panes' aspects",
    "10": "Table 10. Correlations between online and offline measures",
    "11": "Table 11. Panes ranked by aspects against three ideal rankings",
    "5.2": "Section 5.2. Quality of candidate answers",
}
CAPTIONS: Final[Mapping[str, str]] = {
    "6": "sd has ddof 1.",
    "7": "all: every query, ties broken at random. untied: one pane alone has the highest engagement and one alone "
    "the highest label. one: a single ideal pane is drawn; otherwise each pane with the highest engagement is ideal.",
    "8": "Mean, variance (ddof 1), percentages of the labels 1 (very bad) to 5 (very good); missing options left out.",
    "9": "Mean, variance (ddof 1), percentages of the labels 1 (strongly disagree) to 5 (strongly agree).",
    "10": "Pearson's r over the panes.",
    "11": "Ties in both lists broken at random, so one pane of a query is ideal. Printed are single draws.",
    "5.2": "Options ranked by their labels against their click probabilities, over all panes, one option ideal.",
}
NOTES: Final[Mapping[str, Sequence[str]]] = {
    "7": (
        "The table does not say which of several ideal panes counts. P@1 counts each: the random ranker's 0.332 is "
        "the mean of k / n. The one MRR over all queries is therefore set beside both readings.",
        "The random ranker's printed values are means of 1,000 draws, so z is in standard errors of such a mean: its "
        "MRR over all queries lies within one draw's spread, but too far off for a mean.",
        "Worst case, all: 0.437 cannot be the reversed ideal ranking. Of n panes, three at least, k ideal ones come "
        "last, the first of them at n - k + 1: 0.316 on average, 0.305 if one alone is ideal. With panes of equal "
        "engagement on one rank it would be 0.438: near, but not the same.",
        "The printed line of standard deviations is read as a pair (P@1, MRR) for each untied collection.",
    ),
    "8": ("The README of the data has the descriptions of pane and option quality the wrong way round.",),
    "10": (
        "The seven cells of Eng. Level do not reproduce over aligned panes. All seven do (last row) where engagement "
        "is sorted in descending order within each query while the labels keep file order: the printed cells look "
        "like an error of alignment, and the aligned values are the ones to use.",
    ),
    "11": (
        "The footnote holds, for the ideal ranking by rating: in 1 / rank, expected over all orders of ties, Coverage, "
        "Diversity and Understandability differ from the random ranker over the queries (paired t-tests, Holm's "
        "correction: p < 0.001 each), Can. Ans. Order does not (p = 0.80).",
        "That the random ranker is better than every aspect by quality is the luck of its printed draw: expected over "
        "all orders of ties, each aspect's MRR lies above it, by 0.010 to 0.017.",
    ),
    "5.2": (
        'The printed "p=0.032" is no correlation of these columns: Pearson 0.049, Spearman 0.044, Kendall 0.039 over '
        "the 3,709 options, Pearson 0.073 over panes with clicks. That there is next to none holds all the same.",
    ),
}
"""What differs from print, and why; of the released files."""
_GRIDS: Final = ("8", "9", "10")
"""Tables without chance and with many columns."""
RELEASED_PANES: Final = 1034
_MARKS: Final[Mapping[Verdict | None, str]] = {"same": "=", "ties": "~", "differs": "≠", None: " "}
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
        """What there is to know of a table; nothing of panes that are not the released ones."""
        return NOTES.get(name, ()) if self.panes == RELEASED_PANES else ()

    @property
    def warning(self) -> str | None:
        """That these are not the panes of the paper."""
        if self.panes == RELEASED_PANES:
            return None
        return f"Panes here: {self.panes:,}. What is printed is of {RELEASED_PANES:,} others, and no measure of these."


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
                "title": TITLES[name],
                "cells": [cell.as_row() for cell in found],
                "notes": list(tables.notes(name)),
            }
            for name, found in tables.cells.items()
        },
        "verdicts": _counted(tables),
        "warning": tables.warning,
    }


def write_tables(folder: Path, tables: MimicsTables) -> None:
    """Every table's cells as table_N.csv, unrounded; the folder is made if need be."""
    for name, found in tables.cells.items():
        rows = [cell.as_row() for cell in found]
        write_csv(folder, DataTable(f"table_{name}", TITLES[name], CAPTIONS[name], (), rows))


def as_table(name: str, found: Sequence[Cell]) -> DataTable:
    """Print beside ours: cells one under the other where ties were drawn, else in the shape that the paper has."""
    if name in _GRIDS:
        return _matrix(name, found)
    return _listed(name, found) if name == "6" else _drawn(name, found)


def _drawn(name: str, found: Sequence[Cell]) -> DataTable:
    rows = _first_named(found, by_ranking=name == "7")
    columns = (
        Column("ranking", text("ranking"), numeric=False),
        Column("measure", text("column"), numeric=False),
        Column("paper", lambda row: row["cell"].printed or "-"),
        Column("mean", lambda row: shown(row["cell"], row["value"])),
        Column("sd", lambda row: shown(row["cell"], row["sd"])),
        Column("exact", lambda row: shown(row["cell"], row["exact"])),
        Column("z", lambda row: "-" if row["z"] is None else f"{row['z']:+.1f}"),
        Column("", lambda row: _MARKS[row["verdict"]]),
    )
    return DataTable(f"table_{name}", TITLES[name], CAPTIONS[name], columns, rows, group="group")


def _listed(name: str, found: Sequence[Cell]) -> DataTable:
    columns = (
        Column("", text("ranking"), numeric=False),
        Column("", text("column"), numeric=False),
        Column("paper", lambda row: row["cell"].printed or "-"),
        Column("here", lambda row: shown(row["cell"], row["value"])),
        Column("", lambda row: _MARKS[row["verdict"]]),
    )
    return DataTable(f"table_{name}", TITLES[name], CAPTIONS[name], columns, _first_named(found))


def _first_named(found: Sequence[Cell], *, by_ranking: bool = True) -> list[Row]:
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
    return DataTable(f"table_{name}", TITLES[name], CAPTIONS[name], columns, rows, group="group")


def shown(cell: Cell, value: float | None) -> str:
    """A number with as many digits as the paper has for its cell, "-" where there is none."""
    digits = 3 if cell.printed is None else len(cell.printed.partition(".")[2])
    # A spread of 0.0 would say nothing of a cell that is printed with one digit.
    return "-" if value is None else f"{value:.{digits if digits != 1 else 2}f}"


def _counted(tables: MimicsTables) -> dict[Verdict, int]:
    """Published cells by verdict, each once: on aligned panes, and with every ideal pane counting (`Cell.again`)."""
    counts = Counter(cell.verdict for found in tables.cells.values() for cell in found if not cell.again)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _print_verdicts(console: Console, tables: MimicsTables) -> None:
    counts = _counted(tables)
    again = sum(cell.again for found in tables.cells.values() for cell in found)
    more = f" ({again} more lines above are other readings of some)" if again else ""
    console.print(Text(f"Published cells: {sum(counts.values())}, each counted once{more}."))
    for verdict, count in counts.items():
        console.print(Text(f"{_MARKS[verdict]} {count:3} {VERDICTS[verdict]}"))
    drawn = f"Ties: {tables.draws:,} draws, seed {tables.seed}; exact: over all orders of tied items, nothing drawn."
    console.print(Text(drawn, style="dim"))
    if tables.warning:
        console.print(Text(tables.warning, style="yellow"))
