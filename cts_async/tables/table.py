"""Tables as data: printed on a terminal, and written as JSON, CSV and Markdown; `latex` writes LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.analysis.stats import ENOUGH, FEWEST, Difference
from cts_async.errors import UsageError
from cts_async.records import MADE_UP, SMOKE_TEST, Caveat
from cts_async.safe_files import atomic_writer
from cts_async.tables.output import plain, print_json, visible

NAME_WIDTH: Final = 12
"""Minimum width of a column of names; longer names fold."""
NARROW_NAME_WIDTH: Final = 8
"""The same on a terminal that would break numbers otherwise."""
SHORT_MARK: Final = "†"
SHORT_NOTE: Final = (
    f"{SHORT_MARK} fewer than {ENOUGH} instances differ: "
    "the interval covers the truth in less than 95 % of cases."
)
"""Explanation of the mark of short intervals."""
NO_INTERVAL: Final = "[-]"
FEW_NOTE: Final = (
    f"{NO_INTERVAL} no interval: fewer than {FEWEST} instances, or all of them have the same value."
)
NO_DIFFERENCE: Final = "no difference"
"""In place of `+0.00 [+0.00, +0.00]`, which looks like a very exact measurement."""

Row: TypeAlias = Mapping[str, Any]
Show: TypeAlias = Callable[[Row], str]
Rank: TypeAlias = Callable[[Row], float | None]
"""A row's rank value in a column, the highest is best; None for a row that does not compete."""

WIDE: Final = 100
"""Terminal width from which on columns are padded."""
_UNUSUAL: Final = re.compile(r"[^\w.-]+")
_NAME_CHARS: Final = 80
_LEADING: Final = re.compile(r"\A[\s\u200c\u200d\ufe00-\ufe0f]+")
"""White space and joiners, which stay in a cell and cannot be seen at its beginning."""
_LIKE_FORMULAS: Final = ("=", "+", "-", "@", "\t", "＝", "＋", "－", "＠")
"""First characters of what spreadsheets take for a formula; East Asian ones read wide signs as the narrow ones."""


@dataclass(frozen=True, slots=True)
class Column:
    """A printed column: its heading (any text), and how a row's cell is formatted."""

    heading: str
    show: Show
    numeric: bool = True
    rank: Rank | None = None
    """Marks the best values of the column bold in papers; None if no value is better than another."""
    optional: bool = False
    """A terminal that is too narrow for the table leaves the column out."""


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table. `rows` hold all numbers, unrounded; `columns` say what is printed of them."""

    name: str
    """Key in JSON, and name of the CSV file."""
    title: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    group: str = ""
    """A key of the rows: rows with equal values form a group, separated by a rule."""
    shown: int | None = None
    """Print at most so many rows, evenly spaced; None: all, 0: none."""
    remarks: tuple[str, ...] = ()
    """Notes to be read after the table."""
    bold_note: str = ""
    """The legend of bold values (`Column.rank`), for pages and papers; "" where the caption has it."""


def with_caveats(table: DataTable, caveats: Collection[Caveat]) -> DataTable:
    """Say in the title what is made up, wherever the table goes; a smoke test is named beside the table."""
    return replace(table, title=f"{table.title} ({MADE_UP})") if MADE_UP in caveats else table


def marked(label: str, caveat: Caveat) -> str:
    """A system's name beside its scores. Systems of `cts demo` have telling names, and their tables a mark."""
    return f"{label} ({caveat})" if caveat == SMOKE_TEST else label


