"""Tables on terminals that are too narrow for them."""

from __future__ import annotations

import io

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cts_async.report.tables import Column, DataTable, Folded, number, print_table, print_whole, text


def results() -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0, pad_edge=False)
    table.add_column("system", overflow="fold", min_width=8)
    for heading in ("mean", "Δ orig [95 % CI]", "p50"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(Folded("gpt-at-cot-k3"), "47.18", "-13.8 [-30.4, +0.7]", "50.00")
    return table


def lines(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    print_whole(Console(file=out, width=width, color_system=None), table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_names_fold_and_numbers_never_do() -> None:
    # 8 for the name, 5, 19 and 5 for the numbers, 3 between them.
    assert lines(results(), 40)[2:] == ["gpt-at-  47.18 -13.8 [-30.4, +0.7] 50.00", "cot-k3"]


def test_where_lines_run_over_the_edge_names_have_room() -> None:
    for width in (39, 1):
        assert lines(results(), width)[2:] == ["gpt-at-      47.18 -13.8 [-30.4, +0.7] 50.00", "cot-k3"]


def test_with_room_nothing_changes() -> None:
    assert lines(results(), 80)[2:] == ["gpt-at-cot-k3 47.18 -13.8 [-30.4, +0.7] 50.00"]


def test_padding_counts_between_columns() -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), pad_edge=False)
    for heading in ("account", "calls"):
        table.add_column(heading)
    table.add_row("ernie", "132")
    # 7 and 5, and a blank on either side of the one between them.
    assert lines(table, 9)[0] == "account   calls"
    assert lines(table, 9)[2:] == ["ernie     132"]


def test_a_narrow_terminal_shows_whose_numbers_stand_in_a_row() -> None:
    columns = [
        Column("system", text("system"), numeric=False),
        Column("minus", text("minus"), numeric=False),
        *(Column(key, number(key, ".3f")) for key in ("delta", "p", "detects")),
    ]
    row = {"system": "orig", "minus": "gpt-k3", "delta": 13.842, "p": 0.1133, "detects": 23.373}
    out = io.StringIO()
    print_table(Console(file=out, width=20, color_system=None), DataTable("t", "Tests", "", columns, [row]))
    assert "orig   gpt-k3 13.842 0.113  23.373" in out.getvalue().splitlines()
