"""Tables as data, on a terminal, and as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cts_async.errors import StorageFull, UsageError
from cts_async.tables.table import (
    Column,
    DataTable,
    estimate,
    markdown,
    number,
    p_value,
    print_table,
    text,
    write_csv,
)

ROWS = [
    {"who": "gpt", "rate": 1 / 3, "gain": 1.005, "gain_low": -2.0, "gain_high": 4.0},
    {"who": "kimi", "rate": None, "gain": None, "gain_low": None, "gain_high": None},
]
COLUMNS = (
    Column("who", text("who"), numeric=False),
    Column("rate", number("rate", ".3f")),
    Column("gain", estimate("gain", "+.1f")),
)


def printed(table: DataTable, width: int = 80, *, terminal: bool = False) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, color_system=None, force_terminal=terminal), table)
    return out.getvalue()


def test_numbers_are_rounded_and_missing_ones_are_dashes() -> None:
    lines = printed(DataTable("t", "A title", "A caption", COLUMNS, ROWS)).splitlines()
    assert lines[:2] == ["A title", "A caption"]
    assert lines[2].split() == ["who", "rate", "gain"]
    assert lines[4].split() == ["gpt", "0.333", "+1.0", "[-2.0,", "+4.0]"]
    assert lines[5].split() == ["kimi", "-", "-"]


def test_names_are_printed_without_markup_or_control_characters() -> None:
    columns = (Column("[bold]\x1b[2Jjudge[/]", text("who")),)
    shown = printed(DataTable("t", "", "", columns, [{"who": "[red]\x1b[2Jgpt"}]))
    assert "[red]�[2Jgpt" in shown
    assert "[bold]�[2Jjudge[/]" in shown


def test_empty_table_is_neither_printed_nor_written(tmp_path: Path) -> None:
    empty = DataTable("t", "A title", "", COLUMNS, [])
    assert printed(empty) == ""
    write_csv(tmp_path, empty)
    assert list(tmp_path.iterdir()) == []


def test_long_table_shows_evenly_spaced_rows() -> None:
    table = DataTable("t", "", "", (Column("n", text("n")),), [{"n": n} for n in range(9)], shown=3)
    assert [line.strip() for line in printed(table).splitlines() if line.strip().isdigit()] == ["0", "4", "8"]
    assert printed(DataTable("t", "A title", "", (), [{"n": 1}], shown=0)) == ""


def test_csv_has_all_fields_unrounded(tmp_path: Path) -> None:
    write_csv(tmp_path, DataTable("t", "", "", COLUMNS, ROWS))
    assert (tmp_path / "t.csv").read_text() == (
        "who,rate,gain,gain_low,gain_high\ngpt,0.3333333333333333,1.005,-2.0,4.0\nkimi,,,,\n"
    )


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("=cmd|'/C calc'!A1", "'=cmd|'/C calc'!A1"),
        ("\n=cmd|'/C calc'!A1", "'\n=cmd|'/C calc'!A1"),
        (" \u3000\u200d\n＠SUM(1)", "' \u3000\u200d\n＠SUM(1)"),
        ("a\n=b", "a\n=b"),
        ("+1 or -1", "'+1 or -1"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("＝1+1", "'＝1+1"),
        ("\t=1", "'\t=1"),
        ("refused\rby the server", "refused[U+000D]by the server"),
        ("nul\x00 red\x1b[31m \u202eturned", "nul[U+0000] red[U+001B][31m [U+202E]turned"),
        ("half \ud83d", "half �"),
        ("two\nlines, 1 = 1", "two\nlines, 1 = 1"),
        ("gpt-k3", "gpt-k3"),
    ],
)
def test_csv_text_is_safe_for_spreadsheets_and_terminals(given: str, written: str, tmp_path: Path) -> None:
    write_csv(tmp_path, DataTable("t", "", "", (), [{"who": given, given: -1.5}]))
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["who", written], [written, "-1.5"]]


def test_full_disk_is_reported_with_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFull, match=r"t\.csv: cannot write \(No space left on device\); make room"):
        write_csv(tmp_path, DataTable("t", "", "", COLUMNS, ROWS))


def test_folder_is_created_and_file_in_its_place_refused(tmp_path: Path) -> None:
    table = DataTable("t", "", "", (), [{"a": 1}])
    write_csv(tmp_path / "new" / "er", table)
    assert (tmp_path / "new" / "er" / "t.csv").read_text() == "a\n1\n"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: is a file; name a folder for the tables"):
        write_csv(tmp_path / "file", table)
    with pytest.raises(UsageError, match=r"x: cannot create this folder \(Not a directory\)"):
        write_csv(tmp_path / "file" / "x", table)


@pytest.mark.parametrize(
    ("p", "digits", "shown"),
    [(0.05, 3, "0.050"), (0.0006, 3, "0.001"), (0.0004, 3, "<.001"), (0.00004, 4, "<.0001"), (None, 3, "-")],
)
def test_p_value_is_never_printed_as_0(p: float | None, digits: int, shown: str) -> None:
    assert p_value("p", digits)({"p": p}) == shown


def test_names_fold_and_numbers_do_not() -> None:
    columns = [
        Column("system", text("system"), numeric=False),
        *(Column(key, text(key)) for key in ("mean", "delta", "p50")),
    ]
    row = {"system": "gpt-at-cot-k3", "mean": "47.18", "delta": "-13.8 [-30.4, +0.7]", "p50": "50.00"}
    table = DataTable("t", "", "", columns, [row])

    def lines(width: int) -> list[str]:
        return [line.rstrip() for line in printed(table, width).splitlines()[2:] if line.strip()]

    assert lines(80) == ["gpt-at-cot-k3 47.18 -13.8 [-30.4, +0.7] 50.00"]
    # 12 for the name, 5, 19 and 5 for the numbers, 3 between them: 44.
    assert lines(44) == ["gpt-at-cot-k 47.18 -13.8 [-30.4, +0.7] 50.00", "3"]
    assert lines(1) == lines(44)  # overruns the terminal
    # A terminal would break the numbers, so names fold down to 8.
    on_terminal = printed(table, 40, terminal=True).splitlines()[2:4]
    assert [line.rstrip() for line in on_terminal] == ["gpt-at-c 47.18 -13.8 [-30.4, +0.7] 50.00", "ot-k3"]


def test_optional_columns_are_left_out_of_a_narrow_terminal_the_last_first() -> None:
    columns = [Column(key, text(key), optional=key.startswith("m")) for key in ("mean", "min", "scored")]
    table = DataTable("t", "", "", columns, [{"mean": "47.18", "min": "10.00", "scored": "14/14"}])

    def headings(width: int) -> list[str]:
        return printed(table, width, terminal=True).splitlines()[0].split()

    # 5, 5 and 6 columns wide, and a space between two.
    assert headings(18) == ["mean", "min", "scored"]
    assert headings(17) == headings(12) == ["mean", "scored"]
    assert headings(11) == headings(1) == ["scored"]
    assert printed(table, 11).splitlines()[0].split() == ["mean", "min", "scored"], "a file has all"


SCORED = [
    {"system": "orig", "mean": 40.0, "ref": True},
    {"system": "gpt_k1|x", "mean": 45.25, "ref": False},
    {"system": "ernie & 查询", "mean": 44.0, "ref": False},
]
SCORE_COLUMNS = (
    Column("system", text("system"), numeric=False),
    Column("mean Δ", number("mean", ".2f"), rank=lambda row: None if row["ref"] else row["mean"]),
)
TABLE = DataTable("scores", "Scores", "judge 100 % ernie", SCORE_COLUMNS, SCORED)


def test_markdown_has_a_row_for_each_row_and_bold_best() -> None:
    assert markdown(replace(TABLE, remarks=("n = 3.",))) == (
        "**Scores** judge 100 % ernie\n"
        "\n"
        "| system | mean Δ |\n"
        "| :--- | ---: |\n"
        "| orig | 40.00 |\n"
        "| gpt\\_k1\\|x | **45.25** |\n"
        "| ernie \\& 查询 | 44.00 |\n"
        "\n"
        "n = 3.\n"
    )


@given(st.text())
def test_markdown_text_stays_in_its_cell(name: str) -> None:
    line = markdown(DataTable("t", "T", "", SCORE_COLUMNS[:1], [{"system": name}])).split("\n")[4]
    cell = line.removeprefix("| ").removesuffix(" |")
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`]", cell)