def print_table(console: Console, table: DataTable) -> None:
    """Print a table as wide as the terminal allows, unless it has no rows to show.

    Names fold, numbers do not. Where they do not fit, optional columns are left out, the last ones first, and then the
    terminal is overrun: rich would leave out other columns, or parts of numbers.
    """
    if not table.rows or table.shown == 0:
        return
    padding = 1 if console.width >= WIDE else 0
    drawn = Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, padding), pad_edge=False)
    rows = shown_rows(table)
    columns = [
        (column, [printable(text) for text in (column.heading, *map(column.show, rows))])
        for column in table.columns
    ]
    # A file keeps every column: only a terminal is too narrow for some.
    while (width := _least_width(columns, padding, NAME_WIDTH)) > console.width:
        optional = [i for i, (column, _) in enumerate(columns) if column.optional and console.is_terminal]
        if not optional:
            if not console.is_terminal or _least_width(columns, padding, NARROW_NAME_WIDTH) > console.width:
                drawn.width = width
            break
        del columns[optional[-1]]
    for column, texts in columns:
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        drawn.add_column(Text(texts[0]), justify=justify, no_wrap=column.numeric, overflow="fold")
    for i, row in enumerate(rows, start=1):
        last = bool(table.group) and i < len(rows) and rows[i][table.group] != row[table.group]
        drawn.add_row(*(Text(texts[i]) for _, texts in columns), end_section=last)
    for line, style in ((table.title, "bold"), (table.caption, "dim")):
        if line:
            console.print(Text(printable(line), style=style))
    console.print(drawn, crop=False, no_wrap=True, overflow="ignore")
    console.print()


def _least_width(columns: Sequence[tuple[Column, Sequence[str]]], padding: int, name_width: int) -> int:
    """The width that columns need, each given with its texts, where names fold at `name_width`."""
    needed = [(max(map(cell_len, texts)), column.numeric) for column, texts in columns]
    between = (len(columns) - 1) * (2 * padding + 1)
    return between + sum(width if numeric else min(width, name_width) for width, numeric in needed)


def show_tables(
    tables: Sequence[DataTable],
    *,
    lead: Sequence[str] = (),
    notes: Sequence[str] = (),
    as_json: bool | Mapping[str, Any] = False,
    csv: Path | None = None,
) -> None:
    """Print tables with their remarks between `lead` and `notes`; with `as_json` all rows unrounded by the tables'
    names, with the notes, or that value.

    With `csv` every table is also written to that folder, which is created if it is missing.
    """
    if csv is not None:
        for table in tables:
            write_csv(csv, table)
    if as_json:
        rows = {table.name: list(table.rows) for table in tables} | {"notes": list(notes)}
        print_json(rows if as_json is True else as_json)
        return
    console = Console(emoji=False)
    for line in lead:
        console.print(Text(f"{printable(line)}\n"))
    for table in tables:
        print_table(console, table)
        for remark in table.remarks:
            console.print(Text(printable(remark)))
        if table.remarks:
            console.print()
    for note in notes:
        console.print(Text(plain(note, "\N{REPLACEMENT CHARACTER}", lines=True), style="yellow"))


def print_facts(console: Console, title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print a title, labelled texts folded in their column, and an empty line. All text is untrusted."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in facts:
        grid.add_row(Text(f"  {label}"), Text(plain(value)))
    console.print(Text(plain(title), style="bold"))
    console.print(grid)
    console.print()


def write_csv(folder: Path, table: DataTable) -> None:
    """Write all rows, unrounded, to NAME.csv, atomically; a table without rows gives no file.

    Creates the folder if necessary. Raises UsageError.
    """
    if not table.rows:
        return
    make_table_folder(folder)
    with atomic_writer(folder / f"{table.name}.csv") as file:
        file.write(csv_text(table).encode(errors="replace"))


def csv_text(table: DataTable) -> str:
    """Format all rows of a table that has rows as CSV, unrounded.

    Text cannot act as a formula in a spreadsheet, or steer a terminal: see `_cell`.
    """
    return csv_of(list(table.rows[0]), table.rows)


def csv_of(keys: Sequence[str], rows: Iterable[Row], *, header: bool = True) -> str:
    """Format rows as CSV under a header of `keys`; a missing value or None is an empty cell. Text as in `csv_text`."""
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, keys, lineterminator="\n")
    if header:
        writer.writer.writerow(map(_cell, keys))  # some are names of judges
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return lines.getvalue()


