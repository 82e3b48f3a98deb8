"""A table as data: its title, headings, rows of text and remarks; and how a terminal shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

WIDE: Final = 100
"""From so many columns on there is room between those of a table."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """`rows[i][j]` stands under `headings[j]`; the first `n_names` columns are names, the others numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    """Lines that belong to the table, to be read after it."""
    n_names: int = 1


def print_sheet(console: Console, sheet: Sheet) -> None:
    """Numbers stay whole, names fold where the terminal is narrow. Nothing in it is taken for markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1 if console.width >= WIDE else 0),
        pad_edge=False,
    )
    for i, heading in enumerate(sheet.headings):
        name = i < sheet.n_names
        table.add_column(
            Text(printable(heading)),
            justify="left" if name else "right",
            overflow="fold",
            no_wrap=not name,
            min_width=8 if name else None,
        )
    for row in sheet.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    say(console, sheet.title, style="italic")
    if sheet.rows:
        console.print(table)
    for remark in sheet.remarks:
        say(console, remark)


def say(console: Console, text: str, style: str | None = None) -> None:
    """A line that is wrapped at the terminal's width, whatever it holds."""
    console.print(printable(text), markup=False, highlight=False, style=style)


def printable(text: str) -> str:
    """The text with control characters made visible: names come from files that anybody may have written."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
