"""Names in narrow columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from cts_async.report.tables import Folded, folded


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("fake-at-standard-respond-k2", ["fake-at-standard-", "respond-k2"]),
        ("fake-at-cot-k2", ["fake-at-cot-k2"]),
        ("the original query alone", ["the original", "query alone"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmnopq", "rstuvwxyz"]),
        ("北京-地铁-时刻-表-冬天-的-问题", ["北京-地铁-时刻-表-冬天-的-问题"]),
        ("", [""]),
    ],
)
def test_a_name_breaks_after_a_hyphen_or_a_space(text: str, lines: list[str]) -> None:
    assert folded(text, 17) == lines


def test_a_cell_is_as_wide_as_it_has_room_and_holds_no_markup() -> None:
    def printed(width: int) -> list[str]:
        out = io.StringIO()
        table = Table(box=None, show_header=False, padding=0)
        table.add_column(overflow="fold")
        table.add_row(Folded("gpt-[red]-respond-k2"))
        Console(file=out, width=width, color_system=None).print(table)
        return [line.rstrip() for line in out.getvalue().splitlines()]

    assert printed(80) == ["gpt-[red]-respond-k2"]
    assert printed(18) == ["gpt-[red]-respond-", "k2"]
    assert all(len(line) <= 5 for line in printed(5))
