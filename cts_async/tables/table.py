"""Tables as data: printed on a terminal, and written as JSON, CSV and Markdown; `latex` writes LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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

MISSING: Final = "-"
"""What stands for None in a cell."""

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
    section: str = ""
    """A key of the rows: rows with equal values stand under that value as a heading (see `in_sections`)."""
    shown: int | None = None
    """Print at most so many rows, evenly spaced; None: all, 0: none."""
    remarks: tuple[str, ...] = ()
    """Notes to be read after the table."""
    dim: str = ""
    """A key of the rows: a terminal shows rows dim whose value is true."""
    bold_note: str = ""
    """The legend of bold values (`Column.rank`), for pages and papers; "" where the caption has it."""


def with_caveats(table: DataTable, caveats: Collection[Caveat]) -> DataTable:
    """Say in the title what is made up, wherever the table goes; a smoke test is named beside the table."""
    if MADE_UP not in caveats:
        return table
    return replace(table, title=f"{table.title} ({MADE_UP})")


def marked(label: str, caveat: Caveat) -> str:
    """A system's name beside its scores. Systems of `cts demo` have telling names, and their tables a mark."""
    if caveat != SMOKE_TEST:
        return label
    return f"{label} ({caveat})"


SECTION: Final = "group"
"""The key of rows, and the column of CSV files, that says which group of runs a row is about."""


def in_sections(groups: Sequence[tuple[str, Sequence[DataTable]]]) -> list[DataTable]:
    """Join the tables of several groups, each given with its heading: one table for each name, a section for each group.

    A row is shown by the columns of its own table, and "-" where that has no such column. Captions and remarks that
    differ become remarks under their headings.
    """
    parts_by_name: dict[str, dict[str, DataTable]] = {}
    for heading, tables in groups:
        for table in tables:
            if table.rows:
                parts_by_name.setdefault(table.name, {})[heading] = table
    return [_joined(parts) for parts in parts_by_name.values()]


def _joined(parts: Mapping[str, DataTable]) -> DataTable:
    """Join the tables of one name, by heading."""
    first = next(iter(parts.values()))
    # As ordered sets: columns and keys that only a later table has follow those of the first one.
    keys: dict[str, None] = {}
    headings: dict[str, None] = {}
    for table in parts.values():
        keys.update(dict.fromkeys(table.rows[0]))
        headings.update(dict.fromkeys(column.heading for column in table.columns))
    rows: list[Row] = []
    for heading, table in parts.items():
        for row in table.rows:
            rows.append({SECTION: heading} | {key: row.get(key) for key in keys})
    columns: list[Column] = []
    for column_heading in headings:
        column_by_section: dict[str, Column] = {}
        for heading, table in parts.items():
            for column in table.columns:
                if column.heading == column_heading:
                    column_by_section[heading] = column
        columns.append(_joined_column(column_by_section))
    captions = {heading: (table.caption,) for heading, table in parts.items() if table.caption}
    caption = ""
    remarks: list[str] = []
    if {lines[0] for lines in captions.values()} == {first.caption} and len(captions) == len(parts):
        caption = first.caption
    else:
        remarks += _by_section(captions, len(parts))
    remarks += _by_section({heading: table.remarks for heading, table in parts.items()}, len(parts))
    bold_notes = [table.bold_note for table in parts.values() if table.bold_note]
    return replace(
        first,
        title=" / ".join(dict.fromkeys(table.title for table in parts.values())),
        caption=caption,
        columns=columns,
        rows=rows,
        section=SECTION,
        remarks=tuple(remarks),
        bold_note=next(iter(bold_notes), ""),
    )