def free_name(name: str, taken: set[str]) -> str:
    """Make `name` valid for files on any system, and distinct by a number."""
    usual = _UNUSUAL.sub("_", name).strip("._")[:_NAME_CHARS] or "table"
    free, n = usual, 2
    while free.casefold() in taken:
        free, n = f"{usual}_{n}", n + 1
    taken.add(free.casefold())
    return free


def with_free_names(tables: Iterable[DataTable], taken: Iterable[str] = ()) -> Iterator[DataTable]:
    """Yield the tables that have rows, with distinct names that are valid for files and not `taken`."""
    names = set(taken)
    for table in tables:
        if table.rows:
            yield replace(table, name=free_name(table.name, names))


def _cell(value: Any) -> Any:
    """Make text safe: invisible characters are shown, and an apostrophe precedes what looks like a formula.

    A lone carriage return, which the csv module of Python 3.11 does not quote, cannot end a row either.
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    # A spreadsheet skips line breaks and spaces before a sign.
    begins = shown.startswith(_LIKE_FORMULAS) or _LEADING.sub("", shown).startswith(_LIKE_FORMULAS)
    return f"'{shown}" if begins else shown


def make_table_folder(folder: Path) -> None:
    """Create a folder for tables if necessary. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{folder}: is a file; name a folder for the tables") from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot create this folder ({error.strerror})") from None


def printable(text: str) -> str:
    """Replace control characters in untrusted text."""
    return plain(text, "�")


def written_rows(table: DataTable) -> Sequence[Row]:
    """Return the rows for a page or a paper: those that are printed, or all if none are."""
    return table.rows if table.shown == 0 else shown_rows(table)


def text(key: str) -> Show:
    """Show the value of `key`, "-" for None."""
    return lambda row: "-" if row[key] is None else str(row[key])


def text_columns(*keys: str) -> tuple[Column, ...]:
    """Return columns of text, each headed by its key."""
    return tuple(Column(key, text(key), numeric=False) for key in keys)


def number_columns(**specs: str) -> tuple[Column, ...]:
    """Return columns of numbers, each headed by its key and shown in Python's format."""
    return tuple(Column(key.replace("_", " "), number(key, spec)) for key, spec in specs.items())


def number(key: str, spec: str) -> Show:
    """Show a number in Python's format `spec`, "-" for None."""
    return lambda row: "-" if row[key] is None else format(row[key], spec)


def p_value(key: str, digits: int = 3) -> Show:
    """Show a p-value; one that would be printed as 0 as below the smallest that is not: "<.001"."""
    written = number(key, f".{digits}f")
    nothing = format(0, f".{digits}f")
    return lambda row: f"<.{1:0{digits}d}" if written(row) == nothing else written(row)


def estimate(key: str, spec: str) -> Show:
    """Show a number with the interval in the fields of `interval_fields`; one without KEY_pairs is always shown."""

    def show(row: Row) -> str:
        if row[key] is None:
            return "-"
        if f"{key}_pairs" in row:
            return difference_text(_difference_of(row, key), spec)
        return with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], spec)

    return show


def difference_text(found: Difference, spec: str) -> str:
    """Format `66.7 [50.0, 83.3]`, marked if the interval is too short; `66.7 [-]` where there is none to show.

    With the `spec` of a signed number it is a difference, and equal scores everywhere are NO_DIFFERENCE.
    """
    if found.nowhere and spec.startswith("+"):
        return NO_DIFFERENCE
    if found.interval is None:
        return f"{found.mean:{spec}} {NO_INTERVAL}"
    return with_interval(found.mean, *found.interval, spec, short=found.too_short)


def with_interval(
    value: float, low: float | None, high: float | None, spec: str, *, short: bool = False
) -> str:
    """Format `66.7 [50.0, 83.3]`, marked if the interval is too `short`; the value alone if there is none."""
    if low is None or high is None:
        return format(value, spec)
    return f"{value:{spec}} [{low:{spec}}, {high:{spec}}]{SHORT_MARK if short else ''}"


