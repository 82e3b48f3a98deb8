"""Tables as data: printed rounded, written unrounded."""

from __future__ import annotations

import csv
import errno
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from cts_async.errors import StorageFull, UsageError
from cts_async.report.tables import Column, DataTable, estimate, number, p_value, print_table, text, write_csv

ROWS = [
    {"who": "gpt", "rate": 1 / 3, "gain": 1.005, "gain_low": -2.0, "gain_high": 4.0},
    {"who": "kimi", "rate": None, "gain": None, "gain_low": None, "gain_high": None},
]
COLUMNS = (
    Column("who", text("who"), numeric=False),
    Column("rate", number("rate", ".3f")),
    Column("gain", estimate("gain", "+.1f")),
)


def printed(table: DataTable, width: int = 80) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, color_system=None), table)
    return out.getvalue()


def test_numbers_are_printed_rounded_and_absent_ones_as_a_dash() -> None:
    lines = printed(DataTable("t", "A title", "A caption", COLUMNS, ROWS)).splitlines()
    assert lines[:2] == ["A title", "A caption"]
    assert lines[2].split() == ["who", "rate", "gain"]
    assert lines[4].split() == ["gpt", "0.333", "+1.0", "[-2.0,", "+4.0]"]
    assert lines[5].split() == ["kimi", "-", "-"]


def test_a_name_moves_no_cursor_and_is_no_markup() -> None:
    rows = [{"who": "[red]\x1b[2Jgpt"}]
    assert "[red]�[2Jgpt" in printed(DataTable("t", "", "", COLUMNS[:1], rows))


def test_a_heading_is_no_markup_either() -> None:
    columns = (Column("[bold]\x1b[2Jjudge[/]", text("who")),)
    assert "[bold]�[2Jjudge[/]" in printed(DataTable("t", "", "", columns, [{"who": "x"}]))


def test_a_long_name_folds() -> None:
    rows = [{**ROWS[0], "who": "openrouter:some-vendor/some-very-long-model-name-2026-preview"}]
    text = printed(DataTable("t", "", "", COLUMNS, rows), width=40)
    assert all(len(line) <= 40 for line in text.splitlines())
    assert "…" not in text
    assert "+1.0 [-2.0, +4.0]" in text


def test_a_table_without_rows_is_neither_printed_nor_written(tmp_path: Path) -> None:
    empty = DataTable("t", "A title", "", COLUMNS, [])
    assert printed(empty) == ""
    write_csv(tmp_path, empty)
    assert list(tmp_path.iterdir()) == []


def test_long_tables_show_rows_evenly_with_both_ends() -> None:
    table = DataTable("t", "", "", (Column("n", text("n")),), [{"n": n} for n in range(9)], shown=3)
    assert [line.strip() for line in printed(table).splitlines() if line.strip().isdigit()] == ["0", "4", "8"]
    assert printed(DataTable("t", "A title", "", (), [{"n": 1}], shown=0)) == ""


def test_csv_has_every_field_unrounded(tmp_path: Path) -> None:
    write_csv(tmp_path, DataTable("t", "", "", COLUMNS, ROWS))
    assert (tmp_path / "t.csv").read_text() == (
        "who,rate,gain,gain_low,gain_high\ngpt,0.3333333333333333,1.005,-2.0,4.0\nkimi,,,,\n"
    )


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("=cmd|'/C calc'!A1", "'=cmd|'/C calc'!A1"),
        ("+1 or -1", "'+1 or -1"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("refused\rby the server", "refused[U+000D]by the server"),
        ("nul\x00 red\x1b[31m \u202eturned", "nul[U+0000] red[U+001B][31m [U+202E]turned"),
        ("half \ud83d", "half �"),
        ("two\nlines, 1 = 1", "two\nlines, 1 = 1"),
        ("gpt-k3", "gpt-k3"),
    ],
)
def test_text_in_csv_is_a_text_for_spreadsheets_terminals_and_programs(
    said: str, written: str, tmp_path: Path
) -> None:
    write_csv(tmp_path, DataTable("t", "", "", (), [{"who": said, said: -1.5}]))
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["who", written], [written, "-1.5"]]


def test_a_full_disk_is_one_line_that_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFull, match=r"t\.csv: cannot write \(No space left on device\); make room"):
        write_csv(tmp_path, DataTable("t", "", "", COLUMNS, ROWS))


def test_the_folder_is_made_and_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
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
def test_a_p_value_is_never_printed_as_nought(p: float | None, digits: int, shown: str) -> None:
    assert p_value("p", digits)({"p": p}) == shown