def _joined_column(column_by_section: Mapping[str, Column]) -> Column:
    """A column that shows and ranks each row as the column of its section does."""

    def show(row: Row) -> str:
        if row[SECTION] not in column_by_section:
            return MISSING
        return column_by_section[row[SECTION]].show(row)

    def rank(row: Row) -> float | None:
        column = column_by_section.get(row[SECTION])
        if column is None or column.rank is None:
            return None
        return column.rank(row)

    columns = list(column_by_section.values())
    joined_rank = None
    if any(column.rank for column in columns):
        joined_rank = rank
    return replace(
        columns[0],
        show=show,
        rank=joined_rank,
        numeric=all(column.numeric for column in columns),
        optional=all(column.optional for column in columns),
    )


def _by_section(lines_by_section: Mapping[str, Sequence[str]], n_sections: int) -> Iterator[str]:
    """Yield each line once if all sections have it, else behind the heading of its section."""
    counts: Counter[str] = Counter()
    for lines in lines_by_section.values():
        counts.update(set(lines))
    yielded: set[str] = set()
    for heading, lines in lines_by_section.items():
        for line in lines:
            if counts[line] < n_sections:
                yield f"{heading}: {line}"
            elif line not in yielded:
                yielded.add(line)
                yield line


def print_table(console: Console, table: DataTable) -> None:
    """Print a table as wide as the terminal allows, unless it has no rows to show.

    Names fold, numbers do not. Where they do not fit, optional columns are left out, the last ones first, and then the
    terminal is overrun: rich would leave out other columns, or parts of numbers.
    """
    if not table.rows or table.shown == 0:
        return
    padding = 0
    if console.width >= WIDE:
        padding = 1
    rows = shown_rows(table)
    columns = [_text_column(column, rows) for column in table.columns]
    # Cells are formatted before the table is drawn: how wide they are decides which columns it has.
    if console.is_terminal:  # a file keeps every column: only a terminal is too narrow for some
        _drop_optional(columns, console.width, padding)
    for line, style in ((table.title, "bold"), (table.caption, "dim")):
        if line:
            console.print(Text(printable(line), style=style))
    if table.section:
        _print_sections(console, table, rows, columns, padding)
    else:
        drawn = _drawn(columns, padding)
        width = _least_width(columns, padding, NAME_WIDTH)
        if width > console.width:
            narrowest = _least_width(columns, padding, NARROW_NAME_WIDTH)
            if not console.is_terminal or narrowest > console.width:
                drawn.width = width
        _add_rows(drawn, table, rows, columns, range(len(rows)))
        console.print(drawn, crop=False, no_wrap=True, overflow="ignore")
    console.print()


def _print_sections(
    console: Console, table: DataTable, rows: Sequence[Row], columns: Sequence[_TextColumn], padding: int
) -> None:
    """Print the head of a table, then each section under its heading; all have the same columns, as wide."""
    widths = _fixed_widths(columns, console.width, padding)
    head = _drawn(columns, padding, widths)
    console.print(head, crop=False, no_wrap=True, overflow="ignore")
    for start, end in section_ranges(table, rows):
        if start:
            console.print()
        console.print(Text(printable(str(rows[start][table.section])), style="italic"))
        drawn = _drawn(columns, padding, widths)
        drawn.show_header = False
        _add_rows(drawn, table, rows, columns, range(start, end))
        console.print(drawn, crop=False, no_wrap=True, overflow="ignore")