def shown_rows(table: DataTable) -> Sequence[Row]:
    """Return the rows that are printed."""
    rows, most = table.rows, table.shown
    if most is None or len(rows) <= most:
        return rows
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def interval_fields(key: str, found: Difference | None) -> dict[str, Any]:
    """The fields that `estimate` reads, from a difference with its interval; ends are None where there is none."""
    if found is None:
        return {
            key: None,
            f"{key}_pairs": 0,
            f"{key}_differ": 0,
            f"{key}_low": None,
            f"{key}_high": None,
            f"{key}_too_short": False,
        }
    return {
        key: found.mean,
        f"{key}_pairs": found.n,
        f"{key}_differ": found.n_differ,
        f"{key}_low": found.low,
        f"{key}_high": found.high,
        f"{key}_too_short": found.too_short,
    }


def _difference_of(row: Row, key: str) -> Difference:
    """The difference that `interval_fields` made these fields of."""
    return Difference(
        row[f"{key}_pairs"], row[key], row[f"{key}_low"], row[f"{key}_high"], row[f"{key}_differ"]
    )


def with_short_note(caption: str, rows: Sequence[Row]) -> str:
    """The caption, with explanations of marked and of missing intervals if a row has one."""
    shown = []
    for row in rows:
        for name in row:
            key = name.removesuffix("_too_short")
            if key != name and row[key] is not None:
                shown.append(_difference_of(row, key))
    return " ".join(filter(None, (caption, *interval_notes(shown))))


def interval_notes(shown: Iterable[Difference]) -> tuple[str, ...]:
    """Explain those of the differences whose interval is marked as too short, or missing though there is a value."""
    notes: dict[str, None] = {}
    for difference in shown:
        if difference.interval is not None and difference.too_short:
            notes[SHORT_NOTE] = None
        if difference.interval is None and not difference.nowhere:
            notes[FEW_NOTE] = None
    return tuple(note for note in (SHORT_NOTE, FEW_NOTE) if note in notes)


# Tables as Markdown

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")


def markdown(table: DataTable) -> str:
    """Format the printed rows as GitHub Markdown, under title and caption, with remarks below. All text is escaped."""
    aligned = " | ".join("---:" if column.numeric else ":---" for column in table.columns)
    lines = [
        f"**{_marked_down(table.title)}**" + (f" {_marked_down(table.caption)}" if table.caption else ""),
        "",
        _row(_marked_down(column.heading) for column in table.columns),
        f"| {aligned} |",
    ]
    best = best_cells(written_rows(table), table.columns)
    for i, row in enumerate(written_rows(table)):
        cells = (_marked_down(column.show(row)) for column in table.columns)
        lines.append(_row(f"**{cell}**" if (i, j) in best else cell for j, cell in enumerate(cells)))
    for remark in (*bold_legend(table, best), *table.remarks):
        lines += ["", _marked_down(remark)]
    return "\n".join(lines) + "\n"


def best_cells(rows: Sequence[Row], columns: Sequence[Column]) -> frozenset[tuple[int, int]]:
    """Return (row, column) of the best values of each ranked column; equals are all best, unless all are equal."""
    found = set()
    for j, column in enumerate(columns):
        ranks = [column.rank(row) if column.rank else None for row in rows]
        there = [rank for rank in ranks if rank is not None]
        if len(set(there)) > 1:
            found |= {(i, j) for i, rank in enumerate(ranks) if rank == max(there)}
    return frozenset(found)


def bold_legend(table: DataTable, best: Collection[tuple[int, int]]) -> tuple[str, ...]:
    """Return the note on bold values, if the table has any."""
    return (table.bold_note,) if best and table.bold_note else ()


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked_down(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", visible(" ".join(text.split())))