def section_ranges(table: DataTable, rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return (start, end) of each section of rows; of a table without sections that of all rows."""
    starts: list[int] = []
    for place, row in enumerate(rows):
        if not starts or (table.section and row[table.section] != rows[starts[-1]][table.section]):
            starts.append(place)
    return list(zip(starts, [*starts[1:], len(rows)], strict=True))


def _fixed_widths(columns: Sequence[_TextColumn], width: int, padding: int) -> list[int]:
    """The widths of columns of which names fold, the widest first, until the table is as wide as it may be."""
    widths: list[int] = []
    floors: list[int] = []
    for column in columns:
        widths.append(column.least_width(width))
        floors.append(column.least_width(NARROW_NAME_WIDTH))
    excess = sum(widths) + (len(columns) - 1) * (2 * padding + 1) - width
    while excess > 0:
        foldable = [place for place in range(len(columns)) if widths[place] > floors[place]]
        # Numbers do not fold: where names cannot be narrower either, the terminal is overrun.
        if not foldable:
            break
        widest = max(foldable, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return widths


def _drawn(columns: Sequence[_TextColumn], padding: int, widths: Sequence[int] = ()) -> Table:
    """A table without rows; `widths` fixes those of its columns."""
    drawn = Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, padding), pad_edge=False)
    for place, column in enumerate(columns):
        justify: Literal["left", "right"] = "left"
        if column.numeric:
            justify = "right"
        width = None
        if widths:
            width = widths[place]
        drawn.add_column(
            Text(column.heading), justify=justify, no_wrap=column.numeric, overflow="fold", width=width
        )
    return drawn


def _add_rows(
    drawn: Table, table: DataTable, rows: Sequence[Row], columns: Sequence[_TextColumn], places: range
) -> None:
    """Add the rows at these places, with a gap where the group changes."""
    for place in places:
        ends_group = False
        if table.group and place + 1 in places:
            ends_group = rows[place + 1][table.group] != rows[place][table.group]
        # As Text: brackets in names of systems and judges are no markup (some ended a command in a traceback).
        cells = [Text(column.cells[place]) for column in columns]
        style = None
        if table.dim and rows[place][table.dim]:
            style = "dim"
        drawn.add_row(*cells, end_section=ends_group, style=style)


@dataclass(frozen=True, slots=True)
class _TextColumn:
    """A column as it is printed."""

    heading: str
    cells: Sequence[str]
    numeric: bool
    optional: bool

    def least_width(self, name_width: int) -> int:
        """The width that it needs where names fold at `name_width`."""
        width = max(map(cell_len, self.cells), default=0)
        width = max(width, cell_len(self.heading))
        # A number that is broken is another number.
        if self.numeric:
            return width
        return min(width, name_width)


def _text_column(column: Column, rows: Sequence[Row]) -> _TextColumn:
    cells = [printable(column.show(row)) for row in rows]
    return _TextColumn(printable(column.heading), cells, column.numeric, column.optional)


def _drop_optional(columns: list[_TextColumn], width: int, padding: int) -> None:
    """Remove optional columns, the last ones first, until the others fit."""
    for place in reversed(range(len(columns))):
        if _least_width(columns, padding, NAME_WIDTH) <= width:
            return
        if columns[place].optional:
            del columns[place]


def _least_width(columns: Sequence[_TextColumn], padding: int, name_width: int) -> int:
    """The width that columns need where names fold at `name_width`."""
    width = (len(columns) - 1) * (2 * padding + 1)
    for column in columns:
        width += column.least_width(name_width)
    return width


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
    if as_json is True:
        result: dict[str, Any] = {}
        for table in tables:
            result[table.name] = list(table.rows)
        result["notes"] = list(notes)
        print_json(result)
        return
    if as_json:
        print_json(as_json)
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
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    return lines.getvalue()


def free_name(name: str, used_names: set[str]) -> str:
    """Make `name` valid for files on any system, and distinct by a number."""
    # A statistic of another package may give its table any name. A dot at its beginning would hide the file.
    stem = _UNUSUAL.sub("_", name).strip("._")[:_NAME_CHARS] or "table"
    free, n = stem, 2
    while free.casefold() in used_names:  # Table and table are one file on macOS
        free, n = f"{stem}_{n}", n + 1
    used_names.add(free.casefold())
    return free


def with_free_names(tables: Iterable[DataTable], used_names: Iterable[str] = ()) -> Iterator[DataTable]:
    """Yield the tables that have rows, with distinct names that are valid for files and not in use."""
    names = set(used_names)
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
    if shown.startswith(_LIKE_FORMULAS) or _LEADING.sub("", shown).startswith(_LIKE_FORMULAS):
        return f"'{shown}"
    return shown


def make_table_folder(folder: Path) -> None:
    """Create a folder for tables if necessary. Raises UsageError."""
    # `cts converse` makes it before conversations are paid for.
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
    if table.shown == 0:
        return table.rows
    return shown_rows(table)


def text(key: str) -> Show:
    """Show the value of `key`, "-" for None."""

    def show(row: Row) -> str:
        if row[key] is None:
            return MISSING
        return str(row[key])

    return show


def text_columns(*keys: str) -> tuple[Column, ...]:
    """Return columns of text, each headed by its key."""
    return tuple(Column(key, text(key), numeric=False) for key in keys)


def number_columns(**specs: str) -> tuple[Column, ...]:
    """Return columns of numbers, each headed by its key and shown in Python's format."""
    return tuple(Column(key.replace("_", " "), number(key, spec)) for key, spec in specs.items())


def number(key: str, spec: str) -> Show:
    """Show a number in Python's format `spec`, "-" for None."""

    def show(row: Row) -> str:
        if row[key] is None:
            return MISSING
        return format(row[key], spec)

    return show


def p_value(key: str, digits: int = 3) -> Show:
    """Show a p-value; one that would be printed as 0 as below the smallest that is not: "<.001"."""
    show_number = number(key, f".{digits}f")
    zero = format(0, f".{digits}f")

    def show(row: Row) -> str:
        text = show_number(row)
        if text == zero:
            return f"<.{1:0{digits}d}"
        return text

    return show


def estimate(key: str, spec: str) -> Show:
    """Show a number with the interval in the fields of `interval_fields`; one without KEY_pairs is always shown."""

    def show(row: Row) -> str:
        if row[key] is None:
            return "-"
        if f"{key}_pairs" in row:
            return difference_text(_difference_of(row, key), spec)
        return with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], spec)

    return show


def difference_text(difference: Difference, spec: str) -> str:
    """Format `66.7 [50.0, 83.3]`, marked if the interval is too short; `66.7 [-]` where there is none to show.

    With the `spec` of a signed number it is a difference, and equal scores everywhere are NO_DIFFERENCE.
    """
    if difference.nowhere and spec.startswith("+"):
        return NO_DIFFERENCE
    if difference.interval is None:
        return f"{difference.mean:{spec}} {NO_INTERVAL}"
    low, high = difference.interval
    return with_interval(difference.mean, low, high, spec, short=difference.too_short)


def with_interval(
    value: float, low: float | None, high: float | None, spec: str, *, short: bool = False
) -> str:
    """Format `66.7 [50.0, 83.3]`, marked if the interval is too `short`; the value alone if there is none."""
    if low is None or high is None:
        return format(value, spec)
    text = f"{value:{spec}} [{low:{spec}}, {high:{spec}}]"
    if short:
        text += SHORT_MARK
    return text


def shown_rows(table: DataTable) -> Sequence[Row]:
    """Return the rows that are printed: `shown` of them, of each section."""
    if not table.section:
        return _evenly_spaced(table.rows, table.shown)
    shown: list[Row] = []
    for start, end in section_ranges(table, table.rows):
        shown += _evenly_spaced(table.rows[start:end], table.shown)
    return shown


def _evenly_spaced(rows: Sequence[Row], n: int | None) -> Sequence[Row]:
    if n is None or len(rows) <= n:
        return rows
    # Evenly, first and last row included: the frontier of ask-or-not runs from orig to the whole run.
    return [rows[round(i * (len(rows) - 1) / (n - 1))] for i in range(n)]


def interval_fields(key: str, difference: Difference | None) -> dict[str, Any]:
    """The fields that `estimate` reads, from a difference with its interval; ends are None where there is none."""
    if difference is None:
        return {
            key: None,
            f"{key}_pairs": 0,
            f"{key}_differ": 0,
            f"{key}_low": None,
            f"{key}_high": None,
            f"{key}_too_short": False,
        }
    return {
        key: difference.mean,
        f"{key}_pairs": difference.n,
        f"{key}_differ": difference.n_differ,
        f"{key}_low": difference.low,
        f"{key}_high": difference.high,
        f"{key}_too_short": difference.too_short,
    }


def _difference_of(row: Row, key: str) -> Difference:
    """The difference that `interval_fields` made these fields of."""
    return Difference(
        row[f"{key}_pairs"], row[key], row[f"{key}_low"], row[f"{key}_high"], row[f"{key}_differ"]
    )


def with_short_note(caption: str, rows: Sequence[Row]) -> str:
    """The caption, with explanations of marked and of missing intervals if a row has one."""
    differences: list[Difference] = []
    for row in rows:
        for name in row:
            key = name.removesuffix("_too_short")
            if key != name and row[key] is not None:
                differences.append(_difference_of(row, key))
    notes = interval_notes(differences)
    if caption:
        notes = (caption,) + notes
    return " ".join(notes)


def interval_notes(shown: Iterable[Difference]) -> tuple[str, ...]:
    """Explain those of the differences whose interval is marked as too short, or missing though there is a value."""
    any_short = any_missing = False
    for difference in shown:
        any_short |= difference.interval is not None and difference.too_short
        any_missing |= difference.interval is None and not difference.nowhere
    notes: list[str] = []
    if any_short:
        notes.append(SHORT_NOTE)
    if any_missing:
        notes.append(FEW_NOTE)
    return tuple(notes)


# Tables as Markdown

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")


def markdown(table: DataTable) -> str:
    """Format the printed rows as GitHub Markdown, under title and caption, with remarks below. All text is escaped."""
    heading = f"**{_escaped(table.title)}**"
    if table.caption:
        heading += f" {_escaped(table.caption)}"
    alignments: list[str] = []
    for column in table.columns:
        if column.numeric:
            alignments.append("---:")
        else:
            alignments.append(":---")
    headings = [_escaped(column.heading) for column in table.columns]
    lines = [heading, "", _line(headings), _line(alignments)]
    rows = written_rows(table)
    best = best_cells(table, rows)
    section_starts: set[int] = set()
    if table.section:
        section_starts = {start for start, _ in section_ranges(table, rows)}
    for i, row in enumerate(rows):
        if i in section_starts:
            # A cell of Markdown cannot span columns: the heading stands in the first one.
            heading_cells = [f"**{_escaped(str(row[table.section]))}**"]
            heading_cells += [""] * (len(table.columns) - 1)
            lines.append(_line(heading_cells))
        cells: list[str] = []
        for j, column in enumerate(table.columns):
            cell = _escaped(column.show(row))
            if (i, j) in best:
                cell = f"**{cell}**"
            cells.append(cell)
        lines.append(_line(cells))
    for remark in chain(bold_legend(table, best), table.remarks):
        lines += ["", _escaped(remark)]
    return "\n".join(lines) + "\n"


def best_cells(table: DataTable, rows: Sequence[Row]) -> frozenset[tuple[int, int]]:
    """Return (row, column) of the best values of each ranked column among these rows of a table, by section.

    Equals are all best, unless all are equal.
    """
    cells: set[tuple[int, int]] = set()
    for j, column in enumerate(table.columns):
        if column.rank is None:
            continue
        ranks = [column.rank(row) for row in rows]
        for start, end in section_ranges(table, rows):
            competing = {rank for rank in ranks[start:end] if rank is not None}
            # If all are equal, none is better than another.
            if len(competing) < 2:
                continue
            for i in range(start, end):
                if ranks[i] == max(competing):
                    cells.add((i, j))
    return frozenset(cells)


def bold_legend(table: DataTable, best: Collection[tuple[int, int]]) -> tuple[str, ...]:
    """Return the note on bold values, if the table has any."""
    if not (best and table.bold_note):
        return ()
    return (table.bold_note,)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", visible(" ".join(text.split())))
